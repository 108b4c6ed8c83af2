"""Charts from lines of metrics: which curves share a chart, which points are drawn, and their places on a unit square.

A point is (step, value). Positions on a chart are percentages from its left and top, so that the page can scale it to
any screen without scaling its labels.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

MAX_POINTS = 400  # about one per pixel on a phone
MAX_POINTS_OF_RUNS = 100  # per run if several share a chart, so that noise does not hide a curve
EVALUATED = "eval_"  # prefix of evaluation metrics
TRAINING, HELD_OUT = "training", "held out"  # labels of curves
NOT_NOISY = ("learning_rate",)  # curves drawn without smoothing
SMOOTHED, WINDOW = 40, 25  # with 40 points or more, each is averaged with 1/25 of them on either side
REFERENCE = "unigram_"  # prefix of scores of a model without context

SHARES = ("accuracy", "f1", "precision", "recall", "exact_match", "exact")  # suffixes of score names
PERCENTAGES = ("exact_match", "exact")  # scores of SQuAD, whose F1 is in percent
# Titles of the vertical axis by suffix of the metric's name.
AXES = {
    "loss": "loss",
    "entropy": "loss",
    "accuracy": "accuracy",
    "learning_rate": "learning rate",
    "gradient_norm": "L2 norm",
    "tokens_per_second": "tokens/s",
    "exact_match": "percent",
    "exact": "percent",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "": "value",
}

Metrics = Iterable[Mapping[str, Any]]  # lines of metrics.jsonl
Point = tuple[float, float]
Range = tuple[float, float]
Tick = tuple[str, float]  # text, position


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """A line of a chart: `path`, `smooth` and `dots` are SVG paths on a square of 1000 by 1000.

    last: the last value. smooth: moving average of a long curve, else "".
    style: the CSS class for its color.
    """

    label: str
    style: str
    points: list[list[float]]
    last: float
    path: str
    smooth: str
    dots: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chart:
    """A metric's curves on common axes.

    kind: "training" or the name of the evaluations, in charts of several runs.
    left_out: number of values that are not finite numbers. is_share: whether they are shares, shown in percent.
    """

    name: str
    kind: str
    curves: list[Curve]
    x_range: Range
    y_range: Range
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    reference: Tick | None
    left_out: int
    is_share: bool

    @property
    def axis_title(self) -> str:
        """Label of the vertical axis: "loss" for masked_lm_loss."""
        return next(title for end, title in AXES.items() if self.name.endswith(end))

    @property
    def data(self) -> dict[str, Any]:
        """Data for the page's script, which shows the values under the pointer."""
        curves = [{"label": curve.label, "style": curve.style, "points": curve.points} for curve in self.curves]
        return {"x": self.x_range, "y": self.y_range, "curves": curves, "isShare": self.is_share}

    def text(self, value: float) -> str:
        """Formats one of its values."""
        return percent_text(value) if self.is_share else number_text(value)


def charts(metrics: Metrics, references: Mapping[str, Any] | None = None, evaluated_on: str = HELD_OUT) -> list[Chart]:
    """Makes a chart of every metric with several points, in order of first appearance.

    metrics: dictionaries with "step"; "loss" and "eval_loss" share a chart. If a step was logged again after a restart,
        the later line counts. Values that are not finite numbers are skipped, and counted. A metric equal to an
        earlier one at every point is not drawn again.
    references: {name: number}; "unigram_loss" is a dashed line in the chart of "loss".
    evaluated_on: label of evaluation curves.
    """
    values, left_out = _by_metric(metrics)
    styles = {TRAINING: "training", evaluated_on: "held-out"}
    made: list[Chart] = []
    seen: list[dict[str, list[Point]]] = []
    for name, steps in values.items():
        curves = {
            label if label == TRAINING else evaluated_on: sorted(points.items())
            for label, points in steps.items()
            if points
        }
        if name.startswith(REFERENCE) and name.removeprefix(REFERENCE) in values:
            continue
        has_line = any(len(points) > 1 for points in curves.values()) or name in left_out
        if has_line and curves not in seen:  # the loss of a task with a single part repeats that part
            seen.append(curves)
            reference = (references or {}).get(REFERENCE + name)
            reference = reference if is_number(reference) else None
            made.append(_chart((name, ""), curves, reference, left_out.get(name, 0), styles))
    return made


def charts_of_runs(
    runs: Iterable[tuple[str, str, Metrics]], *, shared: bool = False, evaluated_on: str = HELD_OUT
) -> list[Chart]:
    """Makes charts of every metric with a curve per run; training and evaluation values have separate charts.

    runs: [(label, style, metrics)], metrics as for `charts`. shared: only metrics that at least two runs have.
    evaluated_on: label of evaluations.
    """
    runs = list(runs)
    curves_by_name: dict[tuple[str, str], dict[str, list[Point]]] = {}
    left_out: dict[tuple[str, str], int] = {}
    for label, _, metrics in runs:
        values, invalid = _by_metric(metrics)
        for metric, curves in values.items():
            for kind, points in curves.items():
                if points:
                    name = metric, kind if kind == TRAINING else evaluated_on
                    curves_by_name.setdefault(name, {})[label] = sorted(points.items())
                    left_out[name] = invalid.get(metric, 0) + left_out.get(name, 0)
    styles = {label: style for label, style, _ in runs}
    made: list[Chart] = []
    seen: list[dict[str, list[Point]]] = []
    for name, points_by_run in curves_by_name.items():
        has_line = any(len(points) > 1 for points in points_by_run.values()) or left_out[name]
        if has_line and points_by_run not in seen and (len(points_by_run) > 1 or not shared):
            seen.append(points_by_run)
            made.append(_chart(name, points_by_run, None, left_out[name], styles, MAX_POINTS_OF_RUNS))
    return made


def is_number(value: object) -> TypeGuard[float]:
    """Returns whether a value from a JSON file is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _by_metric(metrics: Metrics) -> tuple[dict[str, dict[str, dict[float, float]]], dict[str, int]]:
    """({metric: {curve label: {step: value}}}, {metric: number of values that are not finite numbers})."""
    values: dict[str, dict[str, dict[float, float]]] = {}
    left_out: dict[str, int] = {}
    for line in metrics:
        if not is_number(line.get("step")):
            continue
        for key, value in line.items():
            if key == "step" or isinstance(value, str | bool | list | dict):
                continue
            name, label = (key.removeprefix(EVALUATED), HELD_OUT) if key.startswith(EVALUATED) else (key, TRAINING)
            points = values.setdefault(name, {}).setdefault(label, {})
            if is_number(value):
                points[line["step"]] = value
            else:
                left_out[name] = left_out.get(name, 0) + 1
    return values, left_out


def _chart(
    name_and_kind: tuple[str, str],
    curves: Mapping[str, list[Point]],
    reference: float | None,
    left_out: int,
    styles: Mapping[str, str],
    max_points: int = MAX_POINTS,
) -> Chart:
    name, kind = name_and_kind
    drawn = {label: downsample(points, max_points) for label, points in curves.items()}
    steps = [step for points in drawn.values() for step, _ in points]
    heights = [value for points in drawn.values() for _, value in points]
    if reference is not None:
        heights.append(reference)
    x_range = min(steps), max(steps)
    x_ticks = [tick for tick in ticks(*x_range) if x_range[0] <= tick <= x_range[1]]
    if x_range[0] == x_range[1]:
        x_ticks = [x_range[0]]
    y_ticks = ticks(min(heights), max(heights))
    y_range = min(y_ticks[0], min(heights)), max(y_ticks[-1], max(heights))
    is_share = name.endswith(SHARES) and max(heights) <= 1
    if is_share:  # no tick above 100%
        y_ticks, y_range = [tick for tick in y_ticks if 0 <= tick <= 1], (max(0, y_range[0]), min(1, y_range[1]))
    tick_text = (lambda tick: f"{100 * tick:.4g}%") if is_share else number_text
    dashed = None if reference is None else (f"unigram {number_text(reference)}", 100 - _percentage(reference, y_range))
    return Chart(
        name=name,
        kind=kind,
        curves=[
            Curve(
                label=label,
                style=styles[label],
                points=[list(point) for point in points],
                last=curves[label][-1][1],
                path=_path(points, x_range, y_range),
                smooth="" if name in NOT_NOISY else _path(moving_average(points), x_range, y_range),
                dots=_dots(points, x_range, y_range),
            )
            for label, points in drawn.items()
        ],
        x_range=x_range,
        y_range=y_range,
        x_ticks=[(number_text(tick), _percentage(tick, x_range)) for tick in x_ticks],
        y_ticks=[(tick_text(tick), 100 - _percentage(tick, y_range)) for tick in y_ticks],
        reference=dashed,
        left_out=left_out,
        is_share=is_share,
    )


def scatter(points: Sequence[Point]) -> dict[str, Any]:
    """[(true, predicted)] on two equal axes: {"dots": an SVG path as in Curve, "ticks": for both axes}."""
    values = [value for point in points for value in point]
    marks = ticks(min(values), max(values))
    span = marks[0], marks[-1]
    dots = "".join(f"M{position}h0" for position in _positions(points, span, span))
    return {"dots": dots, "ticks": [(number_text(tick), _percentage(tick, span)) for tick in marks]}


def _positions(points: Iterable[Point], x_range: Range, y_range: Range) -> list[str]:
    return [
        f"{10 * _percentage(step, x_range):.1f} {1000 - 10 * _percentage(value, y_range):.1f}" for step, value in points
    ]


def _path(points: Sequence[Point], x_range: Range, y_range: Range) -> str:
    return f"M{'L'.join(_positions(points, x_range, y_range))}" if len(points) > 1 else ""


def _dots(points: Sequence[Point], x_range: Range, y_range: Range) -> str:
    return "".join(f"M{position}h0" for position in _positions(points, x_range, y_range)) if len(points) <= 30 else ""


def _percentage(value: float, span: Range) -> float:
    return 100 * (value - span[0]) / (span[1] - span[0]) if span[1] > span[0] else 50.0


def downsample(points: Sequence[Point], max_points: int = MAX_POINTS) -> Sequence[Point]:
    """At most `max_points` points: means of adjacent ones, which smooth a noisy curve without shifting it."""
    size = math.ceil(len(points) / max_points)
    if size <= 1:
        return points
    groups = [points[first : first + size] for first in range(0, len(points), size)]
    return [(sum(s for s, _ in group) / len(group), sum(v for _, v in group) / len(group)) for group in groups]


def moving_average(points: Sequence[Point]) -> Sequence[Point]:
    """Averages each value of a long curve with equally many neighbors on either side; [] for a short one.

    At the ends there are fewer neighbors, so that the average starts and ends with the curve.
    """
    if len(points) < SMOOTHED:
        return []
    averages = []
    for number, (step, _) in enumerate(points):
        reach = min(len(points) // WINDOW, number, len(points) - 1 - number)
        values = [value for _, value in points[number - reach : number + reach + 1]]
        averages.append((step, sum(values) / len(values)))
    return averages


def ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers that span `low` to `high`.

    ticks(0.3, 9.2)  ->  [0, 2, 4, 6, 8, 10]
    """
    if high <= low:
        margin = abs(low) / 2 or 1.0
        low, high = low - margin, high + margin
    magnitude = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(magnitude * size for size in (1, 2, 5, 10) if (high - low) / (magnitude * size) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]


def percent_text(value: Any) -> str:
    """Formats a share in percent: 0.643 -> 64.3%, 0.0004 -> 0.04%."""
    if not is_number(value):
        return "–"
    percentage = 100 * value
    return f"{percentage:.1f}%" if percentage == 0 or abs(percentage) >= 0.1 else f"{percentage:.1g}%"


def number_text(value: float) -> str:
    """Formats a number for reading: 22,713,728; 0.3142; 2.5e-05."""
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"

"""Lines of metrics to charts: which curves share one, which points are drawn, and where on a unit square they lie.

A point is (step, value). Places on a chart are percentages from its left and from its top, so that the page can stretch
it to any screen and set the words beside it in a size that stays.
"""

import dataclasses
import math

MOST_POINTS = 400  # about one for each pixel of a phone
MOST_OF_SEVERAL = 100  # of each of several runs, whose noise would hide one another
HELD_OUT = "eval_"  # what a metric's name begins with if it was measured on held-out text
REFERENCE = "unigram_"  # and if it is what a model that looks at no context reaches


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of a chart: `path` and `dots` are SVG paths on a square of 1000 by 1000; `last` is its last value.

    style: the class that gives it its colour.
    """

    label: str
    style: str
    points: list
    last: float
    path: str
    dots: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chart:
    """A metric's curves on common axes; ticks are (text, percentage); `reference` is (text, percentage) or None."""

    name: str
    curves: list
    x_range: tuple
    y_range: tuple
    x_ticks: list
    y_ticks: list
    reference: tuple | None
    left_out: int

    @property
    def data(self):
        """What the page needs to say the values under the pointer."""
        curves = [{"label": curve.label, "style": curve.style, "points": curve.points} for curve in self.curves]
        return {"x": self.x_range, "y": self.y_range, "curves": curves}


def charts(metrics, references=None):
    """Makes a chart of every metric, in the order of first appearance.

    metrics: dictionaries with "step"; "loss" and "eval_loss" share a chart. Where a step was logged again after a
        restart, the later line counts. Values that are not finite numbers are left out, and counted. A metric that
        repeats an earlier one point for point is not drawn again.
    references: {name: number}; "unigram_loss" is a dashed line in the chart of "loss".
    """
    values, left_out = _by_metric(metrics)
    drawn, seen = [], []
    for name, curves in values.items():
        curves = {label: sorted(points.items()) for label, points in curves.items() if points}
        if name.startswith(REFERENCE) and name.removeprefix(REFERENCE) in values:
            continue
        if curves and curves not in seen:  # a loss of one part is that part again
            seen.append(curves)
            reference = (references or {}).get(REFERENCE + name)
            drawn.append(_chart(name, curves, reference if is_number(reference) else None, left_out.get(name, 0)))
    return drawn


def side_by_side(runs, *, shared=False):
    """Makes a chart of every metric with a curve of each run; of training and of held-out text in charts of their own.

    runs: [(label, style, metrics)], metrics as `charts` takes them. shared: only of what two runs or more have.
    """
    found, left_out = {}, {}
    for label, _, metrics in runs:
        values, bad = _by_metric(metrics)
        for metric, curves in values.items():
            for kind, points in curves.items():
                if points:
                    name = metric if kind == "training" else f"{metric}_held_out"
                    found.setdefault(name, {})[label] = sorted(points.items())
                    left_out[name] = bad.get(metric, 0) + left_out.get(name, 0)
    styles = {label: style for label, style, _ in runs}
    drawn, seen = [], []
    for name, curves in found.items():
        if curves not in seen and (len(curves) > 1 or not shared):
            seen.append(curves)
            drawn.append(_chart(name, curves, None, left_out[name], styles, MOST_OF_SEVERAL))
    return drawn


def is_number(value):
    """Whether a value from a JSON file is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _by_metric(metrics):
    """{metric: {label of curve: {step: value}}} and {metric: how many values are no numbers}."""
    values, left_out = {}, {}
    for line in metrics:
        if not is_number(line.get("step")):
            continue
        for key, value in line.items():
            if key == "step" or isinstance(value, str | bool | list | dict):
                continue
            name, label = (key.removeprefix(HELD_OUT), "held out") if key.startswith(HELD_OUT) else (key, "training")
            points = values.setdefault(name, {}).setdefault(label, {})
            if is_number(value):
                points[line["step"]] = value
            else:
                left_out[name] = left_out.get(name, 0) + 1
    return values, left_out


def _chart(name, curves, reference, left_out, styles=None, most=MOST_POINTS):
    styles = styles or {label: label.replace(" ", "-") for label in curves}
    shown = {label: thinned(points, most) for label, points in curves.items()}
    steps = [step for points in shown.values() for step, _ in points]
    heights = [value for points in shown.values() for _, value in points]
    if reference is not None:
        heights.append(reference)
    x_range = min(steps), max(steps)
    x_ticks = [tick for tick in ticks(*x_range) if x_range[0] <= tick <= x_range[1]]
    if x_range[0] == x_range[1]:
        x_ticks = [x_range[0]]
    y_ticks = ticks(min(heights), max(heights))
    y_range = min(y_ticks[0], min(heights)), max(y_ticks[-1], max(heights))
    dashed = None if reference is None else (f"unigram {number_text(reference)}", 100 - _percentage(reference, y_range))
    return Chart(
        name=name,
        curves=[
            Curve(
                label=label,
                style=styles[label],
                points=[list(point) for point in points],
                last=curves[label][-1][1],
                **_paths(points, x_range, y_range),
            )
            for label, points in shown.items()
        ],
        x_range=x_range,
        y_range=y_range,
        x_ticks=[(number_text(tick), _percentage(tick, x_range)) for tick in x_ticks],
        y_ticks=[(number_text(tick), 100 - _percentage(tick, y_range)) for tick in y_ticks],
        reference=dashed,
        left_out=left_out,
    )


def _paths(points, x_range, y_range):
    places = [(10 * _percentage(step, x_range), 1000 - 10 * _percentage(value, y_range)) for step, value in points]
    places = [f"{x:.1f} {y:.1f}" for x, y in places]
    path = f"M{'L'.join(places)}" if len(places) > 1 else ""
    return {"path": path, "dots": "".join(f"M{place}h0" for place in places) if len(places) <= 30 else ""}


def _percentage(value, span):
    return 100 * (value - span[0]) / (span[1] - span[0]) if span[1] > span[0] else 50.0


def thinned(points, most=MOST_POINTS):
    """At most `most` points: the means of neighbours, so that a noisy curve becomes smoother, not another curve."""
    each = math.ceil(len(points) / most)
    if each <= 1:
        return points
    groups = [points[first : first + each] for first in range(0, len(points), each)]
    return [(sum(s for s, _ in group) / len(group), sum(v for _, v in group) / len(group)) for group in groups]


def ticks(low, high):
    """Round numbers, three to six of them, that reach from below `low` to above `high`.

    ticks(0.3, 9.2)  ->  [0, 2, 4, 6, 8, 10]
    """
    if high <= low:
        margin = abs(low) / 2 or 1.0
        low, high = low - margin, high + margin
    magnitude = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(magnitude * size for size in (1, 2, 5, 10) if (high - low) / (magnitude * size) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]


def number_text(value):
    """A number for reading: 22,713,728; 0.3142; 2.5e-05."""
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"

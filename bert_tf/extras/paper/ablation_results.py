"""Ablation results: Markdown tables with the paper's scores, and a figure with a row of panels per table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bert_tf.runtime import atomic_files

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]  # as in `ablation.results`
Score = Mapping[str, Any]

CAPTION = (
    "Percentages on development sets: mean ± standard deviation over fine-tuning seeds of one pre-trained model, in "
    "parentheses the difference to the first row; a collapsed run predicts one class for all inputs. Perplexity is "
    "computed on the predicted held-out tokens, which differ between objectives and masking mixes."
)
PAPER_CAPTION = "The paper's models are a hundred times as large."
COLOURS = ("#1f4e79", "#c55a11")  # of curves; points use the first
CURVES_HEIGHT = 2.4  # inches


def markdown(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables of `ablation.results` in Markdown, with a caption."""
    parts = [_table(**table) for table in tables.values()]
    has_paper = any(_paper_columns(table["rows"], table["published"]) for table in tables.values())
    caption = " ".join([CAPTION, *[PAPER_CAPTION] * has_paper])
    return "\n\n".join([*parts, caption]) + "\n"


def _table(title: str, rows: Sequence[Row], published: Mapping[str, Mapping[str, float]]) -> str:
    tasks, paper = list(rows[0]["tasks"]), _paper_columns(rows, published)
    has_loss = any("masked_lm_loss" in row["pretraining"] for row in rows)
    head = ["", *["perplexity"] * has_loss, *(_score_title(rows, task) for task in tasks)]
    lines = [f"## {title}", ""]
    lines.append(_line(head + [f"paper: {name}" for name in paper]))
    lines.append(_line(["---", *["---:"] * (len(head) + len(paper) - 1)]))
    for row in rows:
        loss = row["pretraining"].get("masked_lm_loss")
        cells = [row["name"], *["" if loss is None else f"{math.exp(loss):.1f}"] * has_loss]
        cells += [_cell(row["tasks"][task], rows[0]["tasks"][task]) for task in tasks]
        lines.append(_line(cells + [_number(row["paper"].get(name)) for name in paper]))
    for name, scores in published.items():
        lines.append(_line([name, *[""] * (len(head) - 1), *(_number(scores[column]) for column in paper)]))
    return "\n".join(lines)


def _paper_columns(rows: Iterable[Row], published: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The names of the paper's scores."""
    scores = [*(row["paper"] for row in rows), *published.values()]
    return list(dict.fromkeys(name for each in scores for name in each))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _score_title(rows: Iterable[Row], task: str) -> str:
    """The title of a task with its score: "SST-2, accuracy"."""
    name = next((row["tasks"][task]["score"] for row in rows if row["tasks"][task]), None)
    return f"{task}, {name}" if name else task


def _cell(score: Score | None, first: Score | None) -> str:
    if score is None:
        return "-"
    text = f"{100 * score['mean']:.1f}" + ("" if score["sd"] is None else f" ± {100 * score['sd']:.1f}")
    if first is not None and score is not first:
        text += f" ({100 * (score['mean'] - first['mean']):+.1f})"
    return ", ".join([text, *(f"{score[kind]} {kind}" for kind in ("collapsed", "failed") if score[kind])])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}".removesuffix("0")


def plot(tables: Mapping[str, Mapping[str, Any]], path: str) -> str:
    """Draws the tables of `ablation.results`; returns a clause on the figure's path, or why there is none."""
    try:
        import matplotlib
    except ImportError:
        return 'no figure was drawn, as matplotlib is missing: pip install "bert-tf[plots]".'
    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = list(next(iter(tables.values()))["rows"][0]["tasks"])
    heights = [CURVES_HEIGHT if _has_curves(table) else 0.6 + 0.34 * len(table["rows"]) for table in tables.values()]
    figure, axes = pyplot.subplots(
        len(tables), len(tasks), figsize=(3.2 + 3.4 * len(tasks), sum(heights) + 0.5 * len(tables)), squeeze=False,
        gridspec_kw={"height_ratios": heights}, layout="constrained",
    )  # fmt: skip
    for row, table in zip(axes, tables.values(), strict=True):
        draw = _draw_curves if _has_curves(table) else _draw_points
        for axis, task in zip(row, tasks, strict=True):
            draw(axis, table["rows"], task, is_first=axis is row[0])
            axis.tick_params(labelsize=8)
            for side in ("top", "right"):
                axis.spines[side].set_visible(False)
        row[0].set_title(table["title"], loc="left", fontsize=9, fontweight="bold", x=-0.02, y=1.0, pad=16)
    with atomic_files.atomic_write(path) as partial:
        figure.savefig(partial, format="png", dpi=130)
    pyplot.close(figure)
    return f"the figure is {path}."


def _has_curves(table: Mapping[str, Any]) -> bool:
    return all(row["curve"] for row in table["rows"])


def _percentages(rows: Iterable[Row], task: str) -> list[tuple[Row, float, float]]:
    """(row, mean, standard deviation) for the rows with a score."""
    scores = [(row, row["tasks"][task]) for row in rows]
    return [(row, 100 * score["mean"], 100 * (score["sd"] or 0)) for row, score in scores if score]


def _draw_points(axis: "Axes", rows: Sequence[Row], task: str, *, is_first: bool) -> None:
    """Draws one point per row, from the top, and a dotted line through the first."""
    scores = _percentages(rows, task)
    if scores:
        scored_rows, means, deviations = zip(*scores, strict=True)
        heights = [rows.index(row) for row in scored_rows]
        axis.errorbar(means, heights, xerr=deviations, fmt="o", color=COLOURS[0], capsize=3, markersize=5)
        axis.axvline(means[0], color="#999999", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(rows)), [row["name"] for row in rows] if is_first else [""] * len(rows))
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel(f"{_score_title(rows, task)} (%)", fontsize=8)
    axis.grid(axis="x", color="#eeeeee")


def _draw_curves(axis: "Axes", rows: Sequence[Row], task: str, *, is_first: bool) -> None:
    """Draws the score over the pre-training steps (log scale), one line per kind of model."""
    for name, colour in zip(dict.fromkeys(row["curve"] for row in rows), COLOURS, strict=True):
        scores = _percentages([row for row in rows if row["curve"] == name], task)
        if scores:
            scored_rows, means, deviations = zip(*scores, strict=True)
            steps = [row["steps"] for row in scored_rows]
            axis.errorbar(steps, means, yerr=deviations, fmt="o-", color=colour, capsize=3, markersize=5, label=name)
    axis.set_xscale("log", base=2)
    ticks = sorted({row["steps"] for row in rows})
    axis.set_xticks(ticks, [f"{step:,}" for step in ticks])
    axis.set_xlabel("pre-training steps", fontsize=8)
    axis.set_ylabel(f"{_score_title(rows, task)} (%)", fontsize=8)
    axis.grid(color="#eeeeee")
    if is_first and axis.has_data():
        axis.legend(fontsize=8, frameon=False)

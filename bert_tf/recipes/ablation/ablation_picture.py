"""What came of ablations as a picture: a row of panels a table, a panel a task."""

from bert_tf.recipes.ablation.ablation_tables import scored_title
from bert_tf.runtime import atomic_files

COLOURS = ("#1f4e79", "#c55a11")  # of curves; points have the first
CURVES_HEIGHT = 2.4  # inches


def plot(found, path):
    """Draws the tables of `ablation.results`; says where the picture is, or why there is none."""
    try:
        import matplotlib
    except ImportError:
        return 'there is no picture, as matplotlib is missing: pip install "bert-tf[plots]".'
    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = list(next(iter(found.values()))["rows"][0]["tasks"])
    heights = [CURVES_HEIGHT if _is_curves(table) else 0.6 + 0.34 * len(table["rows"]) for table in found.values()]
    figure, axes = pyplot.subplots(
        len(found), len(tasks), figsize=(3.2 + 3.4 * len(tasks), sum(heights) + 0.5 * len(found)), squeeze=False,
        gridspec_kw={"height_ratios": heights}, layout="constrained",
    )  # fmt: skip
    for row, table in zip(axes, found.values(), strict=True):
        draw = _curves if _is_curves(table) else _panel
        for axis, task in zip(row, tasks, strict=True):
            draw(axis, table["rows"], task, is_first=axis is row[0])
            axis.tick_params(labelsize=8)
            for side in ("top", "right"):
                axis.spines[side].set_visible(False)
        row[0].set_title(table["title"], loc="left", fontsize=9, fontweight="bold", x=-0.02, y=1.0, pad=16)
    with atomic_files.atomic_write(path) as partial:
        figure.savefig(partial, format="png", dpi=130)
    pyplot.close(figure)
    return f"look at {path}."


def _is_curves(table):
    return all(row["curve"] for row in table["rows"])


def _known(rows, task):
    """(row, per cent, deviation) of the rows that have a score."""
    scores = [(row, row["tasks"][task]) for row in rows]
    return [(row, 100 * score["mean"], 100 * (score["sd"] or 0)) for row, score in scores if score]


def _panel(axis, rows, task, *, is_first):
    """A point a row, from the top; a dotted line goes through the first."""
    known = _known(rows, task)
    if known:
        of, means, deviations = zip(*known, strict=True)
        places = [rows.index(row) for row in of]
        axis.errorbar(means, places, xerr=deviations, fmt="o", color=COLOURS[0], capsize=3, markersize=5)
        axis.axvline(means[0], color="#999999", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(rows)), [row["name"] for row in rows] if is_first else [""] * len(rows))
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel(f"{scored_title(rows, task)} (%)", fontsize=8)
    axis.grid(axis="x", color="#eeeeee")


def _curves(axis, rows, task, *, is_first):
    """The score against the steps of pre-training, which double, a line for each kind of model."""
    for name, colour in zip(dict.fromkeys(row["curve"] for row in rows), COLOURS, strict=True):
        known = _known([row for row in rows if row["curve"] == name], task)
        if known:
            of, means, deviations = zip(*known, strict=True)
            steps = [row["steps"] for row in of]
            axis.errorbar(steps, means, yerr=deviations, fmt="o-", color=colour, capsize=3, markersize=5, label=name)
    axis.set_xscale("log", base=2)
    ticks = sorted({row["steps"] for row in rows})
    axis.set_xticks(ticks, [f"{step:,}" for step in ticks])
    axis.set_xlabel("steps of pre-training", fontsize=8)
    axis.set_ylabel(f"{scored_title(rows, task)} (%)", fontsize=8)
    axis.grid(color="#eeeeee")
    if is_first and axis.has_data():
        axis.legend(fontsize=8, frameon=False)

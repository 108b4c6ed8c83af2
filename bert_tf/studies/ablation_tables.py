"""What came of ablations, for people: tables beside the paper's figures, and a picture."""

import math

from bert_tf import whole_files

HOW_TO_READ = (
    "Per cent on development sets: mean ± deviation over the seeds of fine-tuning one pre-trained model, in brackets "
    "the difference to the first row; a collapsed run guesses the same for everything. Perplexity is of held-out "
    "pieces that are guessed; left to right they are others, and in another mix they are shown otherwise."
)
NOT_LIKE_OURS = "The paper's figures are of models a hundred times as large."


def markdown(found):
    """The tables of `ablation.results` in Markdown, and how to read them."""
    parts = [_table(**table) for table in found.values()]
    has_paper = any(_said(table["rows"], table["published"]) for table in found.values())
    notes = " ".join([HOW_TO_READ, *[NOT_LIKE_OURS] * has_paper])
    return "\n\n".join([*parts, notes]) + "\n"


def _table(title, rows, published):
    tasks, said = list(rows[0]["tasks"]), _said(rows, published)
    has_loss = any("masked_lm_loss" in row["pretraining"] for row in rows)
    head = ["", *["perplexity"] * has_loss, *(_title(rows, task) for task in tasks)]
    lines = [f"## {title}", ""]
    lines.append(_line(head + [f"paper: {name}" for name in said]))
    lines.append(_line(["---", *["---:"] * (len(head) + len(said) - 1)]))
    for row in rows:
        cells = [row["name"], *[_perplexity(row)] * has_loss]
        cells += [_cell(row["tasks"][task], rows[0]["tasks"][task]) for task in tasks]
        lines.append(_line(cells + [_number(row["paper"].get(name)) for name in said]))
    for name, scores in published.items():
        lines.append(_line([name, *[""] * (len(head) - 1), *(_number(scores[each]) for each in said)]))
    return "\n".join(lines)


def _said(rows, published):
    """The names of what the paper says."""
    scores = [*(row["paper"] for row in rows), *published.values()]
    return list(dict.fromkeys(name for each in scores for name in each))


def _line(cells):
    return f"| {' | '.join(cells)} |"


def _title(rows, task):
    name = next((row["tasks"][task]["score"] for row in rows if row["tasks"][task]), None)
    return f"{task}, {name}" if name else task


def _perplexity(row):
    loss = row["pretraining"].get("masked_lm_loss")
    return "" if loss is None else f"{math.exp(loss):.1f}"


def _cell(score, first):
    if score is None:
        return "-"
    text = f"{100 * score['mean']:.1f}" + ("" if score["sd"] is None else f" ± {100 * score['sd']:.1f}")
    if first is not None and score is not first:
        text += f" ({100 * (score['mean'] - first['mean']):+.1f})"
    return ", ".join([text, *(f"{score[kind]} {kind}" for kind in ("collapsed", "failed") if score[kind])])


def _number(value):
    return "" if value is None else f"{value:.2f}".removesuffix("0")


def plot(found, path):
    """Draws every table as a picture, one panel a task; says where it is, or why there is none."""
    try:
        import matplotlib
    except ImportError:
        return 'there is no picture, as matplotlib is missing: pip install "bert-tf[plots]".'
    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = list(next(iter(found.values()))["rows"][0]["tasks"])
    heights = [0.6 + 0.34 * len(table["rows"]) for table in found.values()]
    figure, axes = pyplot.subplots(
        len(found), len(tasks), figsize=(3.2 + 3.4 * len(tasks), sum(heights) + 0.5 * len(found)), squeeze=False,
        gridspec_kw={"height_ratios": heights}, layout="constrained",
    )  # fmt: skip
    for row, table in zip(axes, found.values(), strict=True):
        for axis, task in zip(row, tasks, strict=True):
            _panel(axis, table, task, with_names=axis is row[0])
        row[0].set_title(table["title"], loc="left", fontsize=9, fontweight="bold", x=-0.02, y=1.0, pad=16)
    with whole_files.beside(path) as partial:
        figure.savefig(partial, format="png", dpi=130)
    pyplot.close(figure)
    return f"look at {path}."


def _panel(axis, table, task, *, with_names):
    rows = table["rows"]
    scores = [row["tasks"][task] for row in rows]
    known = [(place, 100 * each["mean"], 100 * (each["sd"] or 0)) for place, each in enumerate(scores) if each]
    if known:
        at, means, deviations = zip(*known, strict=True)
        axis.errorbar(means, at, xerr=deviations, fmt="o", color="#1f4e79", capsize=3, markersize=5)
        axis.axvline(means[0], color="#999999", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(rows)), [row["name"] for row in rows] if with_names else [""] * len(rows), fontsize=8)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel(f"{_title(rows, task)} (%)", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    axis.grid(axis="x", color="#eeeeee")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)

"""What came of ablations, for people: tables beside the paper's figures."""

import math

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
    head = ["", *["perplexity"] * has_loss, *(scored_title(rows, task) for task in tasks)]
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


def scored_title(rows, task):
    """A task and the name of the score that is shown of it."""
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

"""The results of ablations as Markdown tables, next to the paper's scores."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]  # as `ablation.results` has it
Score = Mapping[str, Any]

CAPTION = (
    "Percentages on development sets: mean ± standard deviation over fine-tuning seeds of one pre-trained model, in "
    "parentheses the difference to the first row; a collapsed run predicts one class for all inputs. Perplexity is "
    "that of the predicted held-out tokens, which differ between objectives and masking mixes."
)
PAPER_CAPTION = "The paper's scores are those of models a hundred times as large."


def markdown(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables of `ablation.results` in Markdown, with a caption."""
    parts = [_table(**table) for table in tables.values()]
    has_paper = any(_paper_columns(table["rows"], table["published"]) for table in tables.values())
    caption = " ".join([CAPTION, *[PAPER_CAPTION] * has_paper])
    return "\n\n".join([*parts, caption]) + "\n"


def _table(title: str, rows: Sequence[Row], published: Mapping[str, Mapping[str, float]]) -> str:
    tasks, paper = list(rows[0]["tasks"]), _paper_columns(rows, published)
    has_loss = any("masked_lm_loss" in row["pretraining"] for row in rows)
    head = ["", *["perplexity"] * has_loss, *(score_title(rows, task) for task in tasks)]
    lines = [f"## {title}", ""]
    lines.append(_line(head + [f"paper: {name}" for name in paper]))
    lines.append(_line(["---", *["---:"] * (len(head) + len(paper) - 1)]))
    for row in rows:
        cells = [row["name"], *[_perplexity(row)] * has_loss]
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


def score_title(rows: Iterable[Row], task: str) -> str:
    """A task and the name of its score: "SST-2, accuracy"."""
    name = next((row["tasks"][task]["score"] for row in rows if row["tasks"][task]), None)
    return f"{task}, {name}" if name else task


def _perplexity(row: Row) -> str:
    loss = row["pretraining"].get("masked_lm_loss")
    return "" if loss is None else f"{math.exp(loss):.1f}"


def _cell(score: Score | None, first: Score | None) -> str:
    if score is None:
        return "-"
    text = f"{100 * score['mean']:.1f}" + ("" if score["sd"] is None else f" ± {100 * score['sd']:.1f}")
    if first is not None and score is not first:
        text += f" ({100 * (score['mean'] - first['mean']):+.1f})"
    return ", ".join([text, *(f"{score[kind]} {kind}" for kind in ("collapsed", "failed") if score[kind])])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}".removesuffix("0")

"""How the labels of a table are read, both in training and in evaluation: missing values, spellings, bad rows."""

import collections
import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base import prediction_files
from bert_tf.heads.base.text_head import TextHead

NO_VALUE = ("nan", "NaN", "<NA>", "#N/A")  # how NumPy, pandas and Excel write a missing value
MAX_NAMED = 5  # bad rows to list
log = logging.getLogger("bert_tf")


def is_blank(cell: Any) -> bool:
    """Returns whether a cell of a table is empty or contains a missing value."""
    return cell is None or isinstance(cell, str) and cell.strip() in ("", *NO_VALUE)


def lacking(row: Example, head: TextHead | type[TextHead], *, needs_label: bool = True) -> str:
    """Returns "label" or "text" if a row needs it and lacks it, else ""."""
    if needs_label and row.label in head.missing:
        return "label"
    return "" if any(text.strip() for text in row.texts) else "text"


def with_value(row: Example, named: Sequence[str], head: TextHead | type[TextHead]) -> Example:
    """The row without a label or text that means a missing value, unless a label of that name is `named`.

    A label written with an apostrophe, for spreadsheets, is read without it.
    """
    label = row.label.strip() if isinstance(row.label, str) else None
    if label is not None and label not in named and label != (plain := prediction_files.without_apostrophe(label)):
        row = dataclasses.replace(row, label=plain)
    if label is not None and label in {*NO_VALUE, *head.missing} - set(named):
        row = dataclasses.replace(row, label=None)
    if any(text.strip() in NO_VALUE for text in row.texts):
        row = dataclasses.replace(row, texts=tuple("" if text.strip() in NO_VALUE else text for text in row.texts))
    return row


def check_several(labels: Sequence[str], path: str, column: str) -> None:
    """Raises UserError unless a column of a table has two labels or more."""
    if len(labels) < 2:
        raise UserError(
            f"{path} has {f'only the label {labels[0]!r}' if labels else 'no label'} in its column {column!r}; "
            "expected two or more to tell apart."
        )


def normalized(label: Any) -> Any:
    """A label as lower-case text with single spaces; other values unchanged."""
    return " ".join(label.split()).lower() if isinstance(label, str) else label


def spelling(labels: Sequence[str]) -> Callable[[Example], Example]:
    """A function that changes the label of a row to the one in `labels` that differs only in case or spaces."""
    spellings: dict[str, list[str]] = collections.defaultdict(list)
    for label in labels:
        spellings[normalized(label)].append(label)

    def spelled(row: Example) -> Example:
        known = spellings.get(normalized(row.label), []) if isinstance(row.label, str) else []
        is_variant = len(known) == 1 and row.label.strip() != known[0]
        return dataclasses.replace(row, label=known[0]) if is_variant else row

    return spelled


def report_bad(source: str, reasons: Sequence[str], *, stops: bool, flag: str = "--bad_rows") -> None:
    """Warns about skipped rows or, if `stops`, raises UserError. Does nothing without reasons.

    source: the source of the rows. reasons: one per row, such as "line 5 of reviews.csv has no label".
    flag: the flag for `stops` as the user writes it; "" if there is none.
    """
    if not reasons:
        return
    more = len(reasons) - MAX_NAMED
    named = "; ".join(reasons[:MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")
    rows, are = ("row", "is") if len(reasons) == 1 else ("rows", "are")
    if stops:
        raise UserError(f"{len(reasons)} {rows} {are} bad: {named}. Fix them or pass {flag}=skip.")
    refuses = f" ({flag}=stop refuses them)" if flag else ""
    log.warning("%d %s of %s %s skipped%s: %s.", len(reasons), rows, source, are, refuses, named)

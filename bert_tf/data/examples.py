"""Example: one row of a labeled table, for tasks on whole texts. Free of TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.data import tables
from bert_tf.errors import UserError

HOLDS, HOLDS_NOT = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")  # values in a multi-label column
MAX_NAMED = 12  # labels named in an error


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """The texts and the label of a row, as in the file (None without label); `location` is for error messages.

    other: the columns of the row other than texts and id, for search.
    row: all columns of the row in file order, to keep them in predictions; None if it is not from a table.
    """

    id: str
    texts: tuple[str, ...]
    label: Any = None
    location: str = ""
    other: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    row: Mapping[str, Any] | None = None

    def encode(self) -> list[bytes]:
        """The texts as UTF-8; UserError for a lone surrogate, which JSON allows."""
        try:
            return [text.encode() for text in self.texts]
        except UnicodeEncodeError:
            raise UserError(f"In {self.location} a text is not Unicode: it contains half a surrogate pair.") from None


def joined_words(text: Any) -> Any:
    """Joins a list of words with spaces, which does not change its tokens; other values are unchanged."""
    if isinstance(text, list) and all(isinstance(word, str) for word in text):
        return " ".join(text)
    return text


def label_columns(label: str | None, row: Mapping[str, Any]) -> list[str]:
    """The label columns: one, or several separated by commas, each with true or false; [] for None."""
    if not label:
        return []
    return [label] if label in row or "," not in label else [name.strip() for name in label.split(",")]


def label_of(label: str | None, row: Mapping[str, Any]) -> Any:
    """The label of a row; for several columns the list of the true ones, None if all are empty.

    Example:
        >>> label_of("sport,news", {"sport": "1", "news": "0"})
        ['sport']
    """
    names = label_columns(label, row)
    if len(names) < 2:
        return row.get(names[0]) if names else None
    if all(row.get(name) in (None, "") for name in names):
        return None
    return [name for name in names if str(row.get(name)).strip().lower() in HOLDS]


def read(
    path: str,
    *,
    texts: Sequence[str],
    label: str | None = None,
    id_column: str | None = None,
    columns: Sequence[str] | None = None,
    malformed: list[str] | None = None,
    none_is_empty: bool = False,
) -> list[Example]:
    """Reads the examples of a table, in order.

    Args:
        path: the table.
        texts: the text columns; in JSONL and Parquet, texts may be lists of words.
        label: the label column, or several, see `label_of`; None: labels are not read.
        id_column: the id column; None: the id is the row number, from 0.
        columns: column names for a file without a header, as for `tables.read`.
        malformed: collects the places of malformed rows, as for `tables.read`.
        none_is_empty: whether a missing text (null in JSON) becomes "".

    Raises:
        UserError: a column is missing, a text is not a string, or `tables.read` raises it.
    """
    examples: list[Example] = []
    for location, row in tables.read(path, columns, malformed=malformed):
        if not examples:
            tables.check_columns(path, row, [*texts, *label_columns(label, row), *filter(None, [id_column])])
        example_id = str(len(examples)) if id_column is None else tables.row_id(row, id_column, location)
        values: tuple[Any, ...] = tuple(joined_words(row.get(name)) for name in texts)
        if none_is_empty:
            values = tuple("" if text is None else text for text in values)
        if not all(isinstance(text, str) for text in values):
            raise UserError(f"In {location} a text is {values!r}; expected strings in {', '.join(texts)}.")
        examples.append(Example(example_id, values, label_of(label, row), location))
    return examples


def label_text(label: Any) -> str | None:
    """A label of any table as stripped text: 1, 1.0 and "1" of JSON are one label, true is "true"; None stays None."""
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return label if label is None else str(label).strip()


def single_label(example: Example) -> str | None:
    """The label of an example as text; UserError if it is a list or an object, as JSON allows."""
    if isinstance(example.label, list | dict):
        raise UserError(
            f"In {example.location} the label is {example.label!r}; expected one text or number. Several labels of an "
            "example need label_type=multi_label."
        )
    return label_text(example.label)


def first_labels(labels: Sequence[str]) -> str:
    """The first few labels, for an error."""
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    return ", ".join(labels[:MAX_NAMED]) + more

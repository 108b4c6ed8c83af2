"""Example: one row of a labelled table, as the tasks on whole texts see it. Free of TensorFlow."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.data import tables
from bert_tf.errors import UserError

HOLDS, HOLDS_NOT = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")  # in a column of one of several labels


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """Its texts, and the label as the file writes it (None if it has none); `location` is for error messages.

    other: the columns of its row that are neither texts nor id, for search.
    row: all columns of its row in the order of the file, to keep them in predictions; None if it is of no table.
    """

    id: str
    texts: tuple[str, ...]
    label: Any = None
    location: str = ""
    other: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    row: Mapping[str, Any] | None = None

    def encode(self) -> list[bytes]:
        """The texts as UTF-8; UserError if one holds a lone surrogate, as JSON may."""
        try:
            return [text.encode() for text in self.texts]
        except UnicodeEncodeError:
            raise UserError(f"In {self.location} a text is not Unicode: it holds half a surrogate pair.") from None


def joined_words(text: Any) -> Any:
    """A text that a table holds as a list of words, joined by spaces, which tokenizes to the same; others unchanged."""
    if isinstance(text, list) and all(isinstance(word, str) for word in text):
        return " ".join(text)
    return text


def label_columns(label: str | None, row: Mapping[str, Any]) -> list[str]:
    """The columns of a label: one, or several with commas, of which each says whether it holds; [] for None."""
    if not label:
        return []
    return [label] if label in row or "," not in label else [name.strip() for name in label.split(",")]


def label_of(label: str | None, row: Mapping[str, Any]) -> Any:
    """The label of a row; with several columns the list of those that hold, None if all of them are empty.

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
    """Reads the examples of a table, in its order.

    Args:
        path: the table.
        texts: the columns with the texts; JSONL and Parquet may have them as lists of words.
        label: the column with the label, or several, see `label_of`; None: labels are not read.
        id_column: the column with the id; without it, the id is the number of the row, from 0.
        columns: the names of the columns of a file without a header, as for `tables.read`.
        malformed: collects the places of malformed rows, as for `tables.read`.
        none_is_empty: whether a missing text, as JSON may have it, is "".

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

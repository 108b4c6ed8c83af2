"""Labels of examples as text, from any kind of table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bert_tf.data.examples import Example
from bert_tf.errors import UserError

MAX_NAMED = 12  # labels named in an error


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


def shortened(labels: Sequence[str]) -> str:
    """The first few labels, for an error."""
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    return ", ".join(labels[:MAX_NAMED]) + more

"""Reranker: a cross-encoder that scores how well a text answers a query."""

from collections.abc import Sequence
from typing import Self

import numpy as np

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import loaded_model, opening
from bert_tf.export.batches import predict_in_order
from bert_tf.export.text_function import TextFunction

POSITIVE = ("1", "true", "yes", "positive", "relevant", "entailment", "equivalent", "duplicate", "paraphrase")


class Reranker:
    """A cross-encoder, a classifier of pairs, or another model that assigns a number to pairs.

    Args:
        pairs: the model.
        labels: names of its classes, () for a model that returns a number.
        label: the class whose probability ranks texts; "" for the one of POSITIVE, or the number.
    """

    def __init__(self, pairs: TextFunction, labels: Sequence[str] = (), label: str = "") -> None:
        """Raises UserError if the model takes no pairs, or it is not clear which class means a match."""
        if list(pairs.inputs) != ["text_a", "text_b"]:
            raise UserError(
                f"{pairs.source} takes {' and '.join(pairs.inputs)}; expected a cross-encoder, which takes text_a and "
                "text_b."
            )
        self._pairs, self._number = pairs, _class(pairs.source, list(labels), label)

    @classmethod
    def load(cls, path: str, label: str = "") -> Self:
        """The reranker in an export, a run with one, or a checkpoint; raises UserError like the constructor."""
        export = opening.open_model(loaded_model.find(path), opening.TENSORFLOW, texts=2)
        return cls(export, export.labels, label)

    def __call__(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """The score of each text for a query, float [n], higher is better."""
        examples = (Example(str(number), (query, text), None, f"text {number}") for number, text in enumerate(texts))
        size = self._pairs.batch_size
        rows = predict_in_order(self._pairs, examples, batch_size=size, window=max(1, len(texts)))
        if self._number is None:
            return np.array([float(values["values"]) for _, values in rows])
        return np.array([float(values["probabilities"][self._number]) for _, values in rows])


def positive(labels: Sequence[str]) -> int | None:
    """The number of the class that means a match; None if no label, or more than one, does."""
    found = [number for number, label in enumerate(labels) if str(label).lower() in POSITIVE]
    return found[0] if len(found) == 1 else None


def _class(path: str, labels: list[str], label: str) -> int | None:
    """The number of the class that means a match; None for a model that returns a number."""
    if not labels and not label:
        return None
    number = (labels.index(label) if label in labels else None) if label else positive(labels)
    if number is None:
        given = f"has no label {label!r}" if label else "does not specify which label means a match"
        raise UserError(f"{path} {given}: pass one of {', '.join(labels) or '(none)'} as reranker_label.")
    return number

"""Reranker: a model of pairs that says how well a text answers a query."""

from collections.abc import Sequence

import numpy as np

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import loaded_model

POSITIVE = ("1", "true", "yes", "positive", "relevant", "entailment", "equivalent", "duplicate", "paraphrase")


class Reranker:
    """The export of a classifier of pairs, or of a model that gives pairs a number.

    Args:
        path: of an export, or of a run with one.
        label: the class whose probability ranks texts; "" for the one of POSITIVE, or the number.
    """

    def __init__(self, path: str, label: str = "") -> None:
        """Loads it; UserError where it takes no pairs, or it is not clear which class means a match."""
        self._export = loaded_model.Export(loaded_model.find(path), texts=2)
        if list(self._export.inputs) != ["text_a", "text_b"]:
            raise UserError(
                f"{path} takes {' and '.join(self._export.inputs)}; expected a model of pairs, which takes text_a and "
                "text_b."
            )
        self._number = self._class(path, label)

    def _class(self, path: str, label: str) -> int | None:
        labels = list(self._export.labels)
        if not labels and not label:
            return None
        named = [label] if label else [name for name in labels if name.lower() in POSITIVE]
        if len(named) != 1 or named[0] not in labels:
            given = f"has no label {label!r}" if label else "does not say which of its labels means a match"
            raise UserError(f"{path} {given}: give one of {', '.join(labels) or '(none)'} as reranker_label.")
        return labels.index(named[0])

    def __call__(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """The score of each text for a query, float [n], higher is better."""
        examples = (Example(str(number), (query, text), None, f"text {number}") for number, text in enumerate(texts))
        rows = loaded_model.predict_in_order(
            self._export, examples, batch_size=self._export.batch_size, window=len(texts)
        )
        if self._number is None:
            return np.array([float(values["values"]) for _, values in rows])
        return np.array([float(values["probabilities"][self._number]) for _, values in rows])

"""Relevance of a text to a query: a cross-encoder with one output, a probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.relevance_score import RelevanceScore
from bert_tf.runtime.lazy import tf
from bert_tf.training import confidence
from bert_tf.training.task import Batch


class Relevance(RelevanceScore):
    """A number from 0 to 1 for a pair, learned by binary cross entropy; labels are also from 0 to 1."""

    kind = "relevance"
    loss_name: ClassVar[str] = "binary_cross_entropy"

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """The numbers, float32 [n]; UserError with the position of any that is not from 0 to 1."""
        found = super().encode(examples)
        wrong = np.flatnonzero((found < 0) | (found > 1))
        if wrong.size:
            example = examples[wrong[0]]
            raise UserError(
                f"In {example.location} the label is {example.label!r}; expected a number from 0 to 1, or pass "
                "label_type=relevance_score for other scores."
            )
        return found

    def loss(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        """Binary cross entropy, float32 [B]."""
        return tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs["values"])

    def targets(self, labels: tf.Tensor) -> tf.Tensor:
        return tf.math.divide_no_nan(labels, tf.reduce_sum(labels, 1, keepdims=True))

    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Batch | None = None) -> dict[str, tf.Tensor]:
        """Values and logits, float32 [B]."""
        return {"values": tf.sigmoid(outputs["values"]), "logits": outputs["values"]}

    def from_logits(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        return {"values": confidence.sigmoid(logits[:, 0]), "logits": logits[:, 0]}

    def losses(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        """Binary cross entropies."""
        logits = np.asarray(predictions["logits"], np.float64)
        return np.logaddexp(0, logits) - labels * logits


HEAD = Relevance

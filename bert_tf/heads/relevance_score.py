"""Relevance of a text to a query: a cross-encoder with one output, whose values are scores without bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.data.examples import Example
from bert_tf.heads.regression import Regression, numbers
from bert_tf.heads.relevance import Relevance
from bert_tf.runtime.lazy import tf
from bert_tf.training.task import Batch


class RelevanceScore(Relevance):
    """A number for a pair, learned by squared error, such as the scores of another model (distillation)."""

    kind = "relevance_score"
    loss_name = "squared_error"
    loss, losses = Regression.loss, Regression.losses

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """The numbers, float32 [n]."""
        return numbers(examples)

    def targets(self, labels: tf.Tensor) -> tf.Tensor:
        """The probabilities of a model with these scores: labels [N, K] -> [N, K]."""
        return tf.nn.softmax(labels)

    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Batch | None = None) -> dict[str, tf.Tensor]:
        """Values, which are the logits, float32 [B]."""
        return {"values": outputs["values"], "logits": outputs["values"]}

    def from_logits(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        return {"values": logits[:, 0], "logits": logits[:, 0]}


HEAD = RelevanceScore

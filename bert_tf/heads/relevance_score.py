"""Relevance of a text to a query: a cross-encoder with one output, an unbounded score."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from bert_tf.config.train_config import LossSettings
from bert_tf.errors import UserError
from bert_tf.heads.base.head import Metrics
from bert_tf.heads.base.text_head import INPUTS
from bert_tf.heads.regression import Regression
from bert_tf.runtime.lazy import tf
from bert_tf.training.task import Batch

if TYPE_CHECKING:
    from bert_tf.heads.base.table_options import TableOptions


class RelevanceScore(Regression):
    """A number for a pair, learned by squared error, such as another model's scores (distillation)."""

    kind = "relevance_score"
    signature_inputs = (frozenset(INPUTS),)
    signature_outputs = frozenset({"values", "logits"})
    compares_lists = True

    @classmethod
    def check_columns(cls, columns: Sequence[str], options: TableOptions) -> None:
        """Raises UserError unless the columns of a table are a query and a text, and a label."""
        if len(columns) != len(INPUTS) or not options.label_column:
            raise UserError(
                f"label_type={cls.kind} is for pairs: pass text_columns=QUERY,TEXT, and as label_column how well "
                "the text answers the query."
            )

    def targets(self, labels: tf.Tensor) -> tf.Tensor:
        """The target shares of a list's texts in its loss, from their scores: labels [N, K] -> [N, K]."""
        return tf.nn.softmax(labels)

    def with_loss(self, settings: LossSettings) -> Self:
        plain = dataclasses.replace(settings, ranking_loss="", list_size=1)
        if bool(settings.ranking_loss) != (settings.list_size > 1):
            raise UserError(
                f"ranking_loss is {settings.ranking_loss!r} and list_size is {settings.list_size}; expected both, and "
                "two or more rows per list."
            )
        return super().with_loss(plain).replaced(loss_settings=settings)

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """See `TextHead`; one weight per list."""
        return {self.objective: batch["row_weights"][:: self.loss_settings.list_size]}

    def metrics(self, outputs: Mapping[str, tf.Tensor], batch: Batch) -> Metrics:
        """The losses, and the list losses if they are minimized.

        listwise: cross entropy of the softmax over the K texts of a list (Cao et al. 2007, ListNet). margin_mse: mean
        squared error of the differences between the first and each other score (Hofstätter et al. 2020,
        arXiv:2010.02666).
        """
        found, size = super().metrics(outputs, batch), self.loss_settings.list_size
        if size == 1:
            return found
        if batch["labels"].shape[0] % size:
            raise UserError(f"A part of a batch has {batch['labels'].shape[0]} rows: choose a multiple of {size}.")
        scores, labels = (tf.reshape(each, [-1, size]) for each in (outputs["values"], batch["labels"]))
        if self.loss_settings.ranking_loss == "listwise":
            losses = tf.nn.softmax_cross_entropy_with_logits(self.targets(labels), scores)
        else:
            errors = (scores[:, :1] - scores[:, 1:]) - (labels[:, :1] - labels[:, 1:])
            losses = tf.reduce_mean(errors**2, 1)
        return {**found, self.objective: (losses, self.loss_weights(batch)[self.objective])}

    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Batch | None = None) -> dict[str, tf.Tensor]:
        """Values (the logits), float32 [B]."""
        return {"values": outputs["values"], "logits": outputs["values"]}

    def from_logits(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        return {"values": logits[:, 0], "logits": logits[:, 0]}


HEAD = RelevanceScore

"""Relevance of a text to a query: a cross-encoder with one output, whose values are probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.text_head import INPUTS, TextHead
from bert_tf.heads.base.tuned_head import Batch
from bert_tf.heads.multi_label import sigmoid
from bert_tf.heads.regression import Regression
from bert_tf.runtime.lazy import tf

if TYPE_CHECKING:
    from bert_tf.heads.base.table_options import TableOptions


class Relevance(Regression):
    """A number from 0 to 1 for a pair, learned by binary cross entropy; labels are from 0 to 1 too."""

    kind = "relevance"
    problem_type = ""
    takes_any_number = False
    is_of_pairs = True
    cross_encoder_activation = "Sigmoid"
    phrase, call = "says how well a text answers a query", 'predict(("A query?", "A text.")).value'
    signature_inputs = (frozenset(INPUTS),)
    signature_outputs = frozenset({"values", "logits"})
    loss_name: ClassVar[str] = "binary_cross_entropy"

    @classmethod
    def check_columns(cls, columns: Sequence[str], options: TableOptions) -> None:
        """Raises UserError unless the columns of a table are a query and a text, and a label."""
        if len(columns) != len(INPUTS) or not options.label_column:
            raise UserError(
                f"label_type={cls.kind} is for pairs: pass text_columns=QUERY,TEXT, and as label_column how well "
                "the text answers the query."
            )

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """The numbers, float32 [n]; UserError with its place for one that is not from 0 to 1."""
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

    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Batch | None = None) -> dict[str, tf.Tensor]:
        """Values and logits, float32 [B]."""
        return {"values": tf.sigmoid(outputs["values"]), "logits": outputs["values"]}

    def from_logits(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        """Values and logits."""
        return {"values": sigmoid(logits[:, 0]), "logits": logits[:, 0]}

    def losses(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        """Binary cross entropies."""
        logits = np.asarray(predictions["logits"], np.float64)
        return np.logaddexp(0, logits) - labels * logits


HEAD: type[TextHead] = Relevance

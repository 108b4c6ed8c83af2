"""A number for a text or a pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.answers import Prediction
from bert_tf.heads.base.head import Outputs
from bert_tf.heads.base.text_head import TextHead
from bert_tf.runtime.lazy import tf
from bert_tf.training.task import Batch

if TYPE_CHECKING:
    from bert_tf.heads.base.table_options import TableOptions

MAX_PAIRS = 1000  # of true and predicted numbers, drawn in the report
LARGEST = float(np.finfo(np.float32).max)


class Regression(TextHead):
    """An unbounded number, learned by squared error, such as GLUE's STS-B, from 0 to 5."""

    kind = "regression"
    model_class = "Regressor"
    signature_outputs = frozenset({"values"})
    loss_name = "squared_error"
    score_names = ("pearson", "spearman", "mean_squared_error")
    scored_with: ClassVar[tuple[str, ...]] = ("scipy",)

    @property
    def criteria(self) -> tuple[str, ...]:
        return ("pearson", "spearman")

    @classmethod
    def from_table(cls, labels: Sequence[str], columns: Sequence[str], options: TableOptions) -> Self:
        return cls()

    @classmethod
    def from_about(cls, about: Mapping[str, Any]) -> Self:
        return cls()

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """The numbers, float32 [n]."""
        return numbers(examples)

    def loss(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        """Squared error, float32 [B]."""
        return tf.math.squared_difference(outputs["values"], labels)

    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Batch | None = None) -> dict[str, tf.Tensor]:
        """Values, float32 [B]."""
        return {"values": outputs["values"]}

    def predicted(self, predictions: Mapping[str, np.ndarray]) -> np.ndarray:
        """Numbers [n]."""
        return predictions["values"]

    def tables(self, labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
        """{"values": [true, predicted] of examples, every n-th if there are many}."""
        pairs = np.stack([labels, predicted], 1)[:: math.ceil(len(labels) / MAX_PAIRS) or 1]
        return {"values": np.round(pairs.astype(np.float64), 4).tolist()}

    def losses(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        """Squared errors."""
        return (np.asarray(predictions["values"], np.float64) - labels) ** 2

    def prediction(self, predictions: Mapping[str, np.ndarray], number: int, label: str) -> Prediction:
        return Prediction(label=label, value=float(predictions["values"][number]))

    def from_logits(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        return {"values": logits[:, 0]}

    @classmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> Prediction:
        """From "values" []."""
        value = float(outputs["values"])
        return Prediction(label=f"{value:.3f}", value=value)


def numbers(examples: Sequence[Example]) -> np.ndarray:
    """The labels of examples as float32 [n]; UserError with the position of any that is not a number."""
    return np.array([_number(example) for example in examples], np.float32)


def _number(example: Example) -> float:
    try:
        number = math.nan if "_" in str(example.label) else float(example.label)  # to Python 1_000 is a number
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= LARGEST:
        raise UserError(
            f"In {example.location} the label is {example.label!r}; expected a number, at most {LARGEST:.2g}."
        )
    return number


HEAD = Regression

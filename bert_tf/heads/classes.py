"""One of several classes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bert_tf.config.train_config import LossSettings
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.answers import BaseAnswer, Prediction, RawOutputs
from bert_tf.heads.base.head import Outputs, as_text
from bert_tf.heads.base.label_texts import shortened, single_label
from bert_tf.heads.base.loss_settings import BALANCED, cross_entropy, parse_weights
from bert_tf.heads.base.text_head import TRAINING_LOSS, TextHead
from bert_tf.runtime.lazy import tf
from bert_tf.training import confidence, metrics
from bert_tf.training.task import Batch

if TYPE_CHECKING:
    from bert_tf.heads.base.table_options import TableOptions


class Classes(TextHead):
    """One of several classes; `labels` are their names, in the order of the logits."""

    kind = "classes"
    model_class = "Classifier"
    is_labelled = True
    signature_inputs: ClassVar[tuple[frozenset[str], ...]] = frozenset({"text_a"}), frozenset({"text_a", "text_b"})
    signature_outputs = frozenset({"probabilities"})
    loss_name = "cross_entropy"
    score_names: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    scored_with: ClassVar[tuple[str, ...]] = ("sklearn",)
    has_names = True
    fewest_labels: ClassVar[int] = 2
    temperature = 1.0  # logits are divided by it before the softmax
    fits_temperature = False

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self.size = len(self.labels)
        self._numbers: dict[str | None, int] = {label: number for number, label in enumerate(self.labels)}
        if len(self.labels) < self.fewest_labels or len(set(self.labels)) < len(self.labels):
            count = "two or more different ones" if self.fewest_labels > 1 else "different ones"
            raise UserError(f"The labels are {', '.join(self.labels) or 'none'}; expected {count}.")

    @property
    def criteria(self) -> tuple[str, ...]:
        return (*self.score_names, "matthews", *(("f1",) if self.size == 2 else ()))

    @classmethod
    def from_table(cls, labels: Sequence[str], columns: Sequence[str], options: TableOptions) -> Self:
        return cls(labels)

    @classmethod
    def from_about(cls, about: Mapping[str, Any]) -> Self:
        return cls([str(label) for label in about["labels"]]).with_temperature(about.get("temperature", 1.0))

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """Class numbers, int32 [n]."""
        return np.array([self._number(example) for example in examples], np.int32)

    def _number(self, example: Example) -> int:
        label = single_label(example)
        if label not in self._numbers:
            raise UserError(
                f"In {example.location} the label is {label!r}; expected one of {shortened(self.labels)}, "
                "which are the labels of the training data."
            )
        return self._numbers[label]

    def unknown(self, count: int) -> np.ndarray:
        """Zeros of the shape of `encode`."""
        return np.zeros(count, np.int32)

    def class_weights(self, labels: np.ndarray, text: str) -> np.ndarray:
        """balanced: the mean size of a class divided by the size of the example's class, float32 [n]."""
        if text != BALANCED:
            return parse_weights("class_weights", text, self.labels)[labels]
        counts = np.bincount(labels, minlength=len(self.labels))
        return (len(labels) / len(self.labels) / np.maximum(counts, 1))[labels].astype(np.float32)

    def label_counts(self, labels: np.ndarray) -> np.ndarray | None:
        """Examples of each class, [C]."""
        return np.bincount(labels, minlength=len(self.labels))

    def names(self, predicted: np.ndarray) -> list[str]:
        return [self.labels[number] for number in predicted]

    def loss(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        """Softmax cross entropy, float32 [B]."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs["logits"])

    def with_loss(self, settings: LossSettings) -> Self:
        if settings.pos_weight:
            raise UserError("pos_weight needs label_type=multi_label; for classes pass class_weights.")
        head = copy.copy(self)
        head.loss_settings = settings
        return head

    def training_losses(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> dict[str, tf.Tensor]:
        """Smoothed labels are (1 - s) * one-hot + s / C."""
        losses, settings = {self.loss_name: self.loss(outputs, labels)}, self.loss_settings
        if not settings.is_plain:
            logs = tf.nn.log_softmax(outputs["logits"])
            smoothing, count = settings.label_smoothing, logs.shape[-1]
            targets = tf.one_hot(labels, count, 1 - smoothing + smoothing / count, smoothing / count)
            losses[TRAINING_LOSS] = cross_entropy(targets, logs, settings.focal_gamma)
        return losses

    def correct(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor | None:
        """1 where the best class is the label, float32 [B]."""
        return tf.cast(tf.equal(tf.argmax(outputs["logits"], -1, tf.int32), labels), tf.float32)

    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Batch | None = None) -> dict[str, tf.Tensor]:
        """Logits and probabilities, [B, C]."""
        return {"logits": outputs["logits"], "probabilities": tf.nn.softmax(outputs["logits"] / self.temperature)}

    def predicted(self, predictions: Mapping[str, np.ndarray]) -> np.ndarray:
        """Class numbers [n]."""
        return predictions["logits"].argmax(-1)

    def probabilities(self, predictions: Mapping[str, np.ndarray], rows: int | slice = slice(None)) -> np.ndarray:
        """[n, C], or of one row [C]."""
        return confidence.softmax(predictions["logits"][rows], self.temperature)

    def losses(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        return confidence.log_losses(predictions["logits"], labels, self.temperature)

    def prediction(self, predictions: Mapping[str, np.ndarray], number: int, label: str) -> Prediction:
        probabilities = map(float, self.probabilities(predictions, number))
        return Prediction(label=label, probabilities=dict(zip(self.labels, probabilities, strict=True)))

    @classmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> BaseAnswer:
        """From "label", the name, and "probabilities" [C]; labels: their names, () if the export does not name them."""
        if "label" not in outputs:
            return RawOutputs(outputs={"probabilities": [float(value) for value in outputs["probabilities"]]})
        values = [float(value) for value in outputs["probabilities"]]
        is_named = len(labels) == len(values)
        names = labels if is_named else [str(number) for number in range(len(values))]
        probabilities = dict(zip(names, values, strict=True))
        return Prediction(label=as_text(outputs["label"]), probabilities=probabilities, is_named=is_named)

    def tables(self, labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
        rows = metrics.per_class(labels, predicted, self.labels)
        return {"per_class": rows, **metrics.confusions(labels, predicted, self.labels)}

    def label_names(self, predictions: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {"label": tf.gather(tf.constant(self.labels), tf.argmax(predictions["logits"], -1))}

    def from_logits(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        predictions = {"logits": logits, "probabilities": self._shares(logits)}
        return {**predictions, "label": np.array(self.names(self.predicted(predictions)), object)}

    def _shares(self, logits: np.ndarray) -> np.ndarray:
        return confidence.softmax(logits, self.temperature).astype(np.float32)

    # Confidence

    def about(self) -> dict[str, Any]:
        return {} if self.temperature == 1 else {"temperature": self.temperature}

    def with_temperature(self, temperature: float | None) -> Self:
        head = copy.copy(self)
        head.temperature, head.fits_temperature = temperature or 1.0, temperature is None
        return head

    def confidence(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> dict[str, Any]:
        prior = confidence.FEW_ROWS if self.fits_temperature else None
        return confidence.report(*self._choices(predictions["logits"], labels), prior)

    def _choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits [m, C] of m choices between C outputs, and the number of the right output of each [m, 1]."""
        return logits, labels[:, None]

    def calibrated(self, predictions: Mapping[str, np.ndarray], split: Any) -> tuple[Self, str]:
        """With the temperature that fits labelled predictions best, if it is to be found."""
        if not self.fits_temperature:
            return self, ""
        temperature = self.confidence(predictions, self.compare(predictions, split)[0])["temperature"]
        sentence = f"Probabilities are of logits / {temperature:.3f}; the scores stay the same"
        return self.with_calibration({"temperature": temperature}), sentence

    @property
    def calibration(self) -> dict[str, float]:
        return {"temperature": self.temperature}

    def with_calibration(self, stored: Mapping[str, float]) -> Self:
        """With the stored temperature, if it is to be found."""
        if not self.fits_temperature or "temperature" not in stored:
            return self
        head = copy.copy(self)
        head.temperature = float(stored["temperature"])
        return head


HEAD = Classes

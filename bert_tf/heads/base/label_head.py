"""Heads with a probability for each output: answers, and the temperature that logits are divided by.

B rows of a batch, C labels, n examples.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from bert_tf.config.train_config import LossSettings
from bert_tf.data.examples import Example, first_labels, single_label
from bert_tf.errors import UserError
from bert_tf.heads.base.answers import BaseAnswer, Prediction, RawOutputs
from bert_tf.heads.base.head import Outputs, as_text
from bert_tf.heads.base.text_head import TRAINING_LOSS, TextHead
from bert_tf.runtime.lazy import tf
from bert_tf.training import confidence
from bert_tf.training.task import Batch

BALANCED = "balanced"


class LabelHead(TextHead):
    """A head whose logits become probabilities; `labels` are the names of its outputs, in the order of the logits.

    temperature: divides the logits first. fits_temperature: whether to find the best-fitting temperature.
    """

    signature_outputs = frozenset({"probabilities"})
    fewest_labels: ClassVar[int] = 2
    temperature = 1.0
    fits_temperature = False

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self.size = len(self.labels)
        if len(self.labels) < self.fewest_labels or len(set(self.labels)) < len(self.labels):
            count = "two or more different ones" if self.fewest_labels > 1 else "different ones"
            raise UserError(f"The labels are {', '.join(self.labels) or 'none'}; expected {count}.")

    @abc.abstractmethod
    def shares(self, logits: np.ndarray) -> np.ndarray:
        """The probabilities, in NumPy, [..., C] of logits [..., C]."""

    @abc.abstractmethod
    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits of m choices between outputs [m, K], and the number of the right output for each [m, 1]."""

    def prediction(self, predictions: Mapping[str, np.ndarray], number: int, label: str) -> Prediction:
        probabilities = map(float, self.shares(predictions["logits"][number]))
        return Prediction(label=label, probabilities=dict(zip(self.labels, probabilities, strict=True)))

    @classmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> BaseAnswer:
        """From "label", the name, and "probabilities" [C]; labels: their names, () if the export does not name them."""
        values = [float(value) for value in outputs["probabilities"]]
        if "label" not in outputs:
            return RawOutputs(outputs={"probabilities": values})
        is_named = len(labels) == len(values)
        names = labels if is_named else [str(number) for number in range(len(values))]
        probabilities = dict(zip(names, values, strict=True))
        return Prediction(label=as_text(outputs["label"]), probabilities=probabilities, is_named=is_named)

    def from_logits(self, logits: np.ndarray) -> dict[str, np.ndarray]:
        predictions = {"logits": logits, "probabilities": self.shares(logits).astype(np.float32)}
        return {**predictions, "label": np.array(self.names(self.predicted(predictions)), object)}

    # Temperature

    def about(self) -> dict[str, Any]:
        return {} if self.temperature == 1 else {"temperature": self.temperature}

    def with_temperature(self, temperature: float | None) -> Self:
        return self.replaced(temperature=temperature or 1.0, fits_temperature=temperature is None)

    def confidence(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> dict[str, Any]:
        prior = confidence.FEW_ROWS if self.fits_temperature else None
        return confidence.report(*self.choices(predictions["logits"], labels), prior)

    def calibrated(self, predictions: Mapping[str, np.ndarray], split: Any) -> tuple[Self, str]:
        """With the temperature that best fits labeled predictions, if it is to be fitted."""
        if not self.fits_temperature:
            return self, ""
        temperature = self.confidence(predictions, self.compare(predictions, split)[0])["temperature"]
        sentence = f"Probabilities use logits / {temperature:.3f}; the scores stay the same"
        return self.with_calibration({"temperature": temperature}), sentence

    @property
    def calibration(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    def with_calibration(self, stored: Mapping[str, Any]) -> Self:
        """With the stored temperature, if it is to be fitted."""
        if not self.fits_temperature or "temperature" not in stored:
            return self
        return self.replaced(temperature=float(stored["temperature"]))


class SoftmaxHead(LabelHead):
    """One of C outputs."""

    loss_name = "cross_entropy"

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """Numbers of labels, int32 [n]."""
        return np.array([self._number(example) for example in examples], np.int32)

    def _number(self, example: Example) -> int:
        label = single_label(example)
        if label not in self._numbers:
            raise UserError(
                f"In {example.location} the label is {label!r}; expected one of {first_labels(self.labels)}, "
                "which are the labels of the training data."
            )
        return self._numbers[label]

    @functools.cached_property
    def _numbers(self) -> dict[str | None, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def unknown(self, count: int) -> np.ndarray:
        return np.zeros(count, np.int32)

    def class_weights(self, labels: np.ndarray, text: str) -> np.ndarray:
        """balanced: the mean size of a class divided by the size of the example's class, float32 [n]."""
        if text != BALANCED:
            return parse_weights("class_weights", text, self.labels)[labels]
        counts = np.bincount(labels, minlength=len(self.labels))
        return (len(labels) / len(self.labels) / np.maximum(counts, 1))[labels].astype(np.float32)

    def names(self, predicted: np.ndarray) -> list[str]:
        return [self.labels[number] for number in predicted]

    def loss(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        """Softmax cross entropy, float32 [B]."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs["logits"])

    def with_loss(self, settings: LossSettings) -> Self:
        if settings.pos_weight:
            raise UserError("pos_weight needs label_type=multi_label; for classes pass class_weights.")
        return self.replaced(loss_settings=settings)

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
        """1 if the best class is the label, float32 [B]."""
        return tf.cast(tf.equal(tf.argmax(outputs["logits"], -1, tf.int32), labels), tf.float32)

    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Batch | None = None) -> dict[str, tf.Tensor]:
        """Logits and probabilities, [B, C]."""
        return {"logits": outputs["logits"], "probabilities": tf.nn.softmax(outputs["logits"] / self.temperature)}

    def label_names(self, predictions: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {"label": tf.gather(tf.constant(self.labels), tf.argmax(predictions["logits"], -1))}

    def predicted(self, predictions: Mapping[str, np.ndarray]) -> np.ndarray:
        """Numbers of labels [n]."""
        return predictions["logits"].argmax(-1)

    def shares(self, logits: np.ndarray) -> np.ndarray:
        return confidence.softmax(logits, self.temperature)

    def losses(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        return confidence.log_losses(predictions["logits"], labels, self.temperature)

    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return logits, labels[:, None]


def cross_entropy(targets: tf.Tensor, log_probabilities: tf.Tensor, gamma: float) -> tf.Tensor:
    """-sum of targets * (1 - p)^gamma * log p over the last axis, float32 [...] of [..., C].

    Cross entropy if gamma is 0, otherwise the focal loss.
    """
    terms = targets * log_probabilities
    if gamma:
        terms *= tf.pow(-tf.math.expm1(log_probabilities), gamma)
    return -tf.reduce_sum(terms, -1)


def parse_weights(flag: str, text: str, labels: Sequence[str]) -> np.ndarray:
    """Label weights, float32 [C], from "3", "1,3" in their order, or "yes=3", which leaves others at 1.

    Raises UserError, which names the flag, for anything else.
    """
    weights = np.ones(len(labels), np.float32)
    parts = [part.strip() for part in text.split(",")]
    if not any("=" in part for part in parts) and len(parts) in (1, len(labels)):
        weights[:] = [_number(flag, part, text) for part in parts]
        return weights
    for part in parts:
        label, _, number = part.rpartition("=")
        if label not in labels:
            raise UserError(
                f"{flag} is {text!r}; expected {BALANCED}, a number for each of the {len(labels)} labels in their "
                f"order, or label=number with labels among {', '.join(labels)}."
            )
        weights[labels.index(label)] = _number(flag, number, text)
    return weights


def _number(flag: str, part: str, text: str) -> float:
    try:
        number = float(part)
    except ValueError:
        number = np.nan
    if not 0 <= number < np.inf:
        raise UserError(f"{flag} is {text!r}; expected numbers of 0 or more, but {part!r} is not.")
    return number

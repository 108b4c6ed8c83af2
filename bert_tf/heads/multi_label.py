"""Any number of labels for a text; each applies or does not."""

from __future__ import annotations

import ast
import logging
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bert_tf.config.train_config import LossSettings
from bert_tf.data.examples import Example, first_labels, label_text
from bert_tf.errors import UserError
from bert_tf.heads.base.label_head import BALANCED, LabelHead, cross_entropy, parse_weights
from bert_tf.heads.base.text_head import TRAINING_LOSS
from bert_tf.runtime.lazy import tf
from bert_tf.training import confidence, metrics
from bert_tf.training.task import Batch

if TYPE_CHECKING:
    from bert_tf.heads.base.table_options import TableOptions

THRESHOLD = 0.5  # probability above which a label applies
BEST = "best"  # label_threshold=best
MAX_SHOWN = 12  # labels whose thresholds are printed
LIST, NUMBERS = re.compile(r"\[.*\]", re.DOTALL), re.compile(r"\[\s*[01]\.?(\s+[01]\.?)*\s*\]")
BITS = {"0", "1"}
log = logging.getLogger("bert_tf")


class MultiLabel(LabelHead):
    """Any number of labels; a cell contains them with `separator` in between, or as a list: of names, or multi-hot.

    thresholds: probability above which a label applies, one for all or one for each; None: stored ones, or THRESHOLD.
    finds_best: whether to find the best thresholds on the development set.
    """

    kind = "multi_label"
    model_class = "Classifier"
    is_labelled = True
    is_exclusive = False
    loss_name = "binary_cross_entropy"
    score_names: ClassVar[tuple[str, ...]] = ("micro_f1", "macro_f1", "accuracy")
    scored_with: ClassVar[tuple[str, ...]] = ("sklearn",)
    missing = (None,)
    fewest_labels = 1

    def __init__(
        self,
        labels: Sequence[str],
        separator: str = ",",
        thresholds: npt.ArrayLike | None = None,
        finds_best: bool = False,
    ) -> None:
        super().__init__(labels)
        self.separator, self.finds_best = separator, finds_best
        self.is_fixed = thresholds is not None
        self.thresholds = np.full(self.size, THRESHOLD if thresholds is None else thresholds, np.float32)
        self.pos_weights = np.ones(self.size, np.float32)

    @classmethod
    def check_columns(cls, columns: Sequence[str], options: TableOptions) -> None:
        """Raises UserError unless the columns fit this head."""
        super().check_columns(columns, options)
        if not options.label_separator:
            raise UserError("label_separator is ''; expected the separator of labels in a cell, such as a comma.")

    @classmethod
    def names_in(cls, examples: Sequence[Example], options: TableOptions) -> Collection[str | None]:
        """The labels of all cells; for multi-hot lists LABEL_0, LABEL_1, ... in order, with a warning."""
        width = multi_hot_width(examples, options.label_separator)
        if not width:
            return {label for example in examples for label in _parts(example, options.label_separator)}
        log.warning(
            "The labels are lists of 0 and 1: the %d places are called LABEL_0 to LABEL_%d; name them with labels.",
            width,
            width - 1,
        )
        return [f"LABEL_{number}" for number in range(width)]

    @classmethod
    def from_table(cls, labels: Sequence[str], columns: Sequence[str], options: TableOptions) -> Self:
        threshold = parse_threshold(options.label_threshold)
        return cls(labels, options.label_separator, threshold, finds_best=options.label_threshold == BEST)

    @classmethod
    def from_about(cls, about: Mapping[str, Any]) -> Self:
        labels = [str(label) for label in about["labels"]]
        reads = about.get("reads") or {}  # missing in third-party checkpoints
        head = cls(labels, reads.get("label_separator", ","), about.get("thresholds"))
        return head.with_temperature(about.get("temperature", 1.0))

    def about(self) -> dict[str, Any]:
        return {"thresholds": self.thresholds.tolist(), **super().about()}

    def encode(self, examples: Sequence[Example]) -> np.ndarray:
        """1 if a label applies, float32 [n, C]."""
        table = self.unknown(len(examples))
        for row, example in enumerate(examples):
            parts = _parts(example, self.separator)
            if self._is_multi_hot(parts):
                table[row] = [part == "1" for part in parts]
                continue
            for label in parts:
                if label not in self.labels:
                    raise UserError(
                        f"In {example.location} there is the label {label!r}; expected some of "
                        f"{first_labels(self.labels)}, which are the labels of the training data."
                    )
                table[row, self.labels.index(label)] = 1
        return table

    def _is_multi_hot(self, parts: Sequence[str | None]) -> bool:
        """Returns whether an example's labels specify for each label whether it applies: [0, 1, 0]."""
        if len(parts) != len(self.labels) or not set(parts) <= BITS:
            return False
        return len(parts) > 2 or set(self.labels) != BITS  # two labels named 0 and 1 may both apply

    def unknown(self, count: int) -> np.ndarray:
        return np.zeros((count, len(self.labels)), np.float32)

    def class_weights(self, labels: np.ndarray, text: str) -> np.ndarray:
        """Raises UserError: labels are not classes."""
        raise UserError("class_weights needs one class for each text; pass pos_weight instead, or remove it.")

    def label_counts(self, labels: np.ndarray) -> np.ndarray | None:
        """Examples of each label, [C]."""
        return labels.sum(0)

    def names(self, predicted: np.ndarray) -> list[str]:
        return [self.separator.join(np.array(self.labels)[row > 0]) for row in predicted]

    def loss(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        """The mean of the sigmoid cross entropies of the labels, float32 [B]."""
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs["logits"]), -1)

    def with_loss(self, settings: LossSettings) -> Self:
        head = self.replaced(loss_settings=settings)
        if settings.pos_weight in ("", BALANCED):
            return head
        return head.replaced(pos_weights=parse_weights("pos_weight", settings.pos_weight, self.labels))

    def fitted_to(self, rows: Any) -> Self:
        """With balanced weights: texts without a label per text with it, at least 1 of each."""
        if self.loss_settings.pos_weight != BALANCED:
            return self
        counts = rows.labels.sum(0)
        return self.replaced(pos_weights=np.maximum(rows.count - counts, 1) / np.maximum(counts, 1))

    def training_losses(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> dict[str, tf.Tensor]:
        """Smoothed labels are (1 - s) * label + s / 2; terms of positive labels are multiplied by their pos_weight."""
        losses, settings = {self.loss_name: self.loss(outputs, labels)}, self.loss_settings
        if not settings.is_plain:
            logits = outputs["logits"]
            logs = tf.stack([tf.math.log_sigmoid(logits), tf.math.log_sigmoid(-logits)], -1)  # [B, C, 2]
            holds = (1 - settings.label_smoothing) * labels + settings.label_smoothing / 2
            targets = tf.stack([self.pos_weights * holds, 1 - holds], -1)
            losses[TRAINING_LOSS] = tf.reduce_mean(cross_entropy(targets, logs, settings.focal_gamma), -1)
        return losses

    def correct(self, outputs: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor | None:
        """1 if all labels are as predicted, float32 [B]."""
        holds = tf.cast(self.predictions(outputs)["probabilities"] > self.thresholds, tf.float32)
        return tf.cast(tf.reduce_all(tf.equal(holds, labels), -1), tf.float32)

    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Batch | None = None) -> dict[str, tf.Tensor]:
        """Logits and independent probabilities of all labels, [B, C]."""
        return {"logits": outputs["logits"], "probabilities": tf.sigmoid(outputs["logits"] / self.temperature)}

    def predicted(self, predictions: Mapping[str, np.ndarray]) -> np.ndarray:
        """1 if a label applies, int32 [n, C]."""
        return (self.shares(predictions["logits"]) > self.thresholds).astype(np.int32)

    def losses(self, predictions: Mapping[str, np.ndarray], labels: np.ndarray) -> np.ndarray:
        """The mean over the labels."""
        probabilities = np.clip(self.shares(predictions["logits"]).astype(np.float64), 1e-12, 1)
        return -np.where(labels > 0, np.log(probabilities), np.log(np.clip(1 - probabilities, 1e-12, 1))).mean(1)

    def tables(self, labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
        rows = metrics.per_class(labels, predicted, self.labels)
        thresholds = self.thresholds.tolist()
        return {"per_class": [{**row, "threshold": x} for row, x in zip(rows, thresholds, strict=True)]}

    def label_names(self, predictions: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        applies = predictions["probabilities"] > self.thresholds  # [B, C]
        is_first = tf.equal(tf.cumsum(tf.cast(applies, tf.int32), -1, exclusive=True), 0)
        parts = tf.where(is_first, self.labels, [self.separator + label for label in self.labels])
        return {"label": tf.strings.reduce_join(tf.where(applies, parts, ""), -1)}

    def shares(self, logits: np.ndarray) -> np.ndarray:
        return confidence.sigmoid(logits / self.temperature)

    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each label of each example is a choice of two outputs: it applies, with its logit, or not, with 0."""
        pairs = np.stack([logits, np.zeros_like(logits)], -1).reshape(-1, 2)
        return pairs, np.where(labels > 0, 0, 1).reshape(-1, 1)

    def calibrated(self, predictions: Mapping[str, np.ndarray], split: Any) -> tuple[Self, str]:
        """With the best-fitting temperature, then the thresholds with the best F1, if they are to be fitted."""
        head, sentence = super().calibrated(predictions, split)
        if not self.finds_best:
            return head, sentence
        labels = self.compare(predictions, split)[0]
        best = head._with_thresholds(metrics.best_thresholds(labels, head.shares(predictions["logits"])))
        thresholds = list(zip(self.labels, best.thresholds.tolist(), strict=True))
        shown = ", ".join(f"{label} {value:.2f}" for label, value in thresholds[:MAX_SHOWN])
        found = f"Thresholds: {shown}{' ...' * (self.size > MAX_SHOWN)}; with {THRESHOLD} for all of them"
        return best, f"{sentence}\n{found}".strip()

    @property
    def calibration(self) -> dict[str, Any]:
        """{"temperature"}, and {"thresholds": {label: threshold}}, if they are to be fitted."""
        thresholds = dict(zip(self.labels, self.thresholds.tolist(), strict=True))
        return {**super().calibration, **({"thresholds": thresholds} if self.finds_best else {})}

    def with_calibration(self, stored: Mapping[str, Any]) -> Self:
        """With stored thresholds for the same labels, unless a flag set one, and the stored temperature."""
        head, thresholds = super().with_calibration(stored), stored.get("thresholds") or {}
        if self.is_fixed or thresholds.keys() != set(self.labels):
            return head
        return head._with_thresholds([thresholds[label] for label in self.labels])

    def _with_thresholds(self, thresholds: npt.ArrayLike) -> Self:
        return self.replaced(thresholds=np.asarray(thresholds, np.float32))


def split_labels(label: Any, separator: str) -> list[str | None]:
    """The labels in a cell: a list, also if written as text, or a text with separators."""
    if isinstance(label, str) and LIST.fullmatch(label.strip()):
        label = _list_in(label.strip())
    if isinstance(label, list):
        return [label_text(part) for part in label]
    return [part.strip() for part in (label_text(label) or "").split(separator) if part.strip()]


def _list_in(text: str) -> Any:
    """The list in a text, as written by Python, JSON or NumPy: [0, 1], ["a"], [0 1]; else the text."""
    if NUMBERS.fullmatch(text):
        return [part.rstrip(".") for part in text[1:-1].split()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, list) else text


def _parts(example: Example, separator: str) -> list[str | None]:
    """`split_labels` of an example; UserError for labels that are not names."""
    label = example.label
    is_list = isinstance(label, list)
    if isinstance(label, dict) or (is_list and not all(isinstance(part, str | int | float) for part in label)):
        raise UserError(f"In {example.location} the labels are {label!r}; expected a list of names, or of 0 and 1.")
    if is_list and any(isinstance(part, float) and not part.is_integer() for part in label):
        raise UserError(f"In {example.location} the labels are {label!r}; expected names, or 0 and 1 for each label.")
    if is_list and label and set(map(type, label)) == {bool}:
        label = list(map(int, label))
    return split_labels(label, separator)


def multi_hot_width(examples: Sequence[Example], separator: str) -> int:
    """The number of labels if every example has a list of 0 and 1 for each of them: [0, 1, 0]; else 0.

    UserError, with its position, for such a list of a different length.
    """
    rows = [(parts, example) for example in examples if (parts := _parts(example, separator))]
    if not rows or not all(set(parts) <= BITS for parts, _ in rows):
        return 0
    width = len(rows[0][0])
    other = next((example for parts, example in rows if len(parts) != width), None)
    if other is None:
        return width if width > 1 else 0
    if any(len(set(parts)) < len(parts) for parts, _ in rows):  # not a list of label numbers
        raise UserError(
            f"In {other.location} the labels are {other.label!r}; expected {width} of 0 and 1, as in "
            f"{rows[0][1].location}."
        )
    return 0


def parse_threshold(text: str) -> float | None:
    """The number in label_threshold; None if it is empty or BEST. Raises UserError for anything else."""
    if text in ("", BEST):
        return None
    try:
        threshold = float(text)
    except ValueError:
        threshold = math.nan
    if not 0 < threshold < 1:
        raise UserError(f"label_threshold is {text}; expected a number between 0 and 1, or best.")
    return threshold


HEAD = MultiLabel

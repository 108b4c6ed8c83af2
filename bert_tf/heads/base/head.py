"""Head: the answers of a model, and everything about them that code outside the model needs to know.

Its labels, loss, scores and answers are here, in NumPy except for training formulas. Its `Training` makes rows of
examples, the Keras model and functions on strings, in TensorFlow. B rows of a batch, n examples of a split.
"""

from __future__ import annotations

import abc
import copy
import importlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from bert_tf.errors import UserError
from bert_tf.heads.base.answers import BaseAnswer
from bert_tf.heads.base.format_names import FORMATS, FormatNames
from bert_tf.heads.base.wording import WORDING, Wording
from bert_tf.runtime.lazy import tf
from bert_tf.training import confidence, metrics
from bert_tf.training.task import Batch, Comparison, Objective, Predictions

Row = TypeVar("Row")
Outputs = Mapping[str, Any]  # {name: array} for one example, named as in a signature
Metrics = dict[str, tuple["tf.Tensor", "tf.Tensor"]]
MAX_CLASSES = 40  # printed by `summary`


class Head(abc.ABC):
    """A kind of head; an instance is a head trained on an encoder.

    Attributes of a kind:
        kind: its name in checkpoints, exports and flags; for an external head, the name of its module.
        model_class: a class in `model.heads`; it takes the configuration and, if outputs have names, their number.
        weights: the common part of its weight names.
        trained_by: the module with its `Training`; "" if it is not trained on labeled data.
        reads_tokens: whether it reads every token instead of a text vector.
        is_labelled: whether its outputs have names.
        is_exclusive: whether exactly one output applies.
        signature_inputs, signature_outputs: names in the default signature of its exports, which may have more outputs.
        scored_with: modules of other packages required by its scores.

    Attributes of an instance:
        labels: names of the outputs, () if they have none.
        size: last dimension of its kernel; 0 if there is only the encoder.
        max_seq_length: tokens in a row.
        objectives, comparison: see `training.task.Task`.
        criterion: the score that decides which model is best; higher is better.
        sentence_vectors: the embedding settings (a `config.sentence_vectors.SentenceVectors`) recorded in its run
            folder; None for other heads.
        rows_per_example: encoder rows per example.
    """

    kind: ClassVar[str]
    model_class: ClassVar[str]
    weights: ClassVar[str] = "classifier"
    trained_by: ClassVar[str] = ""
    reads_tokens: ClassVar[bool] = False
    is_labelled: ClassVar[bool] = False
    is_exclusive: ClassVar[bool] = True
    signature_inputs: ClassVar[tuple[frozenset[str], ...]] = ()
    signature_outputs: ClassVar[frozenset[str]] = frozenset()
    scored_with: ClassVar[tuple[str, ...]] = ()
    labels: tuple[str, ...] = ()
    size: int = 1
    max_seq_length: int = 0
    objectives: Mapping[str, Objective]
    comparison: Comparison | None = None
    criterion: str
    sentence_vectors: Any = None
    rows_per_example: int = 1

    def replaced(self, **changes: Any) -> Self:
        """The head with changed attributes."""
        head = copy.copy(self)
        vars(head).update(changes)
        return head

    # The kind

    @classmethod
    def answers_signature(cls, inputs: Collection[str] | None, outputs: Collection[str]) -> bool:
        """Returns whether a signature with these inputs (None: any) and outputs is of this kind."""
        return (inputs is None or set(inputs) in cls.signature_inputs) and set(outputs) >= cls.signature_outputs

    @classmethod
    def format_names(cls) -> FormatNames:
        """Its names in other formats; an external head inherits them from its base class."""
        return _row(FORMATS, cls)

    @classmethod
    def wording(cls) -> Wording:
        """Its wording on cards and pages; an external head inherits it from its base class."""
        return _row(WORDING, cls)

    @classmethod
    @abc.abstractmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> BaseAnswer:
        """The answer for an example, from the outputs of an export or of a live model."""

    @classmethod
    def recorded(cls, about: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> Any:
        """The head of an export or a run.

        about: content of its about.json. settings: its `host_settings`; without them the head can only score answers.
        Raises UserError if they cannot be scored from a file.
        """
        if not cls.trained_by:
            phrase = cls.wording().phrase
            raise UserError(f"A model that {phrase} has no labels to score against: pass a fine-tuned model.")
        return importlib.import_module(cls.trained_by).TRAINING.recorded(cls, about, settings)

    @property
    def training(self) -> Any:
        """Its `heads.base.training.Training`, imported on first use."""
        return importlib.import_module(self.trained_by).TRAINING(self)

    # Training

    def fitted_to(self, rows: Any) -> Self:
        """The head, adapted to the training rows if its loss depends on them."""
        return self

    @abc.abstractmethod
    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """See `training.task.Task`."""

    @abc.abstractmethod
    def metrics(self, outputs: Any, batch: Batch) -> Metrics:
        """See `training.task.Task`."""

    @abc.abstractmethod
    def predictions(self, outputs: Any, batch: Batch) -> dict[str, tf.Tensor]:
        """Outputs kept for each row: {name: [B, ...]}."""

    # Scores and reports; predictions cover the first rows of a split

    @abc.abstractmethod
    def scores(self, predictions: Predictions, split: Any) -> dict[str, float]:
        """{score: number} for a split."""

    @abc.abstractmethod
    def compare(self, predictions: Predictions, split: Any) -> tuple[np.ndarray, np.ndarray]:
        """Labels and predicted labels, arrays of equal length."""

    def collapse(self, predictions: Predictions, split: Any) -> str | None:
        """Why the predictions are worthless, in words, or None: see `metrics.collapse_reason`."""
        return metrics.collapse_reason(*self.compare(predictions, split))

    def summary(self, details: Mapping[str, Any]) -> list[str]:
        """Lines for people on the details of a split."""
        line = "  {label:26} precision {precision:.3f}  recall {recall:.3f}  F1 {f1:.3f}  of {count}"
        rows = details.get("per_class", [])
        lines = [line.format(**row) for row in rows[:MAX_CLASSES]]
        if len(rows) > MAX_CLASSES:
            lines.append(f"  and {len(rows) - MAX_CLASSES:,} more classes, which are in eval_details.json")
        if "confidence" in details:
            lines.append(f"  {confidence.sentence(details['confidence'])}")
        return lines

    def quick_scores(self, train: Any, held_out: Any) -> dict[str, dict[str, float]]:
        """{name of a model without an encoder: its scores on the split held_out}, baselines for training."""
        return {}

    # Exports

    def about(self) -> dict[str, Any]:
        """Content of about.json, without labels and kind."""
        return {}

    @property
    def host_settings(self) -> dict[str, Any] | None:
        """See `heads.base.servable`."""
        return None

    # Thresholds and temperature

    def calibrated(self, predictions: Predictions, split: Any) -> tuple[Self, str]:
        """The head with the best thresholds for labeled predictions, and a sentence about them; or itself."""
        return self, ""

    @property
    def calibration(self) -> dict[str, Any]:
        """The thresholds found, as recorded in the run folder; {} if there are none."""
        return {}

    def with_calibration(self, stored: Mapping[str, float]) -> Self:
        """The head with stored thresholds, if they fit and no flag overrides them."""
        return self


def _row(table: Mapping[str, Row], head: type[Head]) -> Row:
    """The row for the kind of a head, or for its nearest base class."""
    kinds = (str(vars(each).get("kind")) for each in head.__mro__)
    return next(table[kind] for kind in kinds if kind in table)


def as_text(value: Any) -> str:
    """A TensorFlow string as str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

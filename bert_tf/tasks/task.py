"""FineTuningTask: what the recipes need to know of a task that starts from a pretrained encoder."""

from __future__ import annotations

import abc
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from bert_tf.errors import UserError
from bert_tf.training import confidence
from bert_tf.training.task import Task

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from bert_tf.checkpoints.checkpoint import SentenceVectors
    from bert_tf.data.examples import Example
    from bert_tf.heads.base.answers import Answered

    Batch = Mapping[str, tf.Tensor]
    Predictions = Mapping[str, np.ndarray]
    Vectors = Callable[[str, int], np.ndarray]

MAX_CLASSES = 40  # that `summary` prints


class Split(Protocol):
    """A split of a FineTuningTask: `count` examples make an epoch; `is_known`: its labels are."""

    count: int
    is_known: bool


class FineTuningTask(Task):
    """A Task that starts from a pretrained encoder: its data, reports, predictions and thresholds.

    Attributes:
        kind: of its head, a name of `bert_tf.heads`, as checkpoints and exports store it.
        labels: names of the head's outputs, () where they have none.
        head: the weight that makes a checkpoint one of this task, (canonical name, size of its last dimension); None
            where the encoder is all.
        new_head_rate: learning rate of a head that begins with random weights, where examples are few; 0: that of the
            encoder, at which a head on every token hardly moves in some hundred steps.
        sentence_vectors: how the model makes vectors of texts, which its run folder records; None for other tasks.
        test_splits: the splits to predict.
        rows_per_example: rows of the encoder that an example takes.
        file_flags: flags that say how its files are read; the export records them for `bert-tf evaluate`.
        groups_by_length: whether a batch of training is of rows of like length; set by the recipe before training.
        calibration_file: file of the run folder with what `calibrated` found; "" for a task without thresholds.
        ready_files: {split: TFRecords of ready examples}, which are read instead of the split's data.
        ready_splits: the splits that may be; None: all.
        rescores: whether an evaluation reports the scores with these thresholds, not those before.
    """

    kind: str
    labels: tuple[str, ...] = ()
    head: tuple[str, int] | None
    new_head_rate: float = 0.0
    sentence_vectors: SentenceVectors | None = None
    eval_splits: Mapping[str, str] = {"": "dev"}
    test_splits: tuple[str, ...] = ()
    rows_per_example: int = 1
    groups_by_length: bool = False
    file_flags: tuple[str, ...] = ()
    calibration_file: str = ""
    ready_files: Mapping[str, str] = {}
    ready_splits: tuple[str, ...] | None = ("train",)
    rescores: bool = True

    def baselines(self, vectors: Vectors | None = None) -> tuple[dict[str, dict[str, float]], Any]:
        """{name of a quick model: its scores on the development set}, and the weights of a head that is one of them.

        vectors(split, most): those that the head reads [n, D], of the first `most` examples of a split, by the encoder
        as it is; None: it has learned nothing yet. The head is a pair (kernel [D, C], bias [C]); None: there is none.
        """
        return {}, None

    def linear_head(self, vectors: Vectors) -> Any:
        """The head in `baselines` on these vectors; None: there is none."""
        return None

    # Data

    @abc.abstractmethod
    def split(self, name: str) -> Any:
        """The Split of that name, read once."""

    @abc.abstractmethod
    def describe(self, split: str) -> list[str]:
        """Sentences on a split for people: its size, its labels, warnings."""

    @abc.abstractmethod
    def statistics(self, split: str) -> dict[str, Any]:
        """{name: number} on a split for the report."""

    def ready_specs(self) -> dict[str, tf.TensorSpec]:
        """The features of a ready example, by the names in batches; see `data.ready_examples`."""
        raise UserError(f"{self.name} has no ready examples: leave out write_examples, and give its data.")

    def ready_extras(self, split: str) -> dict[str, np.ndarray]:
        """Further features of a split's ready examples, arrays [n, ...]."""
        return {}

    # Reports

    @abc.abstractmethod
    def compare(self, predictions: Predictions, split: str) -> tuple[np.ndarray, np.ndarray]:
        """Labels and predicted labels, arrays of one length, of the first examples of a split."""

    def collapse(self, predictions: Predictions, split: str) -> str | None:
        """Why the predictions are worthless, in words, or None: see `training.collapse`."""
        from bert_tf.training import collapse

        return collapse.reason(*self.compare(predictions, split))

    @abc.abstractmethod
    def details(self, predictions: Predictions, split: str) -> dict[str, Any]:
        """What eval_details.json holds of a split, as far as it applies.

        {"per_class", "confusion" or "most_confused", "hardest"}, see `training.metrics` and `reports.scoreboard`, or
        {"questions"}; and "confidence", see `training.confidence.report`.
        """

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

    # Predictions and exports

    @abc.abstractmethod
    def write_predictions(self, folder: str, split: str, predictions: Predictions) -> list[str]:
        """Writes the predictions for a split as files into the folder; returns sentences on them."""

    @abc.abstractmethod
    def serving_examples(self, split: str) -> dict[str, dict[str, list]]:
        """{signature: {input: values}} from a split, to compare an export with the live model on."""

    @abc.abstractmethod
    def demo_examples(self, split: str, count: int = 3) -> list[Example]:
        """Some examples of a split, to show what the export predicts for them; texts in the order of its inputs."""

    def demo_line(self, example: Example, row: Answered) -> str:
        """One line on an example and on what the export answered for it."""
        predicted = " ".join(filter(None, row.answer.cells()))
        label = ", ".join(map(str, example.label)) if isinstance(example.label, list) else example.label
        true_label = "" if label is None else f" (it is {'none' if label == '' else label})"
        text = textwrap.shorten(" | ".join(example.texts), 90)
        return f"{text}  ->  {predicted or 'none'}{true_label}"

    def about(self) -> dict[str, Any]:
        """What the export says of itself besides its name: "labels", "kind", and what else is needed to score it."""
        return {"labels": list(self.labels), "kind": self.kind}

    # Thresholds

    def calibrated(self, predictions: Mapping[str, Predictions]) -> tuple[Self, list[str]]:
        """The task with the thresholds that are best on {split: predictions}, and sentences on them.

        The task itself where it has no thresholds, or flags say which to use.
        """
        return self, []

    @property
    def calibration(self) -> dict[str, float]:
        """The thresholds that were found, as `calibration_file` holds them; {} where none were."""
        return {}

    def with_calibration(self, stored: Mapping[str, float]) -> Self:
        """The task with thresholds that an earlier evaluation found; itself where flags say which to use."""
        return self

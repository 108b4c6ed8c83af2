"""TunedHead: what fine-tuning needs of a head, from examples to rows, loss, scores, files and signatures.

B rows of a batch, n examples of a split.
"""

from __future__ import annotations

import abc
import collections
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from bert_tf.config.bert_config import BertConfig
from bert_tf.data.examples import Example
from bert_tf.data.preprocessed_examples import ReadyRows, StoredExamples
from bert_tf.errors import UserError
from bert_tf.heads.base.answering import Answered
from bert_tf.heads.base.head import Head
from bert_tf.heads.base.rows import Rows, StoredRows
from bert_tf.runtime.lazy import keras, tf
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import confidence, metrics
from bert_tf.training.task import Comparison, Objective

Batch = Mapping[str, "tf.Tensor"]
Metrics = dict[str, tuple["tf.Tensor", "tf.Tensor"]]
Predictions = Mapping[str, "np.ndarray"]  # {name: array [n, ...]} of what `predictions` returned for all batches
MAX_CLASSES = 40  # that `summary` prints


class TunedHead(Head):
    """A head that is trained on an encoder.

    Attributes:
        labels: names of the outputs, () if they have none.
        size: last dimension of its kernel; 0 where the encoder is all.
        max_seq_length: tokens in a row.
        objectives, comparison: see `training.task.Task`.
        criterion: the score that decides which model is the best; higher is better, and perfect is the highest.
        learns_in_steps: whether training on few examples takes a number of steps by default, not of epochs.
        new_head_rate: learning rate of a head that begins with random weights, where examples are few; 0: that of the
            encoder, at which a head on every token hardly moves in some hundred steps.
        sentence_vectors: a `config.sentence_vectors.SentenceVectors`, how the model makes vectors of texts, which its
            run folder records; None for other heads.
        rows_per_example: rows of the encoder that an example takes.
        file_flags: flags that say how files are read; the export records them for `bert-tf evaluate`.
        rescores: whether an evaluation reports the scores with these thresholds, not those before.
        stored_splits: the splits that may be preprocessed examples; None: all.
    """

    labels: tuple[str, ...] = ()
    size: int = 1
    max_seq_length: int = 0
    objectives: Mapping[str, Objective]
    comparison: Comparison | None = None
    criterion: str
    perfect: ClassVar[float] = 1.0
    learns_in_steps: ClassVar[bool] = False
    new_head_rate: ClassVar[float] = 0.0
    sentence_vectors: Any = None
    rows_per_example: int = 1
    file_flags: ClassVar[tuple[str, ...]] = ()
    rescores: ClassVar[bool] = True
    stored_splits: ClassVar[tuple[str, ...] | None] = ("train",)

    @property
    def kernel(self) -> tuple[str, int] | None:
        """The weight that makes a checkpoint one of this head, (canonical name, size of its last dimension)."""
        return (f"{self.weights}/kernel", self.size) if self.size else None

    # Examples

    def rows(self, content: Any, tokenizer: Tokenizer, *, is_trained: bool = False) -> Rows:
        """The rows of a split. content: what its source returns, examples or a file of preprocessed ones."""
        if not isinstance(content, StoredExamples):
            return self.rows_of(content, tokenizer, is_trained=is_trained)
        stored = ReadyRows(content.path, self.row_specs(tokenizer), tokenizer.size, labels=self.label_bounds)
        return self.stored_rows(stored, tokenizer, is_trained=is_trained)

    @abc.abstractmethod
    def rows_of(self, content: Any, tokenizer: Tokenizer, *, is_trained: bool) -> Rows:
        """The rows of examples. is_trained: whether they are to be trained on."""

    def row_specs(self, tokenizer: Tokenizer) -> dict[str, tf.TensorSpec]:
        """The features of a preprocessed example, by their names in batches; see `data.preprocessed_examples`."""
        raise UserError("This task has no preprocessed examples: leave out write_examples, and pass its data.")

    @property
    def label_bounds(self) -> tuple[int, int] | None:
        """The smallest and the largest number of a label, if there are such."""
        return None

    def stored_rows(self, stored: ReadyRows, tokenizer: Tokenizer, *, is_trained: bool) -> Rows:
        """The rows of a file of preprocessed examples."""
        return StoredRows(stored, self.max_seq_length)

    def fitted_to(self, rows: Any) -> Self:
        """The head with what its loss needs to know of the rows to train on."""
        return self

    # Training

    @abc.abstractmethod
    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        """The Keras model; dtype is a dtype policy, or the name of one."""

    @abc.abstractmethod
    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """See `training.task.Task`."""

    @abc.abstractmethod
    def metrics(self, outputs: Any, batch: Batch) -> Metrics:
        """See `training.task.Task`."""

    @abc.abstractmethod
    def predictions(self, outputs: Any, batch: Batch) -> dict[str, tf.Tensor]:
        """Outputs that are kept for each row: {name: [B, ...]}."""

    # Scores and reports; predictions are those of the first rows of a split

    @abc.abstractmethod
    def scores(self, predictions: Predictions, split: Any) -> dict[str, float]:
        """{score: number} of a split."""

    @abc.abstractmethod
    def compare(self, predictions: Predictions, split: Any) -> tuple[np.ndarray, np.ndarray]:
        """Labels and predicted labels, arrays of one length."""

    def collapse(self, predictions: Predictions, split: Any) -> str | None:
        """Reason why the predictions are worthless, in words, or None: see `metrics.collapse_reason`."""
        return metrics.collapse_reason(*self.compare(predictions, split))

    @abc.abstractmethod
    def details(self, predictions: Predictions, split: Any) -> dict[str, Any]:
        """Content of eval_details.json for a split, as far as it applies.

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

    def quick_scores(self, train: Any, held_out: Any) -> dict[str, dict[str, float]]:
        """{name of a model without an encoder: its scores on the split held_out}, that training should beat."""
        return {}

    # Scores of an export; items are labelled examples, questions or sentences

    signature: ClassVar[str] = "serving_default"  # that is asked
    scored_with: ClassVar[tuple[str, ...]] = ()  # modules of other packages that `evaluate` needs

    def content(self, path: str, reads: Mapping[str, Any]) -> Any:
        """The content of a `labelled_file` for `rows`; reads: its columns, by the flags that name them."""
        raise NotImplementedError

    def labelled(self, path: str, reads: Mapping[str, Any]) -> Sequence[Any]:
        """The items of such a file."""
        return self.content(path, reads)

    def items(self, split: Any) -> Sequence[Any]:
        """The items of a split."""
        return split.examples

    def texts_of(self, item: Any) -> Sequence[str]:
        """The texts of an item."""
        return item.texts

    def answered(self, predictions: Predictions, split: Any) -> int:
        """The number of items whose rows are all among the predictions."""
        return len(predictions["row_numbers"])

    def asked(self, item: Any, inputs: Mapping[str, int | None]) -> Iterator[Example]:
        """Yields what an export with these inputs is asked about an item."""
        yield item

    def kept(self, item: Any) -> Any:
        """The part of an item that `evaluate` needs."""
        return item

    def scored_by(self, names: Sequence[str]) -> Self:
        """The head with other scores, where it can have such."""
        return self

    @abc.abstractmethod
    def evaluate(self, kept: list[Any], outputs: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
        """{score: number}, and details as far as they apply.

        kept: of every item, filled while the outputs are read. outputs: of the export for each example `asked`.
        """

    # Files and exports

    @abc.abstractmethod
    def write_predictions(
        self, folder: str, name: str, predictions: Predictions, split: Any, *, submission: str = ""
    ) -> list[str]:
        """Writes the predictions for a split as files into the folder; returns sentences on them.

        name: of the files without their extensions. submission: of the file that a leaderboard takes; "": none.
        """

    @abc.abstractmethod
    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        """See `training.task.Task`."""

    def vector_choice(self, config: BertConfig) -> Any:
        """See `heads.base.servable`."""
        return None

    @property
    def host_settings(self) -> dict[str, Any] | None:
        """See `heads.base.servable`."""
        return None

    @abc.abstractmethod
    def serving_examples(self, split: Any) -> dict[str, dict[str, list]]:
        """{signature: {input: values}} from a split, to compare an export with the live model on."""

    def demo_examples(self, split: Any, count: int = 3) -> list[Example]:
        """Some examples, to show what the export predicts for them; texts in the order of its inputs."""
        return split.shown(count)

    def demo_line(self, example: Example, row: Answered) -> str:
        """One line on an example and on what the export answered for it."""
        predicted = " ".join(filter(None, row.answer.cells()))
        label = ", ".join(map(str, example.label)) if isinstance(example.label, list) else example.label
        true_label = "" if label is None else f" (it is {'none' if label == '' else label})"
        text = textwrap.shorten(" | ".join(example.texts), 90)
        return f"{text}  ->  {predicted or 'none'}{true_label}"

    def about(self) -> dict[str, Any]:
        """Content of about.json besides labels and kind."""
        return {}

    # Thresholds and temperature

    def calibrated(self, predictions: Predictions, split: Any) -> tuple[Self, str]:
        """The head with the thresholds that are best on labelled predictions, and a sentence on them; or itself."""
        return self, ""

    @property
    def calibration(self) -> dict[str, float]:
        """The thresholds that were found, as the folder of a run records them; {} if none were."""
        return {}

    def with_calibration(self, stored: Mapping[str, float]) -> Self:
        """The head with stored thresholds, where they fit and no flag says otherwise."""
        return self


def stacked(outputs: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The floating point outputs for n examples, {name: [n, ...]}."""
    columns: dict[str, list[Any]] = collections.defaultdict(list)
    for values in outputs:
        for name, value in values.items():
            if np.asarray(value).dtype.kind == "f":
                columns[name].append(value)
    return {name: np.stack(values) for name, values in columns.items()}

"""Training: rows of examples for a head, its Keras model, and its functions on strings, in TensorFlow.

A head names the module with its class, `TRAINING`: see `Head.training`. B rows of a batch, n examples of a split.
"""

from __future__ import annotations

import abc
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from bert_tf.config.bert_config import BertConfig
from bert_tf.data.examples import Example
from bert_tf.data.preprocessed_examples import ReadyRows, StoredExamples
from bert_tf.errors import UserError
from bert_tf.heads.base.answering import Answered
from bert_tf.heads.base.rows import Rows, StoredRows
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.runtime.lazy import keras, module, tf
from bert_tf.text.tokenizer import Tokenizer, tokenizer_of
from bert_tf.training.task import Predictions

model_heads = module("bert_tf.model.heads")  # not needed to score answers


class Training(abc.ABC):
    """Trains, scores and exports a head.

    Attributes:
        perfect: the highest possible value of its criterion.
        learns_in_steps: whether training on few examples is measured in steps by default, not in epochs.
        new_head_rate: learning rate of a randomly initialized head with few examples; 0: the encoder's rate, at
            which a token-level head hardly moves in a few hundred steps.
        file_flags: flags that specify how files are read; the export records them for `bert-tf evaluate`.
        rescores: whether an evaluation reports the scores with the fitted thresholds, not the earlier ones.
        stored_splits: the splits that may be preprocessed examples; None: all.
    """

    perfect: ClassVar[float] = 1.0
    learns_in_steps: bool = False
    new_head_rate: ClassVar[float] = 0.0
    file_flags: ClassVar[tuple[str, ...]] = ()
    rescores: ClassVar[bool] = True
    stored_splits: ClassVar[tuple[str, ...] | None] = ("train",)

    def __init__(self, head: Any) -> None:
        self.head = head

    @classmethod
    @abc.abstractmethod
    def recorded(cls, kind: Any, about: Mapping[str, Any], settings: Mapping[str, Any] | None) -> Any:
        """The Head of an export or a run, see `Head.recorded`; kind: its class."""

    # Rows

    def rows(self, content: Any, tokenizer: Tokenizer, *, is_trained: bool = False) -> Rows:
        """The rows of a split. content: what its source returns, examples or a file of preprocessed ones."""
        if not isinstance(content, StoredExamples):
            return self.rows_of(content, tokenizer, is_trained=is_trained)
        stored = ReadyRows(content.path, self.row_specs(tokenizer), tokenizer.size, labels=self.label_bounds)
        return self.stored_rows(stored, tokenizer, is_trained=is_trained)

    @abc.abstractmethod
    def rows_of(self, content: Any, tokenizer: Tokenizer, *, is_trained: bool) -> Rows:
        """The rows of examples. is_trained: whether they are for training."""

    def row_specs(self, tokenizer: Tokenizer) -> dict[str, tf.TensorSpec]:
        """The features of a preprocessed example, named as in batches; see `data.preprocessed_examples`."""
        raise UserError("This task has no preprocessed examples: remove write_examples, and pass its data.")

    @property
    def label_bounds(self) -> tuple[int, int] | None:
        """The smallest and the largest label number, if labels are numbers."""
        return None

    def stored_rows(self, stored: ReadyRows, tokenizer: Tokenizer, *, is_trained: bool) -> Rows:
        """The rows of a file of preprocessed examples."""
        return StoredRows(stored, self.head.max_seq_length)

    # The model and its export

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        """The Keras model; dtype is a dtype policy, or the name of one."""
        return model_heads.of_head(self.head, config, self.head.size, dtype=dtype)

    def vector_choice(self, config: BertConfig) -> VectorChoice | None:
        """See `heads.base.servable`."""
        return None

    @abc.abstractmethod
    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        """The signatures of the export: {name: tf.function on strings}."""

    def live_signatures(self, loaded: Any) -> dict[str, Any]:
        """The same for a loaded `checkpoints.checkpoint.Checkpoint`."""
        return self.signatures(loaded.model, tokenizer_of(loaded))

    # Scores of an export; items are labeled examples, questions or sentences

    def content(self, path: str, reads: Mapping[str, Any]) -> Any:
        """The content of a `labelled_file` for `rows`; reads: its columns, by the flags that name them."""
        raise NotImplementedError

    def labelled(self, path: str, reads: Mapping[str, Any]) -> Sequence[Any]:
        """The items of such a file."""
        return self.content(path, reads)

    def texts_of(self, item: Any) -> Sequence[str]:
        """The texts of an item."""
        return item.texts

    def asked(self, item: Any, inputs: Mapping[str, int | None]) -> Iterator[Example]:
        """Yields the examples that an export with these inputs has to answer for an item."""
        yield item

    def kept(self, item: Any) -> Any:
        """The part of an item that `evaluate` needs."""
        return item

    @abc.abstractmethod
    def evaluate(self, kept: list[Any], outputs: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
        """{score: number}, and details as far as they apply.

        kept: parts of all items, filled while the outputs are read. outputs: the export's, for each example `asked`.
        """

    # Reports and files of predictions for a split

    def details(self, predictions: Predictions, split: Any) -> dict[str, Any]:
        """Content of eval_details.json for a split, as far as it applies.

        {"per_class", "confusion" or "most_confused", "hardest"}, see `training.metrics` and `reports.scoreboard`, or
        {"questions"}; and "confidence", see `training.confidence.report`.
        """
        return {}

    @abc.abstractmethod
    def write_predictions(
        self, folder: str, name: str, predictions: Predictions, split: Any, *, submission: str = ""
    ) -> list[str]:
        """Writes the predictions for a split as files into the folder; returns sentences about them.

        name: file name without extension. submission: name of the file for a leaderboard; "": none.
        """

    # Examples

    @abc.abstractmethod
    def serving_examples(self, split: Any) -> dict[str, dict[str, list]]:
        """{signature: {input: values}} from a split, for comparing an export with the live model."""

    def demo_examples(self, split: Any, count: int = 3) -> list[Example]:
        """Some examples for showing the export's predictions; texts in the order of its inputs."""
        return split.shown(count)

    def demo_line(self, example: Example, row: Answered) -> str:
        """One line on an example and the export's answer."""
        predicted = " ".join(filter(None, row.answer.cells()))
        label = ", ".join(map(str, example.label)) if isinstance(example.label, list) else example.label
        true_label = "" if label is None else f" (it is {'none' if label == '' else label})"
        text = textwrap.shorten(" | ".join(example.texts), 90)
        return f"{text}  ->  {predicted or 'none'}{true_label}"

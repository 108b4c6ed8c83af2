"""Training of heads on texts, pairs or choices: rows of strings, and the export, all in the graph.

B texts, C choices, F texts of an example, T positions in a row, n examples.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_tf.config.bert_config import BertConfig
from bert_tf.data.examples import Example
from bert_tf.data.preprocessed_examples import ReadyRows
from bert_tf.errors import UserError, count_text
from bert_tf.heads.base import prediction_files
from bert_tf.heads.base.string_signature import string_signature
from bert_tf.heads.base.text_head import TextHead, Windows
from bert_tf.heads.base.text_rows import TextRows, empty_row
from bert_tf.heads.base.text_windows import pack_windows
from bert_tf.heads.base.training import Training, model_heads
from bert_tf.model.packing import PackingSpec
from bert_tf.runtime.lazy import keras, tf
from bert_tf.text.tokenizer import Tokenizer, pack
from bert_tf.training.task import Predictions

MAX_COMPARED = 8  # texts used to compare an export with the live model

Tensors = dict[str, "tf.Tensor"]


class TextTraining(Training):
    """Trains and exports a TextHead."""

    head: TextHead
    file_flags: ClassVar[tuple[str, ...]] = ("text_columns", "label_column", "label_separator")
    stored_splits: ClassVar[tuple[str, ...] | None] = None

    @classmethod
    def recorded(cls, kind: type[TextHead], about: Mapping[str, Any], settings: Mapping[str, Any] | None) -> TextHead:
        head = kind.from_about(about)
        if settings is None:
            return head
        windows = settings["windows"]
        return head.configured(
            max_seq_length=settings["max_seq_length"],
            texts=settings["texts"],
            windows=Windows(**windows) if windows else None,
            truncation=settings["truncation"],
            temperature=str(about.get("temperature", 1.0)),
        )

    # Rows

    def inputs(self, tokenizer: Tokenizer, texts: tf.Tensor) -> Tensors:
        """String [B, F] -> inputs of the model, as made by `tokenizer.pack` or, with windows, by `pack_windows`.

        For choices, string [B, 1 + C], rows of the first text with each choice: [B, C, T], "lengths" [B, C].
        """
        head, segments = self.head, tf.unstack(texts, axis=1)
        if head.rows_per_example > 1:
            count = head.rows_per_example
            segments = [tf.reshape(tf.repeat(texts[:, :1], count, axis=1), [-1]), tf.reshape(texts[:, 1:], [-1])]
        if head.windows is not None:
            return pack_windows(tokenizer, segments, head.max_seq_length, head.windows)
        packed = pack(tokenizer, segments, head.max_seq_length, truncation=head.truncation)
        if head.rows_per_example > 1:
            return {name: tf.reshape(x, [-1, count, *x.shape[1:]]) for name, x in packed.items()}
        return packed

    def token_counts(self, counts: np.ndarray) -> np.ndarray:
        """Tokens of each segment of an example's longest row; counts: tokens of its texts, int32 [n, F]."""
        if self.head.rows_per_example > 1:
            return np.stack([counts[:, 0], counts[:, 1:].max(1)], 1)
        return counts

    def rows_of(self, content: Sequence[Example], tokenizer: Tokenizer, *, is_trained: bool) -> TextRows:
        return TextRows(content, self.head, tokenizer, class_weights=self._weighting(is_trained))

    def row_specs(self, tokenizer: Tokenizer) -> dict[str, tf.TensorSpec]:
        return {name: tf.TensorSpec(x.shape, x.dtype) for name, x in empty_row(self.head, tokenizer).items()}

    @property
    def label_bounds(self) -> tuple[int, int] | None:
        label = self.head.unknown(1)
        if label.dtype.kind == "i":
            return 0, len(self.head.labels) - 1
        return (0, 1) if label.ndim > 1 else None

    def stored_rows(self, stored: ReadyRows, tokenizer: Tokenizer, *, is_trained: bool) -> TextRows:
        return TextRows.of_stored(stored, self.head, tokenizer, class_weights=self._weighting(is_trained))

    def _weighting(self, is_trained: bool) -> str:
        return self.head.weighting if is_trained else "none"

    # Scores of an export

    def kept(self, item: Example) -> Any:
        """The label; UserError, with its position, if there is none."""
        if item.label in self.head.missing:
            raise UserError(f"There is no label in {item.location}: pass a file with a label in every row.")
        return self.head.encode([item])[0]

    def evaluate(self, kept: list[Any], outputs: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `Training`; only predictions are kept in memory, [n, C]."""
        predicted = self.head.predicted(stacked(outputs))
        labels = np.stack(kept)
        return self.head.score(labels, predicted), self.head.tables(labels, predicted)

    # Reports and files of predictions for a split

    def details(self, predictions: Predictions, split: Any) -> dict[str, Any]:
        head = self.head
        labels, predicted = head.compare(predictions, split)
        shown = head.confidence(predictions, labels)
        return {
            **head.tables(labels, predicted),
            **({"confidence": shown} if shown else {}),
            "hardest": [row.fields() for row in prediction_files.hardest(head, split, predictions)],
        }

    def write_predictions(
        self, folder: str, name: str, predictions: Predictions, split: Any, *, submission: str = ""
    ) -> list[str]:
        answered = prediction_files.PredictionRows(self.head, split, predictions)
        if submission:
            prediction_files.write_submission(os.path.join(folder, "submission"), submission, answered)
        return [f"Wrote {count_text(len(answered), 'prediction')} to {prediction_files.write(folder, name, answered)}."]

    # The model and its export

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        pooling = {"window_pooling": self.head.windows.pooling} if self.head.windows else {}
        return model_heads.of_head(self.head, config, self.head.size, dtype=dtype, **pooling)

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        """The predictions of the head for texts, and the name of the "label", string [B].

        serving_default: string [B] each: `text_a` and, for pairs, `text_b`; for choices `text_a` and `choices` [B, C].
        """
        head = self.head

        def read(*texts: tf.Tensor) -> tuple[Tensors, Tensors]:  # string [B] or [B, C] each
            columns = [text if len(text.shape) == 2 else text[:, None] for text in texts]
            return self.inputs(tokenizer, tf.concat(columns, 1)), {}

        def compute(rows: Tensors) -> Tensors:
            return head.predictions(model(rows, packing=PackingSpec()))

        def answer(predictions: Tensors, rest: Tensors) -> Tensors:
            return {**predictions, **head.label_names(predictions)}

        shapes = head.input_shapes(head.texts)
        specs = [tf.TensorSpec([None, *shape], tf.string, name) for name, shape in shapes.items()]
        return {"serving_default": string_signature(read, compute, answer, specs)}

    def serving_examples(self, split: TextRows) -> dict[str, dict[str, list]]:
        values, first = {}, 0
        for name, shape in self.head.input_shapes(split.texts.shape[1]).items():
            columns = split.texts[:MAX_COMPARED, first : first + sum(shape or [1])]
            values[name] = (columns if shape else columns[:, 0]).tolist()
            first += columns.shape[1]
        return {"serving_default": values}


def stacked(outputs: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The floating point outputs for n examples, {name: [n, ...]}."""
    columns: dict[str, list[Any]] = collections.defaultdict(list)
    for values in outputs:
        for name, value in values.items():
            if np.asarray(value).dtype.kind == "f":
                columns[name].append(value)
    return {name: np.stack(values) for name, values in columns.items()}


TRAINING = TextTraining

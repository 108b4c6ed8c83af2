"""VectorTask: an encoder that learns to make vectors of whole texts.

B rows of a batch, F texts of an example, D size of a vector, n examples of a split.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.examples import Example
from bert_tf.heads.base import prediction_files as files
from bert_tf.heads.base.answers import Answered
from bert_tf.tasks.embeddings import vector_losses
from bert_tf.tasks.embeddings.extraction import Extractor
from bert_tf.tasks.embeddings.vector_choice import VectorChoice, choose_layers
from bert_tf.tasks.embeddings.vector_goals import RANK_SCORES, VECTORS, Metrics, Positives, VectorGoal
from bert_tf.tasks.text_classification.classification import TextClassification
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training.task import Comparison

MAX_COMPARED = 8  # texts that an export is compared with the live model on
SPREAD = 1e-4  # standard deviation of the vectors of different texts below which they are all the same


class VectorTask(TextClassification):
    """As TextClassification, with a VectorGoal; the loss is of whole batches, and the export returns vectors.

    Args:
        name: of the task.
        split_examples: see TextClassification.
        goal: what is learned.
        tokenizer: cuts texts into tokens.
        stride: of windows in which the export reads long texts; 0: they are truncated, as in training.
        options: of TextClassification.
    """

    goal: VectorGoal
    head = None
    comparison = Comparison(VECTORS, ("labels", "row_weights", "text_keys"))
    ready_splits = ("train",)

    def __init__(
        self,
        name: str,
        split_examples: Mapping[str, Callable[[], list[Example]]],
        goal: VectorGoal,
        tokenizer: Tokenizer,
        *,
        stride: int = 0,
        **options: Any,
    ) -> None:
        scores = RANK_SCORES if isinstance(goal, Positives) else goal.scores
        super().__init__(name, split_examples, goal, tokenizer, texts=goal.rows_per_example, scores=scores, **options)
        self.head, self.sentence_vectors, self.stride = None, goal.vectors, stride

    def metrics(self, outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]) -> Metrics:
        """Those of the goal."""
        return self.goal.metrics(outputs[VECTORS], batch)

    def loss_weights(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Those of the goal's loss: of rows, or 1 for a loss of the whole batch."""
        weights = batch["row_weights"]
        return {self.goal.loss_name: tf.ones([]) if self.goal.loss_name == "cosent" else weights}

    def compare(self, predictions: Mapping[str, np.ndarray], split: str) -> tuple[np.ndarray, np.ndarray]:
        """Scores and cosines; without scores ones, and the ranks of positives among the texts of the split."""
        count = len(predictions["row_numbers"])
        if not isinstance(self.goal, Positives):
            return self.split(split).labels[:count], self.goal.predicted(predictions)
        return np.ones(count), vector_losses.ranks(predictions[VECTORS], self.split(split).texts[:count])

    def collapse(self, predictions: Mapping[str, np.ndarray], split: str) -> str | None:
        """Whether the vectors of all texts are the same."""
        vectors = predictions[VECTORS][:, 0]
        if len(vectors) < 2 or np.std(vectors, axis=0).max() > SPREAD:
            return None
        return f"the vectors of all {len(vectors)} texts are the same"

    def details(self, predictions: Mapping[str, np.ndarray], split: str) -> dict[str, Any]:
        """Nothing: there are no classes, and no losses of single examples."""
        return {}

    def write_predictions(self, folder: str, split: str, predictions: Mapping[str, np.ndarray]) -> list[str]:
        """Writes predictions.jsonl and .tsv: id, texts, the cosine of the first two, and the score where known."""
        name = "predictions" if split == "test" else f"predictions_{split.removeprefix('test_')}"
        rows = files.PredictionRows(self.goal, self.split(split), predictions)
        path = os.path.join(folder, f"{name}.tsv")
        for each in (os.path.join(folder, f"{name}.jsonl"), path):
            files.write_rows(each, rows)
        return [f"{len(rows):,} similarities are in {path}."]

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        """Vectors of texts and of their tokens: see `extraction.Extractor.signatures`."""
        choice = VectorChoice(
            layers=choose_layers("last", model.config.layers_with_states),
            unit="sentence",
            pooling=self.goal.vectors.pooling,
            normalize=("sentence",) if self.goal.vectors.normalize else (),
            max_seq_length=self.max_seq_length,
            stride=self.stride,
        )
        return Extractor(model, tokenizer, choice).signatures()

    def serving_examples(self, split: str) -> dict[str, dict[str, list]]:
        """The first texts of a split, for both signatures."""
        texts = self.split(split).texts[:MAX_COMPARED].reshape(-1)[:MAX_COMPARED].tolist()
        return {name: {"text": texts} for name in ("serving_default", "tokens")}

    def demo_examples(self, split: str, count: int = 3) -> list[Example]:
        """The first texts of examples from all over a split."""
        examples = super().demo_examples(split, count)
        return [Example(each.id, each.texts[:1], None, each.location) for each in examples]

    def demo_line(self, example: Example, row: Answered) -> str:
        """A text and the size of its vector."""
        return f"{example.texts[0][:90]}  ->  a vector of {len(row.answer.fields()[VECTORS]):,} numbers"

    def about(self) -> dict[str, Any]:
        """How vectors are made, as `bert-tf extract --export` says it."""
        vectors = self.goal.vectors
        return {
            "labels": [],
            "kind": self.kind,
            "layers": ["last"],
            "pooling": vectors.pooling,
            "normalize": vectors.normalize,
            "max_seq_length": self.max_seq_length,
            "do_lower_case": self.tokenizer.lower_case,
        }

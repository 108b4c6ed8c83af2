"""TextClassification: examples and a goal as a task; what all tasks on whole texts share, whatever their files.

B rows of a batch, F texts of an example, n examples of a split.
"""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import LossSettings
from bert_tf.data.examples import Example
from bert_tf.data.ready_examples import ReadyRows
from bert_tf.errors import UserError
from bert_tf.heads.base import prediction_files as files
from bert_tf.heads.base.loss_settings import BALANCED
from bert_tf.heads.base.table_options import SentenceOptions
from bert_tf.heads.base.text_head import TextHead
from bert_tf.heads.base.text_windows import Windows
from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.tasks.staged_signature import staged_signature
from bert_tf.tasks.task import FineTuningTask
from bert_tf.tasks.text_classification import baseline, splits
from bert_tf.tasks.text_classification.splits import Split
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.text.truncation import LONGEST_FIRST
from bert_tf.training import confidence, metrics
from bert_tf.training.task import Objective

TEXTS_AT_ONCE = 4096  # read from ready examples together
MAX_COMPARED = 8  # texts that an export is compared with the live model on

Examples = Callable[[], list[Example]]
Vectors = Callable[[str, int], np.ndarray]
Score = str | Callable[[np.ndarray, np.ndarray], float]


class TextClassification(FineTuningTask):
    """Predicts what a `heads.base.text_head.TextHead` says from one text, from two, or from a text and its choices.

    Args:
        name: of the task.
        split_examples: {split: function that reads its examples}, called when first needed; "train" is trained on.
        goal: what is predicted.
        tokenizer: cuts texts into tokens.
        max_seq_length: tokens in a row.
        texts: texts of an example, 1 or 2.
        scores: names for `metrics.score_of`, or functions of labels and predicted labels; by default those of the goal.
        criterion: the score that decides which model is the best; by default the first.
        temperature: of the probabilities, see `training.confidence.parse_temperature`.
        class_weights: "balanced" lets every class count alike in the training loss, "none" every example; or see
            `loss_settings.parse_weights`.
        loss: what training changes about the goal's loss.
        windows: how texts longer than max_seq_length are read; None: they are truncated.
        truncation: which text of a pair is truncated, see `tokenizer.pack`.
        eval_splits: see `training.task.Task`.
        test_splits: the splits to predict.
        submissions: {split: name of the file that a leaderboard takes}.
    """

    def __init__(
        self,
        name: str,
        split_examples: Mapping[str, Examples],
        goal: TextHead,
        tokenizer: Tokenizer,
        *,
        max_seq_length: int,
        texts: int = 1,
        scores: Sequence[Score] = (),
        criterion: str = "",
        temperature: str = "1",
        class_weights: str = "none",
        loss: LossSettings | None = None,
        windows: Windows | None = None,
        truncation: str = LONGEST_FIRST,
        eval_splits: Mapping[str, str] | None = None,
        test_splits: tuple[str, ...] = ("test",),
        submissions: Mapping[str, str] | None = None,
    ) -> None:
        if windows and not goal.reads_windows:
            raise UserError("long_texts=windows needs texts or pairs; leave it out for choices, which are truncated.")
        if truncation != LONGEST_FIRST and (windows or texts == 1):
            raise UserError(f"truncation={truncation} is for pairs that are truncated; leave it out.")
        goal = goal.with_temperature(confidence.parse_temperature(temperature)).with_loss(loss or LossSettings())
        self.name, self.goal, self.tokenizer, self.truncation = name, goal, tokenizer, truncation
        self.max_seq_length, self.texts, self.windows = max_seq_length, texts, windows
        self.score_functions = _criterion_first(scores or goal.scores, criterion, goal)
        self.eval_splits = {"": "dev"} if eval_splits is None else eval_splits
        self.test_splits, self.submissions = test_splits, submissions or {}
        # MNLI: matched_accuracy
        self.criterion = next((f"{prefix}{next(iter(self.score_functions))}" for prefix in self.eval_splits), "")
        self.objectives = {goal.objective: Objective()}
        self.kind, self.labels, self.head = goal.kind, goal.labels, ("classifier/kernel", goal.size)
        self.rows_per_example, self.file_flags = goal.rows_per_example, goal.file_flags
        self.calibration_file = goal.calibration_file
        self._split_examples, self._splits = split_examples, dict[str, Split]()
        self._class_weights = class_weights

    # Data

    def split(self, name: str) -> Split:
        """The split, read when first needed."""
        if name in self._splits:
            return self._splits[name]
        if name not in self._split_examples and name not in self.ready_files:
            raise UserError(
                f"{self.name} has no {name} data: give a trained model as init_checkpoint, and do_train=false."
            )
        if name in self.ready_files:
            self._splits[name] = self._ready_split(name)
        else:
            self._splits[name] = Split(self._split_examples[name](), self.goal, class_weights=self._weights_of(name))
        if name == "train":
            self.goal = self.goal.fitted_to(self._splits[name].labels)
        return self._splits[name]

    def _weights_of(self, split: str) -> str:
        return self._class_weights if split == "train" else "none"

    def describe(self, split: str) -> list[str]:
        """Sentences on the size, the classes and the texts of a split."""
        counts = self.split(split).token_counts(self.goal, self.tokenizer)
        return splits.describe(split, self.split(split), self.goal, counts, self.max_seq_length, self.windows)

    def statistics(self, split: str) -> dict[str, Any]:
        """Lengths of the texts of a split."""
        return splits.statistics(self.split(split).token_counts(self.goal, self.tokenizer), self.max_seq_length)

    def train_batches(self, batch_size: int, seed: int) -> tf.data.Dataset:
        """See `splits.batches`."""
        split = self.split("train")
        lengths = split.token_counts(self.goal, self.tokenizer).sum(1) if self.groups_by_length else None
        return splits.batches(split, batch_size, self._inputs, seed=seed, lengths=lengths)

    def eval_batches(self, batch_size: int, split: str = "dev") -> tf.data.Dataset:
        """See `splits.batches`."""
        return splits.batches(self.split(split), batch_size, self._inputs)

    # Ready examples

    ready_splits: tuple[str, ...] | None = None

    def ready_specs(self) -> dict[str, tf.TensorSpec]:
        """The inputs of the model, and "labels"."""
        row = self._empty_row()
        return {name: tf.TensorSpec(x.shape, x.dtype) for name, x in row.items()}

    def ready_extras(self, split: str) -> dict[str, np.ndarray]:
        """The tokens of the texts before truncation, int32 [n, segments]."""
        return {"token_counts": self.split(split).token_counts(self.goal, self.tokenizer)}

    def _empty_row(self) -> dict[str, tf.Tensor]:
        """The row of empty texts that pads batches, with a label of zeros."""
        inputs = self._inputs(tf.fill([1, self.texts], ""))
        return {name: x[0] for name, x in inputs.items()} | {"labels": tf.zeros_like(self.goal.unknown(1)[0])}

    def _ready_split(self, name: str) -> Split:
        """The split from its ready examples; its texts are the tokens, joined."""
        path, label = self.ready_files[name], self.goal.unknown(1)
        largest = len(self.goal.labels) - 1 if label.dtype.kind == "i" else 1
        bounds = (
            (0, largest) if label.dtype.kind == "i" or label.ndim > 1 else None
        )  # classes, or 0 and 1 of each label
        rows = ReadyRows(path, self.ready_specs(), self.tokenizer.size, labels=bounds)
        labels = rows.labels
        is_known = rows.is_known and labels is not None
        written = self.goal.names(labels) if labels is not None and is_known else [None] * rows.count
        examples = [
            Example(str(number), texts, label, f"example {number} of {path}")
            for number, (texts, label) in enumerate(zip(self._texts_of(rows), written, strict=True))
        ]
        rows = rows.with_padding(self._empty_row())
        return Split(examples, self.goal, class_weights=self._weights_of(name), ready=rows)

    def _texts_of(self, rows: ReadyRows) -> list[tuple[str, ...]]:
        """The texts of rows, as far as the tokens tell them."""
        texts: list[tuple[str, ...]] = []
        for first in range(0, rows.count, TEXTS_AT_ONCE):
            numbers = tf.range(first, min(first + TEXTS_AT_ONCE, rows.count))
            tokens = rows.gather(numbers)["token_ids"].numpy()
            for example in tokens.reshape(len(tokens), -1, tokens.shape[-1]):
                parts = [self._segments(row) for row in example]
                found = [*parts[0][: self.texts], *(part[-1] for part in parts[1:])]
                found += [""] * (self.texts - len(found))
                texts.append(tuple(found[: self.texts]))
        return texts

    def _segments(self, ids: np.ndarray) -> list[str]:
        """The texts of a row of ids [T]: what is between [CLS] and the separators."""
        ends = np.flatnonzero(ids == self.tokenizer.sep_id).tolist()
        starts = [1, *(end + 1 for end in ends)]
        parts = [ids[start:end].tolist() for start, end in zip(starts, ends, strict=False)]
        return list(self.tokenizer.detokenize(parts[:: self.tokenizer.separators]))

    # Batches

    def _inputs(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._pack(self.tokenizer, texts)

    def _pack(self, tokenizer: Tokenizer, texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.goal.inputs(tokenizer, texts, self.max_seq_length, self.windows, self.truncation)

    # Training and evaluation

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        """The goal's model."""
        pooling = {"window_pooling": self.windows.pooling} if self.windows else {}
        return self.goal.create_model(config, dtype=dtype, **pooling)

    def loss_weights(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Those of the rows."""
        return {self.goal.objective: batch["row_weights"]}

    def metrics(
        self, outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """The losses, and the accuracy where predictions are labels; the latter never weighted by class."""
        losses = self.goal.training_losses(outputs, batch["labels"])
        values = {name: (loss, batch["row_weights"]) for name, loss in losses.items()}
        correct = self.goal.correct(outputs, batch["labels"])
        if correct is not None:
            values["accuracy"] = (correct, tf.cast(batch["row_weights"] > 0, tf.float32))
        return values

    def predictions(self, outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The goal's predictions, and the row numbers."""
        return self.goal.predictions(outputs) | {"row_numbers": tf.cast(batch["row_numbers"], tf.float32)}

    def compare(self, predictions: Mapping[str, np.ndarray], split: str) -> tuple[np.ndarray, np.ndarray]:
        """Labels and predicted labels, as the goal numbers them."""
        return self.split(split).labels[: len(predictions["row_numbers"])], self.goal.predicted(predictions)

    def scores(self, predictions: Mapping[str, np.ndarray], split: str) -> dict[str, float]:
        """The scores of the task."""
        return self.score(*self.compare(predictions, split))

    def score(self, labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
        """{score: number} of labels and predicted labels, arrays [n, ...]."""
        return {name: function(labels, predicted) for name, function in self.score_functions.items()}

    def baselines(self, vectors: Vectors | None = None) -> tuple[dict[str, dict[str, float]], Any]:
        """Those of `text_classification.baseline` on the first evaluation split; see `FineTuningTask`."""
        train, prefix = self.split("train"), next(iter(self.eval_splits))
        held_out, head = self.split(self.eval_splits[prefix]), None
        if self.rows_per_example > 1 or np.all(train.labels == train.labels[:1]):
            return {}, None
        name = baseline.COMMONEST["f" if self.goal.label_counts(train.labels) is None else "i"]
        predicted = {name: baseline.commonest(train.labels, held_out.count)}
        weights = {"is_balanced": self._class_weights == BALANCED}
        if not (train.ready or held_out.ready):
            texts = baseline.tf_idf(train.texts, train.labels, held_out.texts, **weights)
            predicted |= {} if texts is None else {baseline.TF_IDF: texts}
        if vectors:
            head = self.linear_head(vectors)
            new = vectors(self.eval_splits[prefix], held_out.count)
            predicted[baseline.FROZEN] = head.predict(new, train.labels)
        scores = {name: self.score(held_out.labels, each) for name, each in predicted.items()}
        return {
            name: {f"{prefix}{score}": value for score, value in each.items()} for name, each in scores.items()
        }, head

    def linear_head(self, vectors: Vectors) -> Any:
        """A `baseline.LinearHead` on the vectors of the training data; None for choices."""
        train, is_balanced = self.split("train"), self._class_weights == BALANCED
        if self.rows_per_example > 1 or np.all(train.labels == train.labels[:1]):
            return None
        known = vectors("train", baseline.MAX_VECTORS)
        return baseline.fit_vectors(known, train.labels[: len(known)], self.goal.size, is_balanced=is_balanced)

    def details(self, predictions: Mapping[str, np.ndarray], split: str) -> dict[str, Any]:
        """The goal's details, and the examples with the largest loss."""
        hardest = [row.fields() for row in files.hardest(self.goal, self.split(split), predictions)]
        labels, predicted = self.compare(predictions, split)
        shown = self.goal.confidence(predictions, labels)
        return {
            **self.goal.details(labels, predicted),
            **({"confidence": shown} if shown else {}),
            "hardest": hardest,
        }

    # Predictions and exports

    def write_predictions(self, folder: str, split: str, predictions: Mapping[str, np.ndarray]) -> list[str]:
        """Writes predictions.tsv and .jsonl, with the name of the split where there are several, and submissions."""
        name = "predictions" if split == "test" else f"predictions_{split.removeprefix('test_')}"
        rows = files.PredictionRows(self.goal, self.split(split), predictions)
        if split in self.submissions:
            files.write_submission(os.path.join(folder, "submission"), self.submissions[split], rows)
        return [f"{len(rows):,} predictions are in {files.write(folder, name, rows)}."]

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        """The predictions of the goal, and the name of the "label", string [B], for texts.

        serving_default: string [B] each of `text_a` and, for pairs, `text_b`; of a choice `text_a` and `choices`
        [B, C]. tf_example: `examples`, string [B], each a serialized tf.Example with these as features.
        """
        shapes = self.goal.input_shapes(self.texts)

        def read(*texts: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:  # string [B] or [B, C] each
            columns = [text if len(text.shape) == 2 else text[:, None] for text in texts]
            return self._pack(tokenizer, tf.concat(columns, 1)), {}

        def compute(rows: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return self.goal.predictions(model(rows, packing=PackingSpec.dynamic()))

        def answer(predictions: dict[str, tf.Tensor], rest: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return {**predictions, **self.goal.label_names(predictions)}

        def predict_examples(examples: tf.Tensor) -> dict[str, tf.Tensor]:
            features = {name: tf.io.FixedLenFeature(shape, tf.string) for name, shape in shapes.items()}
            # In a graph the same one, traced once; eagerly, when an export is compared, none.
            function = serving_default.python_function if tf.executing_eagerly() else serving_default
            return function(**tf.io.parse_example(examples, features))

        specs = [tf.TensorSpec([None, *shape], tf.string, name) for name, shape in shapes.items()]
        has_row_each = self.windows is None and self.rows_per_example == 1
        is_static = has_row_each and model.encoder.takes_row_tables
        serving_default = staged_signature(read, compute, answer, specs, is_static=is_static)
        examples = [tf.TensorSpec([None], tf.string, "examples")]
        tf_example = tf.function(predict_examples, input_signature=examples, autograph=False)
        return {"serving_default": serving_default, "tf_example": tf_example}

    def serving_examples(self, split: str) -> dict[str, dict[str, list]]:
        """The first texts of a split."""
        texts = self.split(split).texts[:MAX_COMPARED]
        values = self.goal.input_values(texts)
        rows = [{name: column[row] for name, column in values.items()} for row in range(len(texts))]
        return {"serving_default": values, "tf_example": {"examples": [serialize_example(row) for row in rows]}}

    def demo_examples(self, split: str, count: int = 3) -> list[Example]:
        """Examples from all over a split."""
        examples = self.split(split).examples
        return examples[:: -(-len(examples) // count)]

    def about(self) -> dict[str, Any]:
        """Labels, kind and thresholds."""
        return super().about() | self.goal.about()

    # Thresholds

    def calibrated(self, predictions: Mapping[str, Mapping[str, np.ndarray]]) -> tuple[Self, list[str]]:
        """With the goal's best thresholds on the first evaluation split."""
        split = next(iter(self.eval_splits.values()), None)
        if split is None:
            return self, []
        labels = self.split(split).labels[: len(predictions[split]["row_numbers"])]
        goal, sentence = self.goal.calibrated(predictions[split], labels)
        if goal is self.goal:
            return self, []
        before = ", ".join(f"{name} {value:.4f}" for name, value in self.scores(predictions[split], split).items())
        return self._with_goal(goal), [f"{sentence}: {before}."]

    @property
    def calibration(self) -> dict[str, float]:
        """The goal's thresholds."""
        return self.goal.calibration

    def with_calibration(self, stored: Mapping[str, float]) -> Self:
        """With stored thresholds of the goal."""
        return self._with_goal(self.goal.with_calibration(stored))

    def _with_goal(self, goal: TextHead) -> Self:
        task = copy.copy(self)
        task.goal = goal
        return task


def settings(options: SentenceOptions) -> dict[str, Any]:
    """The arguments of TextClassification that are flags of run_classifier.py; UserError for impossible windows."""
    windows = None
    if options.long_texts == "windows":
        windows = Windows(
            stride=options.doc_stride or options.max_seq_length // 2,
            most=options.max_windows,
            pooling=options.window_pooling,
        )
        windows.check(options.max_seq_length)
    return {
        "max_seq_length": options.max_seq_length,
        "class_weights": options.class_weights,
        "criterion": options.criterion,
        "truncation": options.truncation,
        "temperature": options.temperature,
        "windows": windows,
        "loss": options.loss,
    }


def _criterion_first(scores: Sequence[Score], criterion: str, goal: TextHead) -> dict[str, Callable]:
    """{name: function} of the scores, the criterion first; UserError where it cannot decide."""
    functions = {score if isinstance(score, str) else score.__name__: score for score in scores}
    own = tuple(name for name, score in functions.items() if not isinstance(score, str))
    if criterion:
        if criterion not in (*goal.criteria, *own) and ":" not in criterion:
            raise UserError(
                f"criterion is {criterion}; expected one of {', '.join((*goal.criteria, *own))} for this task."
            )
        functions = {criterion: functions.get(criterion, criterion)} | functions
    return {name: metrics.score_of(score) if isinstance(score, str) else score for name, score in functions.items()}


def serialize_example(row: Mapping[str, str | list[str]]) -> bytes:
    """A row of inputs as a serialized tf.Example."""
    features = {}
    for name, value in row.items():
        texts = [text.encode() for text in ([value] if isinstance(value, str) else value)]
        features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

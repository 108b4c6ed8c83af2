"""FineTuningTask: a source of examples, a head on a pretrained encoder, and defaults."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import LossSettings
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base import text_windows
from bert_tf.heads.base.head import Head
from bert_tf.heads.base.servable import TextTask
from bert_tf.heads.base.text_head import Score, TextHead, Windows
from bert_tf.runtime.lazy import keras, tf
from bert_tf.tasks.task_options import SentenceOptions
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training.task import Batch, Predictions

Source = Mapping[str, Callable[[], Any]]  # {split: function that reads its examples}, called when first needed


class FineTuningTask(TextTask):
    """A task with labeled examples.

    Args:
        name: the task in `tasks.catalog`.
        source: the input of the head for each split: examples, questions, a file of tags, or
            `data.preprocessed_examples.StoredExamples`; "train" is trained on.
        head: the head to train.
        tokenizer: cuts texts into tokens.
        eval_splits: see `training.task.Task`.
        test_splits: the splits to predict.
        submissions: {split: name of the file for a leaderboard}.
        groups_by_length: whether a training batch consists of rows of similar length.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        head: Head,
        tokenizer: Tokenizer,
        *,
        eval_splits: Mapping[str, str] | None = None,
        test_splits: tuple[str, ...] = ("test",),
        submissions: Mapping[str, str] | None = None,
        groups_by_length: bool = False,
    ) -> None:
        self.name, self.source, self.head, self.tokenizer = name, source, head, tokenizer
        self.eval_splits = {"": "dev"} if eval_splits is None else eval_splits
        self.test_splits, self.submissions = test_splits, submissions or {}
        self.groups_by_length = groups_by_length
        self.objectives, self.comparison = head.objectives, head.comparison
        self.sentence_vectors = head.sentence_vectors
        # MNLI: matched_accuracy
        self.criterion = next((f"{prefix}{head.criterion}" for prefix in self.eval_splits if head.criterion), "")
        self._rows: dict[str, Any] = {}

    def replaced(self, **changes: Any) -> Self:
        """The task with a different head, source or groups_by_length."""
        task = copy.copy(self)
        vars(task).update(changes)
        return task

    def split(self, name: str) -> Any:
        """The Rows of a split, read when first needed."""
        if name not in self._rows:
            if name not in self.source:
                raise UserError(
                    f"{self.name} has no {name} data: pass a trained model as init_checkpoint, and do_train=false."
                )
            is_trained = name == "train"
            self._rows[name] = self.head.training.rows(self.source[name](), self.tokenizer, is_trained=is_trained)
            if is_trained:
                self.head = self.head.fitted_to(self._rows[name])
        return self._rows[name]

    def train_batches(self, batch_size: int, seed: int) -> tf.data.Dataset:
        return self.split("train").batches(batch_size, seed=seed, by_length=self.groups_by_length)

    def eval_batches(self, batch_size: int, split: str = "dev") -> tf.data.Dataset:
        return self.split(split).batches(batch_size)

    def vector_choice(self, config: BertConfig) -> Any:
        return self.head.training.vector_choice(config)

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        return self.head.training.create_model(config, dtype=dtype)

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        return self.head.loss_weights(batch)

    def metrics(self, outputs: Any, batch: Batch) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        return self.head.metrics(outputs, batch)

    def predictions(self, outputs: Any, batch: Batch) -> dict[str, tf.Tensor]:
        return self.head.predictions(outputs, batch) | {"row_numbers": tf.cast(batch["row_numbers"], tf.float32)}

    def scores(self, predictions: Predictions, split: str) -> dict[str, float]:
        return self.head.scores(predictions, self.split(split))

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        return self.head.training.signatures(model, tokenizer)

    @property
    def host_settings(self) -> dict[str, Any] | None:  # type: ignore[override]
        """The settings of the head."""
        return self.head.host_settings

    def write_predictions(self, folder: str, split: str, predictions: Predictions) -> list[str]:
        """Writes the predictions for a split as files, with its name if there are several; returns sentences."""
        name = "predictions" if split == "test" else f"predictions_{split.removeprefix('test_')}"
        submission = self.submissions.get(split, "")
        return self.head.training.write_predictions(folder, name, predictions, self.split(split), submission=submission)

    def about(self) -> dict[str, Any]:
        """Content of about.json without the name: "labels", "kind", and anything else needed to score it."""
        return {"labels": list(self.head.labels), "kind": self.head.kind, **self.head.about()}

    def calibrated(self, predictions: Mapping[str, Predictions]) -> tuple[Self, str]:
        """The task with the best thresholds for {split: predictions}, and a sentence about them; or itself."""
        split = next(iter(self.eval_splits.values()), "")
        if split not in predictions:
            return self, ""
        head, sentence = self.head.calibrated(predictions[split], self.split(split))
        if head is self.head:
            return self, ""
        before = ", ".join(f"{name} {value:.4f}" for name, value in self.scores(predictions[split], split).items())
        return self.replaced(head=head), sentence and f"{sentence}: {before}."


def text_task(
    name: str,
    source: Mapping[str, Callable[[], list[Example]]],
    head: TextHead,
    tokenizer_for: Callable[[Callable[[], Iterable[str]]], Tokenizer],
    options: SentenceOptions,
    *,
    texts: int = 1,
    scores: tuple[Score, ...] = (),
    **defaults: Any,
) -> FineTuningTask:
    """A task on whole texts, with the flags of `options`; see FineTuningTask.

    Args:
        name: the task name.
        source: functions that read the examples of splits.
        head: the head to train.
        tokenizer_for: see `tasks.catalog`.
        options: the flags.
        texts: texts in an example.
        scores: names for `metrics.score_of`, or functions of labels and predicted labels; by default the head's scores.
        defaults: eval_splits, test_splits and submissions.
    """
    tokenizer = tokenizer_for(lambda: (text for example in source["train"]() for text in example.texts))
    windows = None
    if options.long_texts == "windows":
        windows = Windows(
            stride=options.doc_stride or options.max_seq_length // 2,
            most=options.max_windows,
            pooling=options.window_pooling,
        )
        text_windows.check(windows, options.max_seq_length)
    loss: LossSettings = options.loss
    head = head.configured(
        texts=texts,
        scores=scores,
        max_seq_length=options.max_seq_length,
        class_weights=options.class_weights,
        criterion=options.criterion,
        truncation=options.truncation,
        temperature=options.temperature,
        windows=windows,
        loss=loss,
    )
    return FineTuningTask(name, source, head, tokenizer, **defaults)

"""QuestionTask: finding the answer to a question in a text of any length.

B rows of a batch (each a window of a question's context), T positions in a row, Q questions, W windows of a split,
n answers of a question.
"""

import copy
import dataclasses
import functools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.data import pipeline
from bert_tf.data.examples import Example
from bert_tf.data.questions import Prediction, Question
from bert_tf.data.ready_examples import ReadyRows, ReadySplit
from bert_tf.heads.base.answers import Answered
from bert_tf.model import heads
from bert_tf.tasks import text_lengths
from bert_tf.tasks.question_answering import (
    answer_highlights,
    answer_serving,
    original_alignment,
    question_splits,
    spans,
    squad_files,
    squad_scores,
)
from bert_tf.tasks.question_answering.question_splits import QUESTIONS_AT_ONCE, QuestionSplit
from bert_tf.tasks.question_answering.question_windows import QuestionWindows
from bert_tf.tasks.question_answering.spans import CANDIDATES, IMPOSSIBLE, Search
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import confidence
from bert_tf.training.task import Objective

COMPARED = 8  # questions on which an export is compared with the live model
THRESHOLD = "null_score_diff_threshold"

Batch = Mapping[str, tf.Tensor]
Predictions = Mapping[str, np.ndarray]


class QuestionTask(FineTuningTask):
    """Extractive question answering (SQuAD).

    Args:
        name: of the task.
        questions: {split: function that reads its questions}, called when first needed; "train" is trained on.
        tokenizer: cuts texts into tokens.
        windows: how contexts are cut.
        search: which answers are valid.
        is_threshold_fixed: whether the threshold of `search` is the user's, and not to be calibrated.
        fits_temperature: whether the temperature of `search` is to be found on the development set.
        word_alignment: whether written answers are cut out as in google-research/bert, see `original_alignment`.
    """

    kind = "span"
    head = ("span/kernel", 2)
    new_head_rate = 1e-3
    objectives = {"span_loss": Objective()}
    file_flags = ("version_2_with_negative",)
    calibration_file = "null_threshold.json"
    rescores = False  # best_f1 is the score with the best threshold
    test_splits = ("dev",)

    def __init__(
        self,
        name: str,
        questions: Mapping[str, Callable[[], Sequence[Question]]],
        tokenizer: Tokenizer,
        *,
        windows: QuestionWindows,
        search: Search,
        is_threshold_fixed: bool = False,
        word_alignment: bool = False,
        fits_temperature: bool = False,
    ) -> None:
        self.name, self.tokenizer, self.windows, self.search = name, tokenizer, windows, search
        self.criterion = "best_f1" if search.has_null else "f1"
        self.is_threshold_fixed, self.word_alignment = is_threshold_fixed, word_alignment
        self._is_aligned, self.fits_temperature = False, fits_temperature
        self._calibration: dict[str, float] = {}
        self._questions = questions
        self._splits: dict[str, QuestionSplit] = {}
        self._last: tuple[Predictions, list[Prediction]] | None = None
        self._traced_answers = tf.function(self.search.answers, autograph=False, reduce_retracing=True)

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        """A SpanFinder."""
        return heads.SpanFinder(config, dtype=dtype)

    # Data

    def split(self, name: str) -> Any:
        """The QuestionSplit of that name, read once; a ReadySplit where its examples are ready."""
        if name in self.ready_files:
            return self._ready_split
        if name not in self._splits:
            self._splits[name] = QuestionSplit(self._questions[name](), self.tokenizer, self.windows)
        return self._splits[name]

    @functools.cached_property
    def _ready_split(self) -> ReadySplit:
        return ReadySplit(ReadyRows(self.ready_files["train"], self.ready_specs(), self.tokenizer.size))

    def ready_specs(self) -> dict[str, tf.TensorSpec]:
        """The inputs of the model, and the positions of the answer."""
        row, number = (tf.TensorSpec(shape, tf.int32) for shape in ([self.windows.max_seq_length], []))
        names = dict.fromkeys(("token_ids", "segment_ids"), row)
        return names | dict.fromkeys(("lengths", "start_positions", "end_positions"), number)

    def describe(self, split: str) -> list[str]:
        """Sentences on a split."""
        if split in self.ready_files:
            return self.split(split).describe(split)
        return question_splits.describe(split, self.split(split), self.windows)

    def statistics(self, split: str) -> dict[str, Any]:
        """{name: number} on a split."""
        if split in self.ready_files:
            return text_lengths.statistics(self.split(split).rows.lengths, self.windows.max_seq_length)
        return question_splits.statistics(self.split(split), self.windows)

    def train_batches(self, batch_size: int, seed: int) -> tf.data.Dataset:
        """Endless batches of windows whose answers are known."""
        if "train" in self.ready_files:
            return self._ready_batches(batch_size, seed)
        split, windows = self.split("train").trainable(), self.windows
        sizes = question_splits.window_sizes(split, windows)[split.rows] if self.groups_by_length else None
        return question_splits.batches(
            split, batch_size, tokenizer=self.tokenizer, windows=windows, seed=seed, lengths=sizes
        )

    def _ready_batches(self, batch_size: int, seed: int) -> tf.data.Dataset:
        """`train_batches` of ready examples."""
        rows = self.split("train").rows

        def make_batch(numbers: tf.Tensor) -> dict[str, tf.Tensor]:
            weights = tf.ones_like(numbers, tf.float32)
            return {**rows.gather(numbers), "row_weights": weights, "row_numbers": tf.cast(numbers + 1, tf.int32)}

        lengths = rows.lengths if self.groups_by_length else None
        return pipeline.indexed_batches(rows.count, batch_size, make_batch, seed=seed, lengths=lengths)

    def eval_batches(self, batch_size: int, split: str) -> tf.data.Dataset:
        """One pass over all windows."""
        return question_splits.batches(self.split(split), batch_size, tokenizer=self.tokenizer, windows=self.windows)

    # Training and scores

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """1.0 for a window whose answer is known, [B]."""
        return {"span_loss": batch["row_weights"]}

    def metrics(self, outputs: Any, batch: Batch) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """The mean cross entropy of start and end over the positions in use, and how often both are right.

        The original counts padding too; without it the loss does not depend on the length of rows.
        """
        logits = {side: _without_padding(outputs[f"{side}_logits"], batch["lengths"]) for side in ("start", "end")}
        losses = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(batch[f"{side}_positions"], values)
            for side, values in logits.items()
        ]
        is_right = tf.equal(tf.argmax(logits["start"], -1, tf.int32), batch["start_positions"])
        is_right &= tf.equal(tf.argmax(logits["end"], -1, tf.int32), batch["end_positions"])
        return {
            "span_loss": ((losses[0] + losses[1]) / 2, batch["row_weights"]),
            "window_accuracy": (tf.cast(is_right, tf.float32), batch["row_weights"]),
        }

    def predictions(self, outputs: Any, batch: Batch) -> dict[str, tf.Tensor]:
        """The candidates of each window, see `Search.candidates`; float32 is exact for contexts below 16 million."""
        candidates = self.search.candidates(outputs["start_logits"], outputs["end_logits"], batch, self.windows)
        candidates |= {"row_numbers": batch["row_numbers"]}
        return {name: tf.cast(x, tf.float32) for name, x in candidates.items()}

    def scores(self, predictions: Predictions, split: str) -> dict[str, float]:
        """The official scores of the questions whose windows were all predicted; {} without known answers."""
        answers = self.best_answers(predictions, split)
        return squad_files.scores_of(self.split(split).questions, answers, has_null=self.search.has_null)

    def best_answers(self, predictions: Predictions, split: str) -> list[Prediction]:
        """The answers to the first questions of a split, those whose windows were all predicted."""
        if self._last is None or self._last[0] is not predictions:
            self._last = predictions, self._best_answers(predictions, self.split(split))
        return self._last[1]

    def _best_answers(self, predictions: Predictions, split: QuestionSplit) -> list[Prediction]:
        count = len(predictions["row_numbers"])
        complete = int(split.owners[count]) if count < len(split.owners) else len(split.questions)
        firsts = np.searchsorted(split.owners, np.arange(len(split.questions) + 1))
        answers = []
        for first in range(0, complete, QUESTIONS_AT_ONCE):
            last = min(first + QUESTIONS_AT_ONCE, complete)
            windows = slice(firsts[first], firsts[last])
            candidates = {name: tf.constant(predictions[name][windows]) for name in CANDIDATES}
            candidates |= {name: tf.cast(candidates[name], tf.int32) for name in ("starts", "ends")}
            contexts = tf.constant(split.contexts[split.context_numbers[first:last]])
            found = self._traced_answers(candidates, tf.constant(split.owners[windows] - first), contexts)
            arrays = {name: x.numpy() for name, x in found.items()}
            answers += [spans.to_prediction(arrays, row, has_null=self.search.has_null) for row in range(last - first)]
        if self._is_aligned:
            return original_alignment.align_predictions(answers, split.questions, self.tokenizer)
        return answers

    # Reports

    def compare(self, predictions: Predictions, split: str) -> tuple[np.ndarray, np.ndarray]:
        """The first true answer, "" without one, and the predicted answer of each question: string [Q] each."""
        answers = self.best_answers(predictions, split)
        questions = self.split(split).questions[: len(answers)]
        labels = [question.answers[0][0] if question.answers else "" for question in questions]
        return np.array(labels, object), np.array([prediction.answer["text"] for prediction in answers], object)

    def collapse(self, predictions: Predictions, split: str) -> str | None:
        """Why the answers are worthless, in words, or None: they are all the same."""
        texts = {prediction.answer["text"] for prediction in self.best_answers(predictions, split)}
        count = len(self.best_answers(predictions, split))
        return f"all {count} answers are {next(iter(texts))!r}" if count > 1 and len(texts) == 1 else None

    def details(self, predictions: Predictions, split: str) -> dict[str, Any]:
        """{"questions": see `answer_highlights.details`}."""
        answers = self.best_answers(predictions, split)
        confidences = self._confidence(predictions, split)
        return {
            "questions": answer_highlights.details(self.split(split).questions, answers),
            **({"confidence": confidences} if confidences else {}),
        }

    def _confidence(self, predictions: Predictions, split: str) -> dict[str, Any]:
        """`training.confidence.report` of the n best answers to questions whose answer is known, {} without one.

        An answer is right if it matches a true one exactly, as SQuAD scores it.
        """
        rows = zip(self.split(split).questions, self.best_answers(predictions, split), strict=False)
        known = [(question, found.answers) for question, found in rows if question.is_answerable is not None]
        known = [(question, answers) for question, answers in known if answers]
        if not known:
            return {}
        logits = [np.array([each["start_logit"] + each["end_logit"] for each in answers]) for _, answers in known]
        truths = [[text for text, _ in question.answers] or [""] for question, _ in known]
        right = [
            np.flatnonzero([max(squad_scores.exact_match(text, each["text"]) for text in texts) for each in answers])
            for texts, (_, answers) in zip(truths, known, strict=True)
        ]
        return confidence.report(logits, right)

    def summary(self, details: Mapping[str, Any]) -> list[str]:
        """The counts of right answers, and some of these."""
        lines = answer_highlights.summarize(details["questions"])
        return lines + [f"  {confidence.sentence(details['confidence'])}"] * ("confidence" in details)

    # Predictions and exports

    def write_predictions(self, folder: str, split: str, predictions: Predictions) -> list[str]:
        """Writes the files of `squad_files.write`; returns sentences on them, and the scores of known answers."""
        task = self.aligned()
        answers = task.best_answers(predictions, split)
        path = squad_files.write(folder, self.split(split).questions[: len(answers)], answers)
        scores = task.scores(predictions, split)
        return [
            f"{len(answers):,} answers are in {path}.",
            *(f"  {name:26} {value:.4f}" for name, value in scores.items()),
        ]

    def aligned(self) -> Self:
        """The task whose answers are cut out as they are written: as in the original, with `word_alignment`."""
        if not self.word_alignment or self._is_aligned:
            return self
        task = self._with_search(self.search)
        task._is_aligned = True
        return task

    def serving_examples(self, split: str) -> dict[str, dict[str, list]]:
        """Some questions and their contexts, evenly from all over the split."""
        questions = _evenly(self.split(split).questions, COMPARED)
        texts = {"question": [q.question for q in questions], "context": [q.context for q in questions]}
        return {"serving_default": texts}

    def demo_examples(self, split: str, count: int = 3) -> list[Example]:
        """Some questions as (question, context), the label is the first true answer."""
        questions = _evenly(self.split(split).questions, COMPARED)[:count]
        labels = [question.answers[0][0] if question.answers else None for question in questions]
        pairs = zip(questions, labels, strict=True)
        return [Example(q.id, (q.question, q.context), label, q.id) for q, label in pairs]

    def demo_line(self, example: Example, row: Answered) -> str:
        """The question, its answer and the true answer."""
        true_label = f" (it is {example.label!r})" if example.label else ""
        return f"{textwrap.shorten(example.texts[0], 90)}  ->  {getattr(row.answer, 'text', '')!r}{true_label}"

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        """serving_default, see `answer_serving.signature`."""
        return {"serving_default": answer_serving.signature(model, tokenizer, self.windows, self.search)}

    # Thresholds

    def calibrated(self, predictions: Mapping[str, Predictions]) -> tuple[Self, list[str]]:
        """With the threshold for "no answer" that has the best F1 on the development set, and the best temperature."""
        split = next(iter(self.eval_splits.values()))
        if split not in predictions:
            return self, []
        found = self._best_threshold(predictions, split)
        confidences = self._confidence(predictions[split], split) if self.fits_temperature else {}
        if confidences:
            found["temperature"] = confidences["temperature"]
        return (self.with_calibration(found) if found else self), []

    def _best_threshold(self, predictions: Mapping[str, Predictions], split: str) -> dict[str, float]:
        """{THRESHOLD: the one with the best F1}, or {} where there is none to be found."""
        if self.is_threshold_fixed or not self.search.has_null:
            return {}
        scores = self.scores(predictions[split], split)
        if "best_f1_thresh" not in scores:
            return {}
        odds = [answer.null_odds for answer in self.best_answers(predictions[split], split)]
        threshold = squad_scores.best_f1_threshold(scores, [value for value in odds if value is not None])
        return {THRESHOLD: threshold}

    @property
    def calibration(self) -> dict[str, float]:
        """The threshold and the temperature that were found."""
        return self._calibration

    def with_calibration(self, stored: Mapping[str, float]) -> Self:
        """With what an earlier evaluation found and no flag fixes."""
        found: dict[str, float] = {}
        if not self.is_threshold_fixed and stored.get(THRESHOLD) is not None:
            found[THRESHOLD] = stored[THRESHOLD]
        if self.fits_temperature and stored.get("temperature") is not None:
            found["temperature"] = stored["temperature"]
        if not found:
            return self
        search = dataclasses.replace(
            self.search,
            threshold=found.get(THRESHOLD, self.search.threshold),
            temperature=found.get("temperature", self.search.temperature),
        )
        task = self._with_search(search)
        task._calibration = found
        return task

    def _with_search(self, search: Search) -> Self:
        task = copy.copy(self)
        task.search, task._last = search, None
        task._traced_answers = tf.function(search.answers, autograph=False, reduce_retracing=True)
        return task


def _without_padding(logits: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.range(tf.shape(logits)[1])[None, :] < lengths[:, None], logits, IMPOSSIBLE)


def _evenly(questions: Sequence[Question], count: int) -> Sequence[Question]:
    return questions[:: -(-len(questions) // count)]

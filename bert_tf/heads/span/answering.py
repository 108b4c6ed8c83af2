"""Answering: the head that finds the answer to a question in a text of any length.

B rows of a batch (each a window of a question's context), T positions in a row, Q questions, W windows of a split,
n answers of a question.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from bert_tf.data import questions
from bert_tf.data.examples import Example
from bert_tf.data.questions import Prediction, Question
from bert_tf.errors import UserError, count_text
from bert_tf.heads.base import prediction_files
from bert_tf.heads.base.answering import Answered
from bert_tf.heads.base.training import Training, model_heads
from bert_tf.heads.span import (
    SpanHead,
    answer_highlights,
    answer_serving,
    original_alignment,
    spans,
    squad_files,
    squad_scores,
)
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.question_rows import QuestionRows
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.runtime.lazy import keras, tf
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import confidence
from bert_tf.training.task import Batch, Objective, Predictions

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
COMPARED = 8  # questions used to compare an export with the live model
THRESHOLD = "null_score_diff_threshold"


class Answering(SpanHead):
    """Extractive question answering (SQuAD).

    Args:
        windows: how contexts are split.
        search: which answers are valid.
        is_threshold_fixed: whether the user set the threshold of `search`, so that it is not calibrated.
        fits_temperature: whether to find the temperature of `search` on the development set.
        word_alignment: whether written answers are extracted as in google-research/bert, see `original_alignment`.
    """

    size = 2
    objectives = {"span_loss": Objective()}

    def __init__(
        self,
        windows: QuestionWindows,
        search: Search,
        *,
        is_threshold_fixed: bool = False,
        word_alignment: bool = False,
        fits_temperature: bool = False,
    ) -> None:
        self.windows, self.max_seq_length = windows, windows.max_seq_length
        self.criterion = "best_f1" if search.has_null else "f1"
        self.is_threshold_fixed, self.word_alignment = is_threshold_fixed, word_alignment
        self._is_aligned, self.fits_temperature = False, fits_temperature
        self._calibration: dict[str, float] = {}
        self.search = search
        self._last: tuple[Predictions, list[Prediction]] | None = None

    # Training and scores

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """1.0 for a window with a known answer, [B]."""
        return {"span_loss": batch["row_weights"]}

    def metrics(self, outputs: Any, batch: Batch) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """The mean cross entropy of start and end over the positions in use, and how often both are right.

        google-research/bert counts padding too; without it the loss does not depend on the length of rows.
        """
        logits = {
            side: model_heads.without_padding(outputs[f"{side}_logits"], batch["lengths"]) for side in ("start", "end")
        }
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
        """The logits of each window, float32 [B, T]."""
        width = self.max_seq_length
        logits = {name: outputs[name] for name in ("start_logits", "end_logits")}
        padded = {name: tf.pad(x, [[0, 0], [0, width - tf.shape(x)[1]]]) for name, x in logits.items()}
        return {name: tf.ensure_shape(x, [None, width]) for name, x in padded.items()}

    def scores(self, predictions: Predictions, split: QuestionRows) -> dict[str, float]:
        """The official scores of the questions with predictions for all windows; {} without known answers."""
        answers = self.best_answers(predictions, split)
        return squad_files.scores_of(split.questions, answers, has_null=self.search.has_null)

    def best_answers(self, predictions: Predictions, split: QuestionRows) -> list[Prediction]:
        """The answers to the first questions of a split, as far as all their windows have predictions."""
        if self._last is None or self._last[0] is not predictions:
            self._last = predictions, self._best_answers(predictions, split)
        return self._last[1]

    def _best_answers(self, predictions: Predictions, split: QuestionRows) -> list[Prediction]:
        count = len(predictions["row_numbers"])
        complete = int(split.owners[count]) if count < len(split.owners) else len(split.questions)
        firsts, sizes = np.searchsorted(split.owners, np.arange(len(split.questions) + 1)), split.window_sizes()
        answers = []
        for number, asked in enumerate(split.asked(complete)):
            windows = range(firsts[number], firsts[number + 1])
            starts, ends = (
                [predictions[name][row, : sizes[row]] for row in windows] for name in ("start_logits", "end_logits")
            )
            best = self.search.best(starts, ends, asked, self.windows)
            answers.append(best.prediction(has_null=self.search.has_null))
        if self._is_aligned:
            return original_alignment.align_predictions(answers, split.questions, split.tokenizer)
        return answers

    def quick_scores(self, train: QuestionRows, held_out: QuestionRows) -> dict[str, dict[str, float]]:
        guesses = {each.id: most_similar_sentence(each.question, each.context) for each in held_out.questions}
        evaluate = squad_scores.evaluate_with_null if self.search.has_null else squad_scores.evaluate
        scores = evaluate(held_out.questions, guesses)
        if self.search.has_null and scores:
            nothing = evaluate(held_out.questions, dict.fromkeys(guesses, ""))
            scores["best_f1"] = max(scores["f1"], nothing["f1"])  # by answering all or none
        kept = {name: value for name, value in scores.items() if "total" not in name}
        return {"the sentence that shares most words with the question": kept}

    # Reports

    def compare(self, predictions: Predictions, split: QuestionRows) -> tuple[np.ndarray, np.ndarray]:
        """The first true answer ("" without one) and the predicted answer of each question: string [Q] each."""
        answers = self.best_answers(predictions, split)
        questions = split.questions[: len(answers)]
        labels = [question.answers[0][0] if question.answers else "" for question in questions]
        return np.array(labels, object), np.array([prediction.answer["text"] for prediction in answers], object)

    def collapse(self, predictions: Predictions, split: QuestionRows) -> str | None:
        """Why the answers are worthless, in words, or None: they are all the same."""
        texts = {prediction.answer["text"] for prediction in self.best_answers(predictions, split)}
        count = len(self.best_answers(predictions, split))
        return f"all {count} answers are {next(iter(texts))!r}" if count > 1 and len(texts) == 1 else None

    def confidence_of(self, predictions: Predictions, split: QuestionRows) -> dict[str, Any]:
        """`training.confidence.report` of the n best answers to questions with a known answer, {} without one.

        An answer is right if it matches a true one exactly, as in SQuAD's score.
        """
        rows = zip(split.questions, self.best_answers(predictions, split), strict=False)
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
        lines = answer_highlights.summarize(details["questions"])
        return lines + [f"  {confidence.sentence(details['confidence'])}"] * ("confidence" in details)

    def aligned(self) -> Self:
        """The head as it extracts written answers: as in google-research/bert, with `word_alignment`."""
        if not self.word_alignment or self._is_aligned:
            return self
        return self.replaced(_is_aligned=True, _last=None)

    @property
    def host_settings(self) -> dict[str, Any] | None:
        windows, search = dataclasses.asdict(self.windows), dataclasses.asdict(self.search)
        return {"stages": "questions", "windows": windows, "search": search}

    # Thresholds

    def calibrated(self, predictions: Predictions, split: QuestionRows) -> tuple[Self, str]:
        """With the best F1 threshold for "no answer" on the development set, and the best temperature."""
        found = self._best_threshold(predictions, split)
        confidences = self.confidence_of(predictions, split) if self.fits_temperature else {}
        if confidences:
            found["temperature"] = confidences["temperature"]
        return (self.with_calibration(found) if found else self), ""

    def _best_threshold(self, predictions: Predictions, split: QuestionRows) -> dict[str, float]:
        """{THRESHOLD: the one with the best F1}, or {} if no threshold is to be found."""
        if self.is_threshold_fixed or not self.search.has_null:
            return {}
        scores = self.scores(predictions, split)
        if "best_f1_thresh" not in scores:
            return {}
        odds = [answer.null_odds for answer in self.best_answers(predictions, split)]
        threshold = squad_scores.best_f1_threshold(scores, [value for value in odds if value is not None])
        return {THRESHOLD: threshold}

    @property
    def calibration(self) -> dict[str, float]:
        return self._calibration

    def with_calibration(self, stored: Mapping[str, float]) -> Self:
        """With the results of an earlier evaluation, unless fixed by a flag."""
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
        return self.replaced(search=search, _calibration=found, _last=None)


class SpanTraining(Training):
    """Trains and exports an Answering."""

    head: Answering
    perfect = 100.0
    learns_in_steps = True
    new_head_rate = 1e-3
    file_flags = ("version_2_with_negative",)
    rescores = False  # best_f1 is the score with the best threshold

    @classmethod
    def recorded(cls, kind: type[SpanHead], about: Mapping[str, Any], settings: Mapping[str, Any] | None) -> Answering:
        if settings is not None:
            return Answering(QuestionWindows(**settings["windows"]), Search(**settings["search"]))
        has_null = about.get("reads", {}).get("version_2_with_negative", about.get("task") == "squad/v2.0")
        return Answering(QuestionWindows(), Search(has_null=bool(has_null)))

    def rows_of(self, content: Sequence[Question], tokenizer: Tokenizer, *, is_trained: bool) -> QuestionRows:
        return QuestionRows(content, tokenizer, self.head.windows)

    def row_specs(self, tokenizer: Tokenizer) -> dict[str, tf.TensorSpec]:
        row, number = (tf.TensorSpec(shape, tf.int32) for shape in ([self.head.max_seq_length], []))
        names = dict.fromkeys(("token_ids", "segment_ids"), row)
        return names | dict.fromkeys(("lengths", "start_positions", "end_positions"), number)

    def content(self, path: str, reads: Mapping[str, Any]) -> list[Question]:
        known = [question for question in questions.read(path) if question.is_answerable is not None]
        if not known:
            raise UserError(f"The questions of {path} have no answers to compare with: pass a file with answers.")
        return known

    def texts_of(self, item: Question) -> Sequence[str]:
        return item.question, item.context

    def asked(self, item: Question, inputs: Mapping[str, int | None]) -> Iterator[Example]:
        yield Example(item.id, tuple(getattr(item, name) for name in inputs), None, item.id)

    def evaluate(
        self, kept: list[Question], outputs: Iterable[Mapping[str, Any]]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        answers = [spans.from_outputs(each, has_null=self.head.search.has_null) for each in outputs]
        scores = squad_files.scores_of(kept, answers, has_null=self.head.search.has_null)
        return scores, {"questions": answer_highlights.details(kept, answers)}

    def details(self, predictions: Predictions, split: QuestionRows) -> dict[str, Any]:
        """{"questions": see `answer_highlights.details`}."""
        answers = self.head.best_answers(predictions, split)
        confidences = self.head.confidence_of(predictions, split)
        return {
            "questions": answer_highlights.details(split.questions, answers),
            **({"confidence": confidences} if confidences else {}),
        }

    def write_predictions(
        self, folder: str, name: str, predictions: Predictions, split: QuestionRows, *, submission: str = ""
    ) -> list[str]:
        """Writes the files of `squad_files.write`; returns sentences about them, and the scores of known answers."""
        head = self.head.aligned()
        answers = head.best_answers(predictions, split)
        path = squad_files.write(folder, split.questions[: len(answers)], answers)
        written = f"Wrote {count_text(len(answers), 'answer')} to {path}"
        return prediction_files.described(written, head.scores(predictions, split))

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        return {"serving_default": answer_serving.signature(model, tokenizer, self.head.windows, self.head.search)}

    def serving_examples(self, split: QuestionRows) -> dict[str, dict[str, list]]:
        """Some questions and their contexts, spread evenly over the split."""
        questions, contexts = zip(*(example.texts for example in split.shown(COMPARED)), strict=True)
        return {"serving_default": {"question": list(questions), "context": list(contexts)}}

    def demo_examples(self, split: QuestionRows, count: int = 3) -> list[Example]:
        """Some questions as (question, context); the label is the first true answer."""
        return split.shown(COMPARED)[:count]

    def demo_line(self, example: Example, row: Answered) -> str:
        true_label = f" (it is {example.label!r})" if example.label else ""
        return f"{textwrap.shorten(example.texts[0], 90)}  ->  {getattr(row.answer, 'text', '')!r}{true_label}"


TRAINING = SpanTraining


def most_similar_sentence(question: str, context: str) -> str:
    """The context's sentence that shares the most distinct words with the question; the first of equals."""
    asked = set(squad_scores.normalize(question).split())
    sentences = SENTENCE_END.split(context)
    return max(sentences, key=lambda sentence: len(asked & set(squad_scores.normalize(sentence).split())))

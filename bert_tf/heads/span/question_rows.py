"""QuestionRows: questions and their windows as arrays, with statistics to read before hours of training.

Q questions, C contexts, W windows of all questions, B rows of a batch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.data import pipeline
from bert_tf.data.examples import Example
from bert_tf.data.host_windows import window_count
from bert_tf.data.questions import Question, answer_span
from bert_tf.errors import count_text
from bert_tf.heads.base import text_lengths
from bert_tf.heads.base.rows import Rows
from bert_tf.heads.span.answer_search import Asked, room_and_stride
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.runtime.lazy import tf
from bert_tf.text.tokenizer import Tokenizer

QUESTIONS_AT_ONCE = 256  # tokenized together outside of batches


class QuestionRows(Rows):
    """Questions and their windows; every context is stored once.

    Attributes:
        questions: list of Question.
        contexts, context_numbers: the texts, string [C], and the context of each question, int32 [Q].
        question_sizes, context_sizes: tokens of each question and its context, int32 [Q].
        rooms, strides: tokens of a window, and from one window to the next, int32 [Q].
        owners, numbers: window w is number `numbers[w]` of question `owners[w]`, int32 [W].
        is_trainable: whether the answer and its offset are known, bool [Q].
        lost: the questions whose answers are not in their contexts.
        count: windows to train on; is_known: whether there are any.
    """

    def __init__(self, questions: Iterable[Question], tokenizer: Tokenizer, windows: QuestionWindows) -> None:
        self.questions, self.tokenizer, self.windows = list(questions), tokenizer, windows
        self.contexts, self.context_numbers = _unique([q.context for q in self.questions])
        questions = tokenizer.on_host([q.question for q in self.questions])[1]
        self.question_sizes = np.minimum(questions, windows.max_query_length)
        self.context_sizes = tokenizer.on_host(self.contexts.tolist())[1][self.context_numbers]
        room = [room_and_stride(windows, size) for size in self.question_sizes.tolist()]
        self.rooms, self.strides = np.array(room, np.int32).reshape(-1, 2).T
        sizes = zip(self.context_sizes.tolist(), room, strict=True)
        counts = np.array([window_count(size, *each) for size, each in sizes], np.int32)
        self.owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        firsts = np.cumsum(counts) - counts
        self.numbers = (np.arange(len(self.owners)) - firsts[self.owners]).astype(np.int32)
        spans = [next(filter(None, (answer_span(q, a) for a in q.answers)), (0, 0)) for q in self.questions]
        self._spans = np.array(spans, np.int32).reshape(-1, 2)
        is_lost = np.array([bool(q.answers) and span == (0, 0) for q, span in zip(self.questions, spans, strict=True)])
        self.lost = [self.questions[number] for number in np.flatnonzero(is_lost)]
        self.is_trainable = np.array([q.is_answerable is not None for q in self.questions]) & ~is_lost
        self.count = int(self.is_trainable[self.owners].sum())
        self.is_known = self.count > 0

    @functools.cached_property
    def tokens(self) -> dict[str, tf.RaggedTensor]:
        """The tokens of questions and contexts, see `QuestionWindows.tokenize`; 12 bytes per token of a context."""
        return _tokenize([q.question for q in self.questions], self.contexts, self.tokenizer, self.windows)

    @functools.cached_property
    def examples(self) -> list[Example]:  # type: ignore[override]
        """The questions as (question, context); the label is the first true answer."""
        labels = [question.answers[0][0] if question.answers else None for question in self.questions]
        pairs = zip(self.questions, labels, strict=True)
        return [Example(q.id, (q.question, q.context), label, q.id) for q, label in pairs]

    @property
    def items(self) -> list[Question]:
        return self.questions

    def describe(self, name: str) -> list[str]:
        numbers = self._numbers()
        unanswerable = sum(question.is_answerable is False for question in self.questions)
        parts = [f"{count_text(numbers['questions'], 'question')} about {count_text(numbers['contexts'], 'text')}"]
        parts += [f"{unanswerable:,} ({unanswerable / len(self.questions):.1%}) without an answer"] * bool(unanswerable)
        parts.append(f"{count_text(numbers['windows'], 'window')} of {self.windows.max_seq_length} tokens")
        several = numbers["in_several_windows"]
        parts += [f"{several:,} of the questions need more than one"] * bool(several)
        warnings = []
        if self.lost:
            warnings.append(
                f"Warning: the answers to {count_text(len(self.lost), 'question')} are not in their texts, the first "
                f"is {self.lost[0].id!r}: not used for training."
            )
        return [f"{name}: {', '.join(parts)}.", *warnings]

    def statistics(self) -> dict[str, Any]:
        return {**self._numbers(), **text_lengths.statistics(self.window_sizes(), self.windows.max_seq_length)}

    def _numbers(self) -> dict[str, int]:
        return {
            "questions": len(self.questions),
            "contexts": len(self.contexts),
            "windows": len(self.owners),
            "in_several_windows": int((np.bincount(self.owners, minlength=len(self.questions)) > 1).sum()),
            "answers_not_found": len(self.lost),
        }

    def window_sizes(self) -> np.ndarray:
        """Tokens of each window with [CLS] and both [SEP], int [W]."""
        rest = self.context_sizes[self.owners] - self.numbers * self.strides[self.owners]
        return self.windows.max_seq_length - np.maximum(self.rooms[self.owners] - rest, 0)

    def asked(self, count: int) -> Iterator[Asked]:
        """Yields the first questions, in the form that `Search.best` reads."""
        numbers = zip(self.question_sizes.tolist(), self._offsets(), np.bincount(self.owners).tolist(), strict=True)
        for question, (size, offsets, windows) in zip(self.questions[:count], numbers, strict=False):
            yield Asked(size, *offsets, windows, question.context)

    def batches(self, batch_size: int, *, seed: int | None = None, by_length: bool = False) -> tf.data.Dataset:
        """See `Rows`: windows, with a seed only those whose answers are known.

        Inputs of the model, "start_positions", "end_positions" [B] of the answer (0: [CLS]), "row_weights" and
        "row_numbers" [B]; without a seed everything from `QuestionWindows.rows`.
        """
        is_used = self.is_trainable[self.owners] if seed is not None else np.ones(len(self.owners), bool)
        used, windows = np.flatnonzero(is_used), self.windows
        count, rows = len(used), tf.constant(np.append(used, 0))
        owners, numbers = tf.constant(self.owners), tf.constant(self.numbers)
        columns = [tf.constant(x) for x in (self.context_numbers, *self.answer_tokens())]
        weights = tf.constant(self.is_trainable.astype(np.float32))

        def batch_of(indices: tf.Tensor) -> dict[str, tf.Tensor]:
            window = tf.gather(rows, indices)
            owner, number = tf.gather(owners, window), tf.gather(numbers, window)
            context, first, last = (tf.gather(column, owner) for column in columns)
            batch = windows.rows(self.tokenizer, self.tokens, owner, context, number)
            start_positions, end_positions = windows.targets(batch, first, last)
            is_row = indices < count
            if seed is not None:
                batch = {name: batch[name] for name in ("token_ids", "segment_ids", "lengths")}
            return {
                **batch,
                "start_positions": start_positions,
                "end_positions": end_positions,
                "row_weights": tf.gather(weights, owner) * tf.cast(is_row, tf.float32),
                "row_numbers": tf.cast(tf.where(is_row, indices + 1, 0), tf.int32),
            }

        lengths = self.window_sizes()[used] if by_length else None
        return pipeline.indexed_batches(count, batch_size, batch_of, seed=seed, lengths=lengths)

    def answer_tokens(self) -> np.ndarray:
        """The first and the last token of the first answer found in each context, int32 [2, Q]; 0 and -1 without."""
        result = np.tile(np.array([0, -1], np.int32), [len(self._spans), 1])
        for row, (starts, ends), (begin, end) in zip(result, self._offsets(), self._spans, strict=True):
            if end > 0:
                row[:] = np.searchsorted(ends, begin, "right"), np.searchsorted(starts, end) - 1
        return result.T

    def _offsets(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields where the tokens of the context of each question start and end."""
        columns = (self.tokens[name] for name in ("starts", "ends"))
        starts, ends = (np.split(each.values.numpy(), each.row_splits.numpy()[1:-1]) for each in columns)
        return ((starts[number], ends[number]) for number in self.context_numbers)


def _tokenize(
    questions: Sequence[str], contexts: np.ndarray, tokenizer: Tokenizer, windows: QuestionWindows
) -> dict[str, tf.RaggedTensor]:
    """`QuestionWindows.tokenize` of all texts, a few at a time."""
    texts = tf.TensorSpec([None], tf.string)
    tokenize = tf.function(
        lambda q, c: windows.tokenize(tokenizer, q, c), input_signature=(texts, texts), autograph=False
    )
    parts = []
    for first in range(0, max(len(questions), len(contexts), 1), QUESTIONS_AT_ONCE):
        block = (np.array(texts[first : first + QUESTIONS_AT_ONCE], object) for texts in (questions, contexts))
        parts.append(tokenize(*(tf.constant(texts, tf.string) for texts in block)))
    return {name: tf.concat([part[name] for part in parts], 0) for name in parts[0]}


def _unique(values: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values, and for each value its number among them."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array(list(numbers), object), np.array([numbers[value] for value in values], np.int32)

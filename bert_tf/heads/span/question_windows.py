"""Questions and contexts of any length as rows: overlapping windows, and where their tokens are in the context.

B rows, Q questions, C contexts, W windows of all questions, T = max_seq_length, S windows that may contain one token.
A row is [CLS] question [SEP] window [SEP], as in google-research/bert `run_squad.py: convert_examples_to_features`.
"""

from __future__ import annotations

import dataclasses

from bert_tf.data import windows as sliding
from bert_tf.errors import UserError
from bert_tf.runtime.lazy import tf
from bert_tf.text.tokenizer import Tokenizer, pack


@dataclasses.dataclass(frozen=True)
class QuestionWindows:
    """Windows of contexts: as many tokens as fit next to the question, `doc_stride` tokens apart.

    Questions are truncated to `max_query_length` tokens. `separators` must equal the tokenizer's. Raises UserError for
    lengths that leave no room for a context.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    separators: int = 1

    def __post_init__(self) -> None:
        if self.doc_stride < 1 or self.max_query_length < 0:
            raise UserError(
                f"doc_stride is {self.doc_stride} and max_query_length {self.max_query_length}; expected 1 or more."
            )
        if self.max_seq_length < self.max_query_length + 3 + self.separators:
            raise UserError(
                f"max_seq_length {self.max_seq_length} leaves no room for the text next to a question of "
                f"max_query_length {self.max_query_length}; pass max_query_length + {3 + self.separators} or more."
            )

    def tokenize(self, tokenizer: Tokenizer, questions: tf.Tensor, contexts: tf.Tensor) -> dict[str, tf.RaggedTensor]:
        """Texts, string [Q] and [C] -> the tokens for rows.

        Returns ids "questions" [Q, (tokens)] and "contexts" [C, (tokens)], and "starts" and "ends" of the contexts'
        tokens in characters [C, (tokens)]; ragged int32.
        """
        if tokenizer.separators != self.separators:  # spans would be off by one
            raise ValueError(f"separators is {self.separators}; the tokenizer has {tokenizer.separators}.")
        ids, starts, ends = tokenizer.with_offsets(contexts)
        return {
            "questions": tokenizer(questions)[:, : self.max_query_length],
            "contexts": ids,
            "starts": tf.cast(starts, tf.int32),
            "ends": tf.cast(ends, tf.int32),
        }

    def counts(self, question_sizes: tf.Tensor, context_sizes: tf.Tensor) -> tf.Tensor:
        """Number of windows of each question, given the tokens of both, int32 [B]; 1 for an empty context."""
        return sliding.window_counts(context_sizes, self._room(question_sizes), self.stride(question_sizes))

    def stride(self, question_sizes: tf.Tensor) -> tf.Tensor:
        """Tokens from the start of a window to the next, int32 [B]: never more than the size of a window."""
        return tf.minimum(self.doc_stride, self._room(question_sizes))

    def _room(self, question_sizes: tf.Tensor) -> tf.Tensor:
        return self.max_seq_length - 2 - self.separators - question_sizes

    @property
    def _before(self) -> int:
        """Special tokens before the window of a row."""
        return 1 + self.separators

    def rows(
        self,
        tokenizer: Tokenizer,
        tokens: dict[str, tf.RaggedTensor],
        questions: tf.Tensor,
        contexts: tf.Tensor,
        numbers: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """One window of each of B questions.

        Args:
            tokenizer: provides the special tokens.
            tokens: tokens of all questions and contexts, see `tokenize`.
            questions: the question of each row, int32 [B].
            contexts: the context of each row, int32 [B].
            numbers: the number of the question's window, from 0, int32 [B].

        Returns:
            int32 "token_ids", "segment_ids" [B, T] and "lengths" [B]; "starts" and "ends" int32 [B, T], characters of
            the context, -1 for other tokens; and int32 [B] as `is_max_context` and `targets` need: "numbers",
            "question_sizes", "context_sizes".
        """
        question_sizes, context_sizes = (
            tf.gather(tf.cast(tokens[name].row_lengths(), tf.int32), texts)
            for name, texts in (("questions", questions), ("contexts", contexts))
        )
        first = numbers * self.stride(question_sizes)  # [B], the window's first token in its context
        size = tf.clip_by_value(context_sizes - first, 0, self._room(question_sizes))
        question_begin = tf.gather(tf.cast(tokens["questions"].row_starts(), tf.int32), questions)
        begin = tf.gather(tf.cast(tokens["contexts"].row_starts(), tf.int32), contexts) + first
        segments = [
            sliding.gather_ranges(tokens["questions"].values, question_begin, question_sizes),
            sliding.gather_ranges(tokens["contexts"].values, begin, size),
        ]
        rows = pack(tokenizer, segments, self.max_seq_length)
        position = (
            tf.range(self.max_seq_length)[None, :] - (question_sizes + self._before)[:, None]
        )  # [B, T], in the window
        inside = (position >= 0) & (position < size[:, None])
        source = tf.where(inside, begin[:, None] + position, 0)
        for name in ("starts", "ends"):
            values = tokens[name].values
            values = tf.cond(tf.size(values) > 0, lambda values=values: values, lambda: tf.constant([-1]))
            rows[name] = tf.where(inside, tf.gather(values, source), -1)
        return {**rows, "question_sizes": question_sizes, "context_sizes": context_sizes, "numbers": numbers}

    def is_max_context(self, rows: dict[str, tf.Tensor], positions: tf.Tensor) -> tf.Tensor:
        """Returns whether this window shows a token with more context than any other (`data.windows.max_context`).

        positions: positions in the rows, int32 [B, n]. False for anything but tokens of the context.
        """
        stride, room = (x(rows["question_sizes"])[:, None] for x in (self.stride, self._room))  # [B, 1]
        reach = -(-(self.max_seq_length - 3) // self.doc_stride)  # windows before and after that may contain the token
        numbers = rows["numbers"][:, None] + tf.range(-reach, reach + 1)[None, :]  # [B, S]
        starts = numbers * stride
        count = self.counts(rows["question_sizes"], rows["context_sizes"])[:, None]
        sizes = tf.clip_by_value(rows["context_sizes"][:, None] - starts, 0, room)
        sizes = tf.where((numbers >= 0) & (numbers < count), sizes, 0)  # [B, S]
        position = positions - rows["question_sizes"][:, None] - self._before  # [B, n], in this window
        in_context = position + rows["numbers"][:, None] * stride
        best = sliding.max_context(in_context, starts[:, None, :], sizes[:, None, :])
        return tf.equal(best, reach) & (position >= 0) & (position < sizes[:, reach : reach + 1])

    def all_rows(self, tokenizer: Tokenizer, questions: tf.Tensor, contexts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Every window of every question: the output of `rows`, [W, ...], and "owners" int32 [W], the question."""
        tokens = self.tokenize(tokenizer, questions, contexts)
        counts = self.counts(*(tf.cast(tokens[name].row_lengths(), tf.int32) for name in ("questions", "contexts")))
        owners, numbers = sliding.enumerate_windows(counts)
        return {**self.rows(tokenizer, tokens, owners, owners, numbers), "owners": owners}

    def targets(self, rows: dict[str, tf.Tensor], first: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Positions of an answer's first and last token in the rows, int32 [B] each; 0 ([CLS]) without an answer.

        first, last: the answer's tokens in the whole context, int32 [B]; first > last for no answer. A window with only
        a part of the answer counts as one without (google-research/bert `run_squad.py`).
        """
        window = rows["numbers"] * self.stride(rows["question_sizes"])
        size = rows["lengths"] - rows["question_sizes"] - self._before - 1
        is_inside = (first <= last) & (first >= window) & (last < window + size)
        offset = rows["question_sizes"] + self._before - window
        return tf.where(is_inside, first + offset, 0), tf.where(is_inside, last + offset, 0)

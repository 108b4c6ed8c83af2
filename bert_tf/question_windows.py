"""Questions and contexts of any length as rows: overlapping windows, and where their pieces stand in the context.

B questions, W windows of them all, T = max_seq_length slots, S windows that may hold one piece. A row is
[CLS] question [SEP] window [SEP], as google-research/bert `run_squad.py: convert_examples_to_features` makes it.
"""

import dataclasses

import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.text import pack


@dataclasses.dataclass(frozen=True)
class QuestionWindows:
    """How contexts are cut: windows of as many pieces as fit beside the question, each begins `doc_stride` later.

    A question has at most `max_query_length` pieces; what is above is cut off. UserError where that leaves no room.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self):
        if self.doc_stride < 1 or self.max_query_length < 0:
            raise UserError(
                f"doc_stride is {self.doc_stride} and max_query_length {self.max_query_length}; expected 1 or more."
            )
        if self.max_seq_length < self.max_query_length + 4:
            raise UserError(
                f"max_seq_length {self.max_seq_length} leaves no room for the text beside a question of "
                f"max_query_length {self.max_query_length}; give max_query_length + 4 or more."
            )

    def pieces(self, tokenizer, questions, contexts):
        """string [B] each -> what the rows are made of: question ids, context ids, `starts` and `ends`, all ragged.

        Starts and ends are characters of the context.
        """
        ids, starts, ends = tokenizer.with_offsets(contexts)
        return {
            "question": tokenizer(questions)[:, : self.max_query_length],
            "context": ids,
            "starts": tf.cast(starts, tf.int32),
            "ends": tf.cast(ends, tf.int32),
        }

    def counts(self, pieces):
        """How many windows each question has, int32 [B]; one where the context has no piece at all."""
        beyond = _sizes(pieces["context"]) - self._room(pieces)
        return 1 + tf.maximum(-(-beyond // self.stride(pieces)), 0)

    def stride(self, pieces):
        """Pieces from the start of a window to that of the next, int32 [B]: no piece is passed over."""
        return tf.minimum(self.doc_stride, self._room(pieces))

    def _room(self, pieces):
        return self.max_seq_length - 3 - _sizes(pieces["question"])

    def rows(self, tokenizer, pieces, numbers):
        """One window of each question: `numbers` int32 [B] says which, from 0.

        Returns int32 "token_ids", "segment_ids" [B, T] and "lengths" [B]; "starts" and "ends" int32 [B, T], the place
        of each piece in the context, -1 in slots that hold no piece of it; and "is_best" bool [B, T]: of all windows
        that hold this piece, this one shows the most around it.
        """
        first = numbers * self.stride(pieces)  # [B], of the window, in pieces of the context
        size = tf.clip_by_value(_sizes(pieces["context"]) - first, 0, self._room(pieces))
        window = _cut(pieces["context"], first, size)
        rows = pack(tokenizer, [pieces["question"], window], self.max_seq_length)
        place = tf.range(self.max_seq_length)[None, :] - (_sizes(pieces["question"]) + 2)[:, None]  # [B, T]
        inside = (place >= 0) & (place < size[:, None])
        source = tf.where(
            inside, tf.cast(pieces["context"].row_starts(), tf.int32)[:, None] + first[:, None] + place, 0
        )
        for name in ("starts", "ends"):
            values = tf.concat([pieces[name].values, [-1]], 0)  # never empty
            rows[name] = tf.where(inside, tf.gather(values, source), -1)
        rows["is_best"] = inside & self._is_best(pieces, numbers, first[:, None] + place)
        return rows

    def _is_best(self, pieces, numbers, places):
        """Whether a window gives the piece at a place [B, T] the most context; of equal ones the first does."""
        reach = -(-(self.max_seq_length - 3) // self.doc_stride)  # windows before and after that may hold the piece
        near = tf.range(-reach, reach + 1)[None, :]  # [1, S]
        windows = numbers[:, None] + near  # [B, S]
        first = windows * self.stride(pieces)[:, None]
        size = tf.clip_by_value(_sizes(pieces["context"])[:, None] - first, 0, self._room(pieces)[:, None])
        left = places[:, :, None] - first[:, None, :]  # [B, T, S]
        right = (first + size)[:, None, :] - 1 - places[:, :, None]
        exists = (windows >= 0) & (windows < self.counts(pieces)[:, None])
        holds = exists[:, None, :] & (left >= 0) & (right >= 0)
        # float64, as the original's Python: so that what is equal there is equal here
        score = tf.cast(tf.minimum(left, right), tf.float64) + 0.01 * tf.cast(size, tf.float64)[:, None, :]
        return tf.equal(tf.argmax(tf.where(holds, score, -1.0), -1, tf.int32), reach)

    def all_rows(self, tokenizer, questions, contexts):
        """Every window of every question: what `rows` returns, [W, ...], and "owners" int32 [W]: whose window it is."""
        pieces = self.pieces(tokenizer, questions, contexts)
        counts = self.counts(pieces)
        owners = tf.repeat(tf.range(tf.size(counts)), counts)  # [W]
        numbers = tf.range(tf.size(owners)) - tf.gather(tf.cumsum(counts, exclusive=True), owners)
        repeated = {name: tf.gather(x, owners) for name, x in pieces.items()}
        return {**self.rows(tokenizer, repeated, numbers), "owners": owners}

    def targets(self, pieces, rows, numbers, answer_starts, answer_ends):
        """The slots of the first and last piece of an answer, int32 [B] each; 0 ([CLS]) where the window lacks it.

        answer_starts, answer_ends: characters of the context, int32 [B]; an end of 0 says that there is no answer. The
        pieces are those that share a character with the answer. A window that holds only a part of it counts as one
        without (google-research/bert `run_squad.py`).
        """
        before = tf.cast(pieces["ends"] <= tf.expand_dims(answer_starts, 1), tf.int32)
        begun = tf.cast(pieces["starts"] < tf.expand_dims(answer_ends, 1), tf.int32)
        first, last = tf.reduce_sum(before, 1), tf.reduce_sum(begun, 1) - 1  # [B], pieces of the whole context
        window = numbers * self.stride(pieces)
        size = rows["lengths"] - _sizes(pieces["question"]) - 3
        here = (answer_ends > 0) & (first <= last) & (first >= window) & (last < window + size)
        offset = _sizes(pieces["question"]) + 2 - window
        return tf.where(here, first + offset, 0), tf.where(here, last + offset, 0)


def _sizes(ragged):
    return tf.cast(ragged.row_lengths(), tf.int32)


def _cut(ragged, first, size):
    """`size` [B] values of each row of a ragged tensor from `first` [B] on."""
    starts = tf.cast(ragged.row_starts(), tf.int32) + first
    wanted = tf.RaggedTensor.from_row_lengths(tf.range(tf.reduce_sum(size)), size)
    inside = wanted.values - tf.repeat(tf.cast(wanted.row_starts(), tf.int32), size)
    return wanted.with_values(tf.gather(ragged.values, tf.repeat(starts, size) + inside))

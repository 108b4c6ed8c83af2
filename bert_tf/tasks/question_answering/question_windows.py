"""Questions and contexts of any length as rows: overlapping windows, and where their pieces stand in the context.

B rows, Q questions, C contexts, W windows of them all, T = max_seq_length slots, S windows that may hold one piece. A
row is [CLS] question [SEP] window [SEP], as google-research/bert `run_squad.py: convert_examples_to_features` makes it.
"""

import dataclasses

import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.text.tokenizer import pack


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
        """Texts -> what rows are made of: string [Q] -> "questions", string [C] -> "contexts", ids, ragged int32; and
        "starts" and "ends", the places of the contexts' pieces in characters, ragged int32 too.
        """
        ids, starts, ends = tokenizer.with_offsets(contexts)
        return {
            "questions": tokenizer(questions)[:, : self.max_query_length],
            "contexts": ids,
            "starts": tf.cast(starts, tf.int32),
            "ends": tf.cast(ends, tf.int32),
        }

    def counts(self, question_sizes, context_sizes):
        """How many windows each question has, int32 [B], by the pieces of both; one where the context has none."""
        beyond = context_sizes - self._room(question_sizes)
        return 1 + tf.maximum(-(-beyond // self.stride(question_sizes)), 0)

    def stride(self, question_sizes):
        """Pieces from the start of a window to that of the next, int32 [B]: no piece is passed over."""
        return tf.minimum(self.doc_stride, self._room(question_sizes))

    def _room(self, question_sizes):
        return self.max_seq_length - 3 - question_sizes

    def rows(self, tokenizer, pieces, questions, contexts, numbers):
        """One window of each question of some: int32 [B] each, `questions` and `contexts` say which of the pieces'
        and `numbers` which of its windows, from 0.

        Returns int32 "token_ids", "segment_ids" [B, T] and "lengths" [B]; "starts" and "ends" int32 [B, T], the place
        of each piece in the context, -1 in slots that hold no piece of it; and int32 [B] what `is_best` and `targets`
        ask for: "numbers", "question_sizes", "context_sizes".
        """
        question_sizes, context_sizes = (
            tf.gather(tf.cast(pieces[name].row_lengths(), tf.int32), places)
            for name, places in (("questions", questions), ("contexts", contexts))
        )
        first = numbers * self.stride(question_sizes)  # [B], of the window, in pieces of the context
        size = tf.clip_by_value(context_sizes - first, 0, self._room(question_sizes))
        begin = tf.gather(tf.cast(pieces["contexts"].row_starts(), tf.int32), contexts) + first
        asked = tf.gather(tf.cast(pieces["questions"].row_starts(), tf.int32), questions)
        segments = [_cut(pieces["questions"], asked, question_sizes), _cut(pieces["contexts"], begin, size)]
        rows = pack(tokenizer, segments, self.max_seq_length)
        place = tf.range(self.max_seq_length)[None, :] - (question_sizes + 2)[:, None]  # [B, T], in the window
        inside = (place >= 0) & (place < size[:, None])
        source = tf.where(inside, begin[:, None] + place, 0)
        for name in ("starts", "ends"):
            values = pieces[name].values
            values = tf.cond(tf.size(values) > 0, lambda values=values: values, lambda: tf.constant([-1]))
            rows[name] = tf.where(inside, tf.gather(values, source), -1)
        sizes = {"question_sizes": question_sizes, "context_sizes": context_sizes}
        return {**rows, **sizes, "numbers": numbers}

    def is_best(self, rows, slots):
        """Whether the piece in each of some slots, int32 [B, n], has more context in this window than in any other.

        As the original counts it; of equal windows the first does. False in slots that hold no piece of the context.
        """
        stride, room = (size(rows["question_sizes"])[:, None] for size in (self.stride, self._room))  # [B, 1]
        reach = -(-(self.max_seq_length - 3) // self.doc_stride)  # windows before and after that may hold the piece
        windows = rows["numbers"][:, None] + tf.range(-reach, reach + 1)[None, :]  # [B, S]
        first = windows * stride
        size = tf.clip_by_value(rows["context_sizes"][:, None] - first, 0, room)  # [B, S]
        place = slots - rows["question_sizes"][:, None] - 2  # [B, n], in this window
        left = (place + rows["numbers"][:, None] * stride)[:, :, None] - first[:, None, :]  # [B, n, S]
        right = (size[:, None, :] - 1) - left
        exists = (windows >= 0) & (windows < self.counts(rows["question_sizes"], rows["context_sizes"])[:, None])
        holds = exists[:, None, :] & (left >= 0) & (right >= 0)
        # float64, as the original's Python: so that what is equal there is equal here
        score = tf.cast(tf.minimum(left, right), tf.float64) + 0.01 * tf.cast(size, tf.float64)[:, None, :]
        most = tf.argmax(tf.where(holds, score, -1.0), -1, tf.int32)  # [B, n]
        return tf.equal(most, reach) & (place >= 0) & (place < size[:, reach : reach + 1])

    def all_rows(self, tokenizer, questions, contexts):
        """Every window of every question: what `rows` returns, [W, ...], and "owners" int32 [W]: whose window it is."""
        pieces = self.pieces(tokenizer, questions, contexts)
        counts = self.counts(*(tf.cast(pieces[name].row_lengths(), tf.int32) for name in ("questions", "contexts")))
        owners = tf.repeat(tf.range(tf.size(counts)), counts)  # [W]
        numbers = tf.range(tf.size(owners)) - tf.gather(tf.cumsum(counts, exclusive=True), owners)
        return {**self.rows(tokenizer, pieces, owners, owners, numbers), "owners": owners}

    def targets(self, rows, first, last):
        """The slots of the first and last piece of an answer, int32 [B] each; 0 ([CLS]) where the window lacks it.

        first, last: the answer's pieces of the whole context, int32 [B]; the first is above the last where there is
        none. A window that holds only a part of it counts as one without (google-research/bert `run_squad.py`).
        """
        window = rows["numbers"] * self.stride(rows["question_sizes"])
        size = rows["lengths"] - rows["question_sizes"] - 3
        here = (first <= last) & (first >= window) & (last < window + size)
        offset = rows["question_sizes"] + 2 - window
        return tf.where(here, first + offset, 0), tf.where(here, last + offset, 0)


def _cut(ragged, starts, sizes):
    """Ragged [B, (sizes)] of the values from `starts` on, both int32 [B]."""
    wanted = tf.RaggedTensor.from_row_lengths(tf.range(tf.reduce_sum(sizes)), sizes)
    moved = starts - tf.cast(wanted.row_starts(), tf.int32)
    return wanted.with_values(tf.gather(ragged.values, wanted.values + tf.repeat(moved, sizes)))

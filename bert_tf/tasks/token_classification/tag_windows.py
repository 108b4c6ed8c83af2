"""Words as rows of pieces: long sentences in windows that overlap, short ones with the document around, if wanted.

N words, P pieces of them all, S sentences, R rows (windows of sentences), T = max_seq_length slots. A row is
[CLS] window [SEP]; a word is known by its first piece (Devlin et al. 2018, section 5.3).
"""

import dataclasses

import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.text.tokenizer import pack


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagWindows:
    """How sentences lie in rows.

    stride: pieces from the start of a window to that of the next, of sentences that do not fit into one.
    document_context: a row is filled up with what stands around the sentence in its document, as much on both sides.
    """

    max_seq_length: int
    stride: int
    document_context: bool = False

    def __post_init__(self):
        if not 1 <= self.stride <= self.room:
            raise UserError(
                f"doc_stride is {self.stride}; expected 1 to {self.room}, as a window of max_seq_length "
                f"{self.max_seq_length} holds so many pieces and those behind it must not leave a gap."
            )

    @property
    def room(self):
        """Pieces in a row."""
        return self.max_seq_length - 2

    def plan(self, starts, ends, lows, highs):
        """Which pieces each row holds: "firsts", "sizes" and "owners" (sentence) int32 [R], and "counts" int32 [S].

        starts, ends: the pieces of each sentence, int32 [S]; lows, highs: those that may be seen beside them, of the
        document or again of the sentence. A sentence without a piece has no row.
        """
        size = ends - starts  # [S]
        counts = 1 + tf.maximum(-tf.math.floordiv(self.room - size, self.stride), 0)
        counts = tf.where(size > 0, counts, 0)
        owners = tf.repeat(tf.range(tf.size(counts)), counts)  # [R]
        numbers = tf.range(tf.size(owners)) - tf.gather(tf.cumsum(counts, exclusive=True), owners)
        size, low, high, start, end = (tf.gather(x, owners) for x in (size, lows, highs, starts, ends))
        seen = tf.where(size <= self.room, tf.minimum(high - low, self.room), self.room)
        around = tf.clip_by_value(start - (seen - size) // 2, low, high - seen)
        within = tf.minimum(start + numbers * self.stride, end - self.room)
        return {
            "firsts": tf.where(size <= self.room, around, within),
            "sizes": seen,
            "owners": owners,
            "counts": counts,
        }

    def best_rows(self, plan, starts, sentences, pieces):
        """The row that shows the most around a piece, int32 [N]; of equal ones the first.

        pieces: their places among all pieces; sentences: which they belong to, int32 [N]. starts as `plan` takes them.
        """
        counts = tf.gather(plan["counts"], sentences)  # [N]
        base = tf.gather(tf.cumsum(plan["counts"], exclusive=True), sentences)
        # Most around it has the window whose middle is nearest; in halves of a piece, from the middle of the first.
        place = 2 * (pieces - tf.gather(starts, sentences)) - (self.room - 1)
        near = -tf.math.floordiv(self.stride - place, 2 * self.stride)
        near = tf.clip_by_value(near, 0, tf.maximum(counts - 2, 0))
        last = base + counts - 1  # ends with the sentence, so that its middle is not where it would be
        nearer = self._distance(plan, last, pieces) < self._distance(plan, base + near, pieces)
        return tf.where(nearer, last, base + near)

    def _distance(self, plan, rows, pieces):
        """From the middle of a window to a piece, twice."""
        firsts, sizes = (tf.gather(plan[name], rows) for name in ("firsts", "sizes"))
        return tf.abs(2 * (pieces - firsts) - (sizes - 1))

    def rows(self, tokenizer, ids, firsts, sizes):
        """The rows with these pieces of `ids` int32 [P], as `text.pack` makes them: [R, T], "lengths" [R]."""
        places = tf.RaggedTensor.from_row_lengths(tf.range(tf.reduce_sum(sizes)), sizes)  # [R, (pieces)]
        begins = tf.cast(places.row_starts(), tf.int32)
        source = places.values + tf.repeat(firsts - begins, sizes)
        return pack(tokenizer, [places.with_values(tf.gather(ids, source))], self.max_seq_length)


def pieces_of_words(tokenizer, words):
    """String [N] -> ids int32 [P] of each word by itself, and how many pieces it has, int32 [N]."""
    ids = tokenizer(words)
    return ids.values, tf.cast(ids.row_lengths(), tf.int32)

"""Texts longer than a row: in windows that overlap, or cut; and how many texts of a split are so long.

B texts (or pairs), W = most windows of a text, T = max_seq_length slots, n examples, F texts of an example (1 or 2).
"""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.text.tokenizer import kept_lengths, pack

AT_ONCE = 4096  # texts that are cut into pieces at a time, only to count them


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windows:
    """How a text that does not fit into a row is read: `stride` pieces from the start of a window to the next.

    most: windows of a text; what lies behind the last of them is not read. pooling: "mean" or "max" of their vectors.
    """

    stride: int
    most: int
    pooling: str = "mean"

    def check(self, max_seq_length):
        """Raises UserError where windows would leave gaps between them, or where there are none."""
        if not 1 <= self.stride <= max_seq_length - 2:
            raise UserError(
                f"doc_stride is {self.stride}; expected 1 to {max_seq_length - 2}, as a window of max_seq_length "
                f"{max_seq_length} holds so many pieces and those behind it must not leave a gap."
            )
        if self.most < 1:
            raise UserError(f"max_windows is {self.most}; expected 1 or more.")


def pack_windows(tokenizer, segments, max_seq_length, windows):
    """Texts or pairs -> rows [CLS] a [SEP] b [SEP], as many for each as it has windows.

    segments: as `text.tokenizer.pack` takes them. The first window is the row that `pack` gives. Of a pair the longer
    segment (the second, if both are equally long) is read in windows; the other stands in every row, cut as `pack`
    cuts it where both are long. The last window ends with the text and is as long as the others.

    Returns "token_ids" and "segment_ids" int32 [B, W, T], "lengths" int32 [B, W], 0 where a text has no such window,
    and "window_counts" int32 [B].
    """
    most = windows.most
    ids = [tokenizer(segment) for segment in segments]
    lengths = [tf.cast(segment.row_lengths(), tf.int32) for segment in ids]
    sizes, steps, counts = _plan(lengths, max_seq_length, windows)
    rows = tf.repeat(tf.range(tf.shape(counts)[0]), most)  # [B * W], the text of a row
    numbers = tf.range(tf.shape(rows)[0]) % most  # [B * W], the window of a row
    parts = []
    for segment, length, size, step in zip(ids, lengths, sizes, steps, strict=True):
        first = tf.minimum(numbers * tf.gather(step, rows), tf.gather(length - size, rows))  # [B * W]
        first += tf.gather(tf.cast(segment.row_starts(), tf.int32), rows)
        places = tf.ragged.range(first, first + tf.gather(size, rows))
        parts.append(places.with_values(tf.gather(segment.values, places.values)))
    packed = pack(tokenizer, parts, max_seq_length)
    packed["lengths"] = tf.where(numbers < tf.gather(counts, rows), packed["lengths"], 0)
    packed = {name: tf.reshape(x, [-1, most, *x.shape[1:]]) for name, x in packed.items()}
    return {**packed, "window_counts": counts}


def _plan(lengths, max_seq_length, windows):
    """Pieces of each segment in a row, its steps from row to row (0: it stands still), and how many rows: int32 [B]."""
    sizes = kept_lengths(lengths, max_seq_length - 1 - len(lengths))
    moves = [tf.ones_like(lengths[0], tf.bool)]
    if len(lengths) == 2:
        moves = [lengths[0] > lengths[1], lengths[0] <= lengths[1]]
    steps = [tf.where(here, tf.minimum(windows.stride, size), 0) for here, size in zip(moves, sizes, strict=True)]
    size, step, length = (_of_moving(moves, each) for each in (sizes, steps, lengths))
    more = -tf.math.floordiv(size - length, tf.maximum(step, 1))  # rounded up
    return sizes, steps, tf.minimum(1 + more, windows.most)


def _of_moving(moves, values):
    """What is said of the segment that is read in windows: values int32 [B] of each segment -> int32 [B]."""
    return tf.add_n([tf.where(here, value, 0) for here, value in zip(moves, values, strict=True)])


def piece_counts(tokenizer, texts):
    """String [n, F] -> how many pieces each text has, int32 [n, F]."""
    flat, found = texts.reshape(-1), []
    for start in range(0, len(flat), AT_ONCE):
        found.append(tokenizer(flat[start : start + AT_ONCE].tolist()).row_lengths().numpy())
    return np.concatenate(found).astype(np.int32).reshape(texts.shape)


def describe(counts, max_seq_length, windows=None):
    """One sentence on the texts of a split that are longer than a row. counts: those of `piece_counts` [n, F]."""
    whole = counts.sum(-1) + 1 + counts.shape[1]  # with [CLS] and each [SEP]
    is_long = whole > max_seq_length
    if not is_long.any():
        return f"all fit into {max_seq_length} pieces"
    long = f"{_share(is_long)} longer than {max_seq_length} pieces (the longest: {whole.max():,})"
    if windows is None:
        return f"{long}, cut"
    unlimited = dataclasses.replace(windows, most=int(whole.max()))
    needed = _plan(list(tf.unstack(tf.constant(counts), axis=1)), max_seq_length, unlimited)[2].numpy()
    fewest, most = needed[is_long].min(), min(needed.max(), windows.most)
    said = f"{long}, read in {fewest} to {most} windows" if fewest < most else f"{long}, read in {most} windows"
    beyond = needed > windows.most
    return f"{said}; {_share(beyond)} longer than max_windows {windows.most}, cut there" if beyond.any() else said


def _share(chosen):
    return f"{chosen.sum():,} ({chosen.mean():.1%})"

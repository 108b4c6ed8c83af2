"""Sliding windows over texts longer than a sequence: their number, starts, and the best one for a token.

B texts, W windows of all texts, N tokens, S candidate windows of a token. Lengths, sizes, strides and positions count
tokens; positions are relative to the start of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bert_tf.errors import UserError
from bert_tf.runtime.lazy import tf
from bert_tf.text.tokenizer import truncated_lengths
from bert_tf.text.tokenizer_settings import TokenizerSettings


def check_stride(stride: int, max_seq_length: int) -> None:
    """Raises UserError unless windows of [CLS] tokens [SEP] that start `stride` tokens apart cover a text."""
    if not 1 <= stride <= max_seq_length - 2:
        raise UserError(
            f"doc_stride is {stride}; expected 1 to {max_seq_length - 2}, the number of tokens in a window of "
            f"max_seq_length {max_seq_length}, so that windows leave no gap."
        )


def window_counts(lengths: tf.Tensor, sizes: tf.Tensor, strides: tf.Tensor) -> tf.Tensor:
    """Number of windows of at most `sizes` tokens, `strides` > 0 apart, that cover each text; 1 for an empty text."""
    return 1 + tf.maximum(-((sizes - lengths) // strides), 0)  # rounded up


def enumerate_windows(counts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Window counts int32 [B] -> the text of each window and its number within that text, from 0: int32 [W] each."""
    owners = tf.repeat(tf.range(tf.size(counts)), counts)
    return owners, tf.range(tf.size(owners)) - tf.gather(tf.cumsum(counts, exclusive=True), owners)


def gather_ranges(values: tf.Tensor, starts: tf.Tensor, sizes: tf.Tensor) -> tf.RaggedTensor:
    """values[start : start + size] of each row: values [P], starts and sizes int32 [W] -> ragged [W, (sizes)]."""
    indices = tf.ragged.range(starts, starts + sizes)
    return indices.with_values(tf.gather(values, indices.values))


class SegmentWindows(NamedTuple):
    """Windows over one segment of B texts or pairs; int32 [B] each.

    lengths: tokens to read. sizes: tokens in a window. strides: tokens from one window to the next, 0 if all windows
    contain the same tokens. counts: number of windows.
    """

    lengths: tf.Tensor
    sizes: tf.Tensor
    strides: tf.Tensor
    counts: tf.Tensor

    def starts(self, texts: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        """Start of window `numbers` of texts `texts`, int32 of the same shape; the last window ends with its text."""
        lengths, sizes, strides = (tf.gather(x, texts) for x in self[:3])
        return tf.minimum(numbers * strides, lengths - sizes)


def segment_windows(
    lengths: Sequence[tf.Tensor], room: int | tf.Tensor, stride: int, settings: TokenizerSettings
) -> list[SegmentWindows]:
    """Windows over texts (one segment) or pairs (two segments).

    The longer segment of a pair is read in windows, the second one if both are equally long. Every window contains the
    other segment, truncated like pairs in `text.tokenizer.pack`.

    Args:
        lengths: tokens of each segment, int32 [B].
        room: tokens in a sequence without [CLS] and [SEP], int or int32 [B].
        stride: tokens from the start of a window to the next, at most the window size; 0: one truncated window.
        settings: settings of the tokenizer.
    """
    sizes = truncated_lengths(list(lengths), room, settings)
    moves = [tf.ones_like(lengths[0], tf.bool)]
    if len(lengths) == 2:
        moves = [lengths[0] > lengths[1], lengths[0] <= lengths[1]]
    segments = []
    for length, size, is_moving in zip(lengths, sizes, moves, strict=True):
        read = tf.where(is_moving, length, size) if stride else size
        step = tf.where(is_moving, tf.minimum(stride, size), 0)
        segments.append(SegmentWindows(read, size, step, window_counts(read, size, tf.maximum(step, 1))))
    return segments


def max_context(positions: tf.Tensor, starts: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """The index of the window, of S candidates, with the most context on a token's poorer side.

    As in google-research/bert `run_squad.py: _check_is_max_context`: min(left, right) + 0.01 * size, and the first of
    equal windows.

    Args:
        positions: int32 [...].
        starts: starts of the candidates, in order, int32 [..., S].
        sizes: int32 [..., S]; 0 for a missing candidate.

    Returns:
        Indices of candidates, int32 [...]; 0 if none contains the token.
    """
    left = positions[..., None] - starts
    right = sizes - 1 - left
    # float64, like Python, so that the same scores are equal
    scores = tf.cast(tf.minimum(left, right), tf.float64) + 0.01 * tf.cast(sizes, tf.float64)
    return tf.argmax(tf.where((left >= 0) & (right >= 0), scores, -1.0), -1, tf.int32)


def best_windows(positions: tf.Tensor, texts: tf.Tensor, windows: SegmentWindows) -> tuple[tf.Tensor, tf.Tensor]:
    """The best window for each token (see `max_context`), for windows of one size.

    Args:
        positions: int32 [N].
        texts: the text of each token, int32 [N].
        windows: the windows of the texts.

    Returns:
        The number of the window within its text, and the token's position in it: int32 [N] each.
    """
    sizes, strides, counts = (tf.gather(x, texts) for x in windows[1:])
    # The middle of the best window is next to the token: candidates are the last one that starts left of the ideal, and
    # the next. The last window of a text may start before its stride, but never before the previous window.
    before = (2 * positions - (sizes - 1)) // (2 * tf.maximum(strides, 1))
    candidates = tf.clip_by_value(tf.stack([before, before + 1], 1), 0, counts[:, None] - 1)  # [N, 2]
    starts = windows.starts(texts[:, None], candidates)
    best = max_context(positions, starts, tf.broadcast_to(sizes[:, None], tf.shape(starts)))
    numbers = tf.gather(candidates, best, batch_dims=1)
    return numbers, positions - tf.gather(starts, best, batch_dims=1)

"""Texts and pairs longer than a row: in overlapping windows, or truncated; statistics on such texts.

B texts or pairs, W = most windows of a text, T = max_seq_length, n examples, F texts of an example (1 or 2).
"""

from __future__ import annotations

import numpy as np

from bert_tf.data import windows as sliding
from bert_tf.data.host_windows import segment_windows
from bert_tf.errors import UserError
from bert_tf.heads.base.text_head import Windows
from bert_tf.runtime.lazy import tf
from bert_tf.text.tokenizer import Tokenizer, pack
from bert_tf.text.tokenizer_settings import DEFAULT, TokenizerSettings


def check(windows: Windows, max_seq_length: int) -> None:
    """Raises UserError for windows with gaps between them, and for zero windows."""
    sliding.check_stride(windows.stride, max_seq_length)
    if windows.most < 1:
        raise UserError(f"max_windows is {windows.most}; expected 1 or more.")


def pack_windows(tokenizer: Tokenizer, segments: list, max_seq_length: int, windows: Windows) -> dict[str, tf.Tensor]:
    """Texts or pairs -> rows [CLS] a [SEP] b [SEP], one for each window (see `data.windows.segment_windows`).

    The first window is the row that `pack` makes. The last window ends with the text and is as long as the others.

    Args:
        tokenizer: cuts the segments into tokens.
        segments: texts or pairs, see `text.tokenizer.pack`.
        max_seq_length: T.
        windows: how long texts are read.

    Returns:
        "token_ids" and "segment_ids" int32 [B, W, T], "lengths" int32 [B, W], 0 if a text has no such window, and
        "window_counts" int32 [B].
    """
    most = windows.most
    ids = [tokenizer(segment) for segment in segments]
    room = max_seq_length - tokenizer.special_count(len(segments))
    lengths = [tf.cast(each.row_lengths(), tf.int32) for each in ids]
    plan = sliding.segment_windows(lengths, room, windows.stride, tokenizer.settings)
    counts = tf.minimum(tf.reduce_max([segment.counts for segment in plan], 0), most)
    texts = tf.repeat(tf.range(tf.shape(counts)[0]), most)  # [B * W], the text of a row
    numbers = tf.range(tf.shape(texts)[0]) % most  # [B * W], the window of a row
    parts = []
    for segment, segment_plan in zip(ids, plan, strict=True):
        starts = tf.gather(tf.cast(segment.row_starts(), tf.int32), texts) + segment_plan.starts(texts, numbers)
        parts.append(sliding.gather_ranges(segment.values, starts, tf.gather(segment_plan.sizes, texts)))
    packed = pack(tokenizer, parts, max_seq_length)
    packed["lengths"] = tf.where(numbers < tf.gather(counts, texts), packed["lengths"], 0)
    packed = {name: tf.reshape(x, [-1, most, *x.shape[1:]]) for name, x in packed.items()}
    return {**packed, "window_counts": counts}


def describe(
    counts: np.ndarray, max_seq_length: int, windows: Windows | None = None, settings: TokenizerSettings = DEFAULT
) -> str:
    """A sentence about the texts of a split that are longer than a row.

    counts: tokens of the texts, int [n, F]. settings: the tokenizer's settings.
    """
    lengths = counts.sum(-1) + 1 + counts.shape[1]  # with [CLS] and each [SEP]
    is_long = lengths > max_seq_length
    if not is_long.any():
        return f"all fit into {max_seq_length} tokens"
    long = f"{_share(is_long)} longer than {max_seq_length} tokens (the longest: {lengths.max():,})"
    if windows is None:
        return f"{long}, truncated"
    room = max_seq_length - 1 - counts.shape[1]
    plans = (segment_windows(sizes, room, windows.stride, settings) for sizes in counts.tolist())
    needed = np.array([max(each.number for each in plan) for plan in plans])
    fewest, most = needed[is_long].min(), min(needed.max(), windows.most)
    sentence = f"{long}, read in {fewest} to {most} windows" if fewest < most else f"{long}, read in {most} windows"
    beyond = needed > windows.most
    if beyond.any():
        return f"{sentence}; {_share(beyond)} longer than max_windows {windows.most}, truncated there"
    return sentence


def _share(chosen: np.ndarray) -> str:
    return f"{chosen.sum():,} ({chosen.mean():.1%})"

"""Texts and pairs of any length as rows, and for each of their tokens the row with the most context.

B texts, W rows (the windows of all texts), S positions in a row, N tokens read from all texts. The tokens of a
text are [CLS], its own tokens, [SEP], and for a pair the second text's tokens and [SEP].
"""

from __future__ import annotations

import dataclasses

from bert_tf.data import windows as sliding
from bert_tf.runtime.lazy import tf
from bert_tf.text.ragged_scan import row_numbers
from bert_tf.text.tokenizer import Tokenizer

PAIR = r"(?s)(.*\S.*) \|\|\| (.*)"  # split at the last bar, as in google-research/bert `extract_features.py`
NO_OFFSET = -1  # start and end of [CLS] and [SEP], which are not in a text


def split_pairs(lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Lines string [B], some of them "first ||| second" -> first, second string [B], is_pair bool [B]."""
    trimmed = tf.strings.regex_replace(lines, r"\s+$", "")
    is_pair = tf.strings.regex_full_match(trimmed, PAIR)
    first = tf.where(is_pair, tf.strings.regex_replace(trimmed, PAIR, r"\1"), lines)
    return first, tf.where(is_pair, tf.strings.regex_replace(trimmed, PAIR, r"\2"), ""), is_pair


def rows_and_tokens(
    tokenizer: Tokenizer, first: tf.Tensor, second: tf.Tensor, is_pair: tf.Tensor, *, max_seq_length: int, stride: int
) -> tuple[dict[str, tf.Tensor], dict[str, tf.RaggedTensor]]:
    """Texts and second texts -> rows for an encoder, and the texts' tokens.

    Args:
        tokenizer: cuts texts into tokens.
        first: texts, string [B].
        second: second texts of pairs, string [B], "" unless `is_pair`.
        is_pair: bool [B].
        max_seq_length: 3 or more; a row without room for a pair has its special tokens.
        stride: tokens from the start of a window to the next, at most the size of a window; 0: one row per text,
            truncated as in `text.tokenizer.pack`. See `data.windows.segment_windows` for pairs.

    Returns:
        Two dictionaries. Rows: int32 "token_ids", "segment_ids" [W, S], "lengths" [W], S being the longest. Tokens,
        int32 and ragged [B, (tokens)]: "ids"; "starts", "ends", characters of the token's text; "segments", 0 or 1;
        "sources", row * S + position, in the window that shows the token with the most context.
    """
    segments = _segments(tokenizer, (first, second), is_pair, max_seq_length, stride)
    counts = tf.maximum(segments[0].windows.counts, segments[1].windows.counts)  # [B]
    first_rows = tf.cumsum(counts, exclusive=True)
    owners, numbers = sliding.enumerate_windows(counts)  # [W]
    in_rows = [segment.in_windows(owners, numbers) for segment in segments]
    row_is_pair, more = tf.gather(is_pair, owners), tokenizer.separators - 1
    cls_id, sep_ids = tokenizer.cls_id, [tokenizer.sep_id] * 2
    token_ids = _framed(_gathered(segments, in_rows, "ids"), row_is_pair, cls_id, sep_ids, [tokenizer.sep_id] * more)
    second = 0 if tokenizer.settings.one_segment else 1
    segment_ids = _framed(_segment_numbers(in_rows, second), row_is_pair, 0, [0, second], [0] * more)
    rows = {
        "token_ids": token_ids.to_tensor(tokenizer.pad_id),
        "segment_ids": segment_ids.to_tensor(0),
        "lengths": tf.cast(token_ids.row_lengths(), tf.int32),
    }
    whole = [segment.whole() for segment in segments]
    ids, starts, ends = (_gathered(segments, whole, name) for name in ("ids", "starts", "ends"))
    return rows, {
        "ids": _framed(ids, is_pair, cls_id, sep_ids, [tokenizer.sep_id] * more),
        "starts": _framed(starts, is_pair, NO_OFFSET, [NO_OFFSET] * 2, [NO_OFFSET] * more),
        "ends": _framed(ends, is_pair, NO_OFFSET, [NO_OFFSET] * 2, [NO_OFFSET] * more),
        "segments": _framed(_segment_numbers(whole), is_pair, 0, [0, 1], [0] * more),
        "sources": _sources(segments, whole, first_rows, is_pair, tf.shape(rows["token_ids"])[1], more),
    }


@dataclasses.dataclass(frozen=True)
class _Segment:
    """The first or the second texts: their tokens, ragged int32 [B, (tokens)], and how windows cover them."""

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    windows: sliding.SegmentWindows

    def begins(self) -> tf.Tensor:
        """Index of each text's first token among the values of `ids`, int32 [B]."""
        return tf.cast(self.ids.row_starts(), tf.int32)

    def in_windows(self, owners: tf.Tensor, numbers: tf.Tensor) -> tf.RaggedTensor:
        """Indices of each window's tokens among the values of `ids`: ragged [W, (tokens)]."""
        start = tf.gather(self.begins(), owners) + self.windows.starts(owners, numbers)
        return tf.ragged.range(start, start + tf.gather(self.windows.sizes, owners))

    def whole(self) -> tf.RaggedTensor:
        """Indices, among the values of `ids`, of the tokens read from each text: ragged [B, (tokens)]."""
        return tf.ragged.range(self.begins(), self.begins() + self.windows.lengths)

    def best(self, whole: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The window with the most context for each token, and the position in it: int32 [N] each."""
        owners = tf.cast(row_numbers(whole), tf.int32)
        return sliding.best_windows(whole.values - tf.gather(self.begins(), owners), owners, self.windows)


def _segments(
    tokenizer: Tokenizer, texts: tuple[tf.Tensor, tf.Tensor], is_pair: tf.Tensor, max_seq_length: int, stride: int
) -> list[_Segment]:
    both = tokenizer.with_offsets(tf.concat(texts, 0))
    count = tf.size(is_pair)
    tokens = [[x[:count] for x in both], [x[count:] for x in both]]
    lengths = [tf.cast(ids.row_lengths(), tf.int32) for ids, _, _ in tokens]
    room = max_seq_length - tf.where(is_pair, tokenizer.special_count(2), tokenizer.special_count(1))
    windows = sliding.segment_windows(lengths, tf.maximum(room, 0), stride, tokenizer.settings)
    return [
        _Segment(ids, tf.cast(starts, tf.int32), tf.cast(ends, tf.int32), segment_windows)
        for (ids, starts, ends), segment_windows in zip(tokens, windows, strict=True)
    ]


def _framed(
    parts: list[tf.RaggedTensor], is_pair: tf.Tensor, opening: int | tf.Tensor, closings: list, between: list
) -> tf.RaggedTensor:
    """Two ragged parts -> opening, first part, closing, and for pairs second part, closing: ragged [B, (tokens)].

    between: anything else that pairs have between the closing of the first part and the second.
    """
    one = tf.ones_like(is_pair, tf.int32)

    def of_pairs(value: int | tf.Tensor) -> tf.RaggedTensor:
        values = tf.boolean_mask(one * value, is_pair)
        return tf.RaggedTensor.from_row_lengths(values, tf.cast(is_pair, tf.int32), validate=False)

    frame = [one * opening, one * closings[0]]
    *more, last = (of_pairs(value).with_row_splits_dtype(tf.int32) for value in (*between, closings[1]))
    first, second = (part.with_row_splits_dtype(tf.int32) for part in parts)
    return tf.concat([frame[0][:, None], first, frame[1][:, None], *more, second, last], 1)


def _gathered(segments: list[_Segment], indices: list[tf.RaggedTensor], name: str) -> list[tf.RaggedTensor]:
    """The field `name` of both segments at these indices."""
    pairs = zip(segments, indices, strict=True)
    return [index.with_values(tf.gather(getattr(segment, name).values, index.values)) for segment, index in pairs]


def _segment_numbers(parts: list[tf.RaggedTensor], second: int = 1) -> list[tf.RaggedTensor]:
    """Two parts whose values are 0, and `second`."""
    return [part.with_values(tf.fill(tf.shape(part.values), x)) for x, part in zip((0, second), parts, strict=True)]


def _sources(
    segments: list[_Segment],
    whole: list[tf.RaggedTensor],
    first_rows: tf.Tensor,
    is_pair: tf.Tensor,
    row_width: tf.Tensor,
    more: int,
) -> tf.RaggedTensor:
    """The position of every token, counted across all rows: ragged [B, (tokens)]. more: closings between parts."""
    parts, closings, offset = [], [], tf.ones_like(first_rows)  # after [CLS]
    for segment, indices in zip(segments, whole, strict=True):
        numbers, inside = segment.best(indices)
        owners = row_numbers(indices)
        rows = tf.gather(first_rows, owners) + numbers
        parts.append(indices.with_values(rows * row_width + tf.gather(offset, owners) + inside))
        closings.append((first_rows + segment.windows.counts - 1) * row_width + offset + segment.windows.sizes)
        offset += segment.windows.sizes + 1 + more
    between = [closings[0] + 1 + number for number in range(more)]
    return _framed(parts, is_pair, first_rows * row_width, closings, between)

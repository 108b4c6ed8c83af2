"""Texts and pairs of any length as rows, and where in the rows each of their tokens is seen best.

B texts, W rows (the windows of all texts), S slots in a row, P pieces that are read of all texts. The tokens of a text
are [CLS], its pieces, [SEP], and of a pair the pieces of the second text and [SEP].
"""

import dataclasses

import tensorflow as tf

from bert_tf.text.tokenizer import kept_lengths

PAIR = r"(?s)(.*\S.*) \|\|\| (.*)"  # the last bar parts them, as in google-research/bert `extract_features.py`
NO_PLACE = -1  # of [CLS] and [SEP], which stand in no text


def parted(lines):
    """Lines string [B], some of them "first ||| second" -> first, second string [B], is_pair bool [B]."""
    trimmed = tf.strings.regex_replace(lines, r"\s+$", "")
    is_pair = tf.strings.regex_full_match(trimmed, PAIR)
    first = tf.where(is_pair, tf.strings.regex_replace(trimmed, PAIR, r"\1"), lines)
    return first, tf.where(is_pair, tf.strings.regex_replace(trimmed, PAIR, r"\2"), ""), is_pair


def rows_and_tokens(tokenizer, first, second, is_pair, *, max_seq_length, stride):
    """Texts and second texts, string [B], "" where not `is_pair` [B] -> rows for an encoder, and the texts' tokens.

    stride: pieces from the start of a window to that of the next, at most as many as a window holds; 0: one row a
        text, cut as `text.pack` cuts it. Of a pair the longer text (the second, if both are equally long) is read in
        windows and the other stands in every row, as in `windows.pack_windows`. The last window ends with the text.
    max_seq_length: 5 or more.

    Returns two dictionaries. Rows: int32 "token_ids", "segment_ids" [W, S], "lengths" [W], S being the longest.
    Tokens, int32 and ragged [B, (tokens)]: "ids"; "starts", "ends", characters of the text it is from; "segments", 0
    or 1; "sources", row * S + slot: of the windows that hold a piece, the one with most pieces on its poorer side.
    """
    segments = _segments(tokenizer, (first, second), is_pair, max_seq_length, stride)
    counts = tf.maximum(segments[0].count, segments[1].count)  # [B]
    first_rows = tf.cumsum(counts, exclusive=True)
    owners = tf.repeat(tf.range(tf.size(counts)), counts)  # [W]
    numbers = tf.range(tf.size(owners)) - tf.gather(first_rows, owners)
    in_rows = [segment.in_windows(owners, numbers) for segment in segments]
    row_is_pair, cls_id, sep_ids = tf.gather(is_pair, owners), tokenizer.cls_id, [tokenizer.sep_id] * 2
    token_ids = _framed(_picked(segments, in_rows, "ids"), row_is_pair, cls_id, sep_ids)
    segment_ids = _framed(_numbered(in_rows), row_is_pair, 0, [0, 1])
    rows = {
        "token_ids": token_ids.to_tensor(tokenizer.pad_id),
        "segment_ids": segment_ids.to_tensor(0),
        "lengths": tf.cast(token_ids.row_lengths(), tf.int32),
    }
    whole = [segment.whole() for segment in segments]
    ids, starts, ends = (_picked(segments, whole, name) for name in ("ids", "starts", "ends"))
    return rows, {
        "ids": _framed(ids, is_pair, cls_id, sep_ids),
        "starts": _framed(starts, is_pair, NO_PLACE, [NO_PLACE] * 2),
        "ends": _framed(ends, is_pair, NO_PLACE, [NO_PLACE] * 2),
        "segments": _framed(_numbered(whole), is_pair, 0, [0, 1]),
        "sources": _sources(segments, whole, first_rows, is_pair, tf.shape(rows["token_ids"])[1]),
    }


@dataclasses.dataclass(frozen=True)
class _Segment:
    """The first or the second texts: their pieces, and how windows pass over them; int32 [B], or ragged [B, (pieces)].

    size: pieces in a row. step: from row to row, 0 where it stands still. total: pieces that are read. count: windows.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    size: tf.Tensor
    step: tf.Tensor
    total: tf.Tensor
    count: tf.Tensor

    def first(self, owners, numbers):
        """The first piece of the window of that number of a text, int32."""
        return tf.minimum(numbers * tf.gather(self.step, owners), tf.gather(self.total - self.size, owners))

    def in_windows(self, owners, numbers):
        """Where the pieces of each window are among the values of `ids`: ragged [W, (pieces)]."""
        start = tf.gather(tf.cast(self.ids.row_starts(), tf.int32), owners) + self.first(owners, numbers)
        return tf.ragged.range(start, start + tf.gather(self.size, owners))

    def whole(self):
        """Where the pieces that are read of each text are among the values of `ids`: ragged [B, (pieces)]."""
        start = tf.cast(self.ids.row_starts(), tf.int32)
        return tf.ragged.range(start, start + self.total)

    def best(self, whole):
        """Of each piece the window in whose middle it is most, and its place in there: int32 [P] each."""
        owners = tf.cast(whole.value_rowids(), tf.int32)
        places = whole.values - tf.gather(tf.cast(self.ids.row_starts(), tf.int32), owners)
        size, step = tf.gather(self.size, owners), tf.maximum(tf.gather(self.step, owners), 1)
        before = (2 * places - (size - 1)) // (2 * step)  # the last window that starts left of the ideal one
        near = tf.clip_by_value(tf.stack([before, before + 1], 1), 0, tf.gather(self.count, owners)[:, None] - 1)
        inside = places[:, None] - self.first(owners[:, None], near)  # [P, 2]
        context = tf.minimum(inside, size[:, None] - 1 - inside)
        chosen = tf.argmax(context, 1, tf.int32)
        return tf.gather(near, chosen, batch_dims=1), tf.gather(inside, chosen, batch_dims=1)


def _segments(tokenizer, texts, is_pair, max_seq_length, stride):
    both = tokenizer.with_offsets(tf.concat(texts, 0))
    count = tf.size(is_pair)
    pieces = [[each[:count] for each in both], [each[count:] for each in both]]
    lengths = [tf.cast(ids.row_lengths(), tf.int32) for ids, _, _ in pieces]
    sizes = kept_lengths(lengths, max_seq_length - 2 - tf.cast(is_pair, tf.int32))
    moves = [~is_pair | (lengths[0] > lengths[1]), is_pair & (lengths[0] <= lengths[1])]
    segments = []
    for (ids, starts, ends), length, size, here in zip(pieces, lengths, sizes, moves, strict=True):
        total = tf.where(here, length, size) if stride else size
        step = tf.where(here, tf.minimum(stride, size), 0)
        count = 1 - tf.math.floordiv(size - total, tf.maximum(step, 1))  # rounded up
        starts, ends = (tf.cast(places, tf.int32) for places in (starts, ends))
        segments.append(_Segment(ids, starts, ends, size, step, total, count))
    return segments


def _framed(parts, is_pair, opening, closings):
    """Ragged parts -> opening, first part, closing, and of a pair second part, closing: ragged [B, (tokens)]."""
    one = tf.ones_like(is_pair, tf.int32)
    frame = [one * opening, one * closings[0]]
    last = tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(one * closings[1], is_pair), tf.cast(is_pair, tf.int32), validate=False
    )
    first, second = (part.with_row_splits_dtype(tf.int32) for part in parts)
    return tf.concat([frame[0][:, None], first, frame[1][:, None], second, last.with_row_splits_dtype(tf.int32)], 1)


def _picked(segments, parts, name):
    """What a segment has by that name in the places of its part."""
    chosen = zip(segments, parts, strict=True)
    return [places.with_values(tf.gather(getattr(each, name).values, places.values)) for each, places in chosen]


def _numbered(parts):
    """Parts with the number of the part, 0 or 1, in each place."""
    return [part.with_values(tf.fill(tf.shape(part.values), number)) for number, part in enumerate(parts)]


def _sources(segments, whole, first_rows, is_pair, slots):
    """The slot of every token, counted through all rows: ragged [B, (tokens)]."""
    parts, closings, offset = [], [], tf.ones_like(first_rows)  # [CLS] is before the first piece
    for segment, places in zip(segments, whole, strict=True):
        numbers, inside = segment.best(places)
        rows = tf.gather(first_rows, places.value_rowids()) + numbers
        parts.append(places.with_values(rows * slots + tf.gather(offset, places.value_rowids()) + inside))
        closings.append((first_rows + segment.count - 1) * slots + offset + segment.size)
        offset += segment.size + 1
    return _framed(parts, is_pair, first_rows * slots, closings)

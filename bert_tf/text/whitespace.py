"""White space normalizers as in `tokenizers`, and NFC normalization, as TensorFlow ops.

C characters of a batch of texts. White space is as defined by Unicode; a blank is the character U+0020.
"""

from __future__ import annotations

from bert_tf.runtime.lazy import tf
from bert_tf.text.byte_level import SPACES
from bert_tf.text.ragged_scan import row_numbers, shift, utf8_sizes
from bert_tf.text.replacements import Characters, chosen
from bert_tf.text.text_kernels import tf_text


def stripped(characters: Characters) -> Characters:
    """Strips white space at both ends of each text."""
    return chosen(characters, _is_inside(characters, from_left=True) & _is_inside(characters, from_left=False))


def right_stripped(characters: Characters) -> Characters:
    """Strips white space at the end of each text."""
    return chosen(characters, _is_inside(characters, from_left=False))


def single_blanks(characters: Characters) -> Characters:
    """Replaces several blanks by one."""
    is_blank = tf.equal(characters.points.values, ord(" "))
    return chosen(characters, ~(is_blank & _follows(characters, is_blank)))


def single_spaces(characters: Characters) -> Characters:
    r"""Replaces white space of several characters, and single \n, \r and \t, by a blank."""
    x, is_space = characters.points.values, _is_space(characters)
    is_rest = is_space & _follows(characters, is_space)
    becomes_blank = shift(is_rest, -1) | tf.reduce_any([tf.equal(x, ord(c)) for c in "\n\r\t"], 0)
    x = tf.where(becomes_blank, ord(" "), x)
    return chosen(Characters(characters.points.with_values(x), characters.sources), ~is_rest)


def composed(characters: Characters) -> Characters:
    """Normalizes to NFC. The result of several characters is at the place of the first one.

    Further results of one character are at the place of the next one, or at its own if it is the last.
    """
    points = characters.points
    texts, places = tf_text.normalize_utf8_with_offsets_map(tf.strings.unicode_encode(points, "UTF-8"), "NFC")
    normal, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    splits = normal.row_splits + tf.range(tf.size(normal.row_splits, tf.int64))  # the kernel needs one in every row
    after = tf.range(tf.size(normal.values, tf.int64)) + row_numbers(normal) + 1
    offsets = tf.tensor_scatter_nd_update(tf.zeros([splits[-1]], tf.int64), after[:, None], starts.values)
    rows = tf.RaggedTensor.from_row_splits(offsets, splits, validate=False)
    offsets = tf.gather(tf_text.find_source_offsets(places, rows).values, after)  # in bytes of its text
    bounds = tf.cumsum(utf8_sizes(points.values))  # after each character of the batch
    base = tf.gather(tf.concat([[0], bounds], 0), tf.gather(points.row_splits, row_numbers(normal)))
    number = tf.searchsorted(bounds, base + offsets, side="right", out_type=tf.int64)
    last = tf.gather(points.row_limits() - 1, row_numbers(normal))
    return Characters(normal, tf.gather(characters.sources, tf.minimum(number, last)))


def trimmed(texts: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The spans without white space at their ends; empty if all white space.

    texts: string [B]. rows: the text of each span. starts, ends: in characters. All int32 [N].
    `byte_level.trimmed` does the same in plain Python.
    """
    points = tf.strings.unicode_decode(texts, "UTF-8")
    is_other = ~_is_space(Characters(points, points.values))
    places = tf.concat([tf.cast(tf.where(is_other)[:, 0], tf.int32), [0]], 0)
    before = tf.concat([[0], tf.cumsum(tf.cast(is_other, tf.int32))], 0)
    base = tf.gather(tf.cast(points.row_splits, tf.int32), rows)
    bounds = (tf.minimum(base + x, tf.size(before) - 1) for x in (starts, ends))  # more characters if it is not UTF-8
    first, last = (tf.gather(before, x) for x in bounds)
    is_empty = first >= last
    begin, end = tf.gather(places, first) - base, tf.gather(places, tf.maximum(last - 1, 0)) + 1 - base
    return tf.where(is_empty, starts, begin), tf.where(is_empty, starts, end)


def _is_space(characters: Characters) -> tf.Tensor:
    spaces, x = tf.constant([*SPACES, 2**31 - 1]), characters.points.values
    return tf.equal(tf.gather(spaces, tf.searchsorted(spaces, x)), x)


def _follows(characters: Characters, flags: tf.Tensor) -> tf.Tensor:
    """Which characters follow a flagged one in their text, bool [C]."""
    text = row_numbers(characters.points)
    return tf.equal(text, shift(text, 1)) & (tf.range(tf.size(text)) > 0) & shift(flags, 1)


def _is_inside(characters: Characters, *, from_left: bool) -> tf.Tensor:
    """Which characters are not white space, or have others on one side of them in their text: bool [C]."""
    others = tf.cumsum(tf.cast(~_is_space(characters), tf.int32), reverse=not from_left)
    bounds = tf.concat([[0], others] if from_left else [others, [0]], 0)
    splits, text = characters.points.row_splits, row_numbers(characters.points)
    outside = tf.gather(bounds, tf.gather(splits[:-1] if from_left else splits[1:], text))
    return others > outside

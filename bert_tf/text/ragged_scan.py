"""Operations shared by tokenizers, on the flat characters, bytes and tokens of a batch of texts."""

from __future__ import annotations

from bert_tf.runtime.lazy import tf


def utf8_sizes(points: tf.Tensor) -> tf.Tensor:
    """Bytes of each character in UTF-8, int64; 0 for code points below 0."""
    return tf.add_n([tf.cast(points > last, tf.int64) for last in (-1, 0x7F, 0x7FF, 0xFFFF)])


def shift(x: tf.Tensor, by: int) -> tf.Tensor:
    """x[i - by] in place of x[i], 0 where that is out of range."""
    size = tf.size(x)
    if by > 0:
        return tf.concat([tf.zeros([by], x.dtype), x], 0)[:size]
    return tf.concat([x, tf.zeros([-by], x.dtype)], 0)[-by:]


def without_overlaps(joins: tf.Tensor) -> tf.Tensor:
    """Keeps the first, third, ... of consecutive flags: each flag joins an element to the one after it."""
    numbers = tf.range(tf.size(joins))
    begins = joins & ~shift(joins, 1)
    run = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32)) - 1, 0)
    first = tf.gather(tf.concat([tf.boolean_mask(numbers, begins), [0]], 0), run)
    return joins & tf.equal((numbers - first) % 2, 0)


def row_numbers(ragged: tf.RaggedTensor) -> tf.Tensor:
    """The row of each value, int64 [N]: `ragged.value_rowids()` with one search instead of a mask of all rows."""
    return _rows_of(ragged.row_splits)


def from_row_numbers(values: tf.Tensor, rows: tf.Tensor, count: tf.Tensor) -> tf.RaggedTensor:
    """Ragged [count, (values)]: `RaggedTensor.from_value_rowids` with one search instead of dozens of operations.

    rows: the row of each value, ascending. count: the number of rows.
    """
    numbers = tf.expand_dims(tf.range(tf.cast(count, rows.dtype) + 1), 0)
    bounds = tf.raw_ops.LowerBound(sorted_inputs=tf.expand_dims(rows, 0), values=numbers, out_type=tf.int64)
    return tf.RaggedTensor.from_row_splits(values, tf.squeeze(bounds, 0), validate=False)


def repeat(x: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """`tf.repeat` of a vector, with one search. counts: int64, as long as `x`."""
    return tf.gather(x, _rows_of(tf.concat([[0], tf.cumsum(counts)], 0)))


def _rows_of(splits: tf.Tensor) -> tf.Tensor:
    """The row of each value, int64 [N], given the row splits."""
    values = tf.expand_dims(tf.range(splits[-1]), 0)
    bounds = tf.raw_ops.UpperBound(sorted_inputs=tf.expand_dims(splits, 0), values=values, out_type=tf.int64)
    return tf.squeeze(bounds, 0) - 1


def ragged_rows(splits: tf.Tensor, rows: tf.Tensor) -> tf.RaggedTensor:
    """The indices of the values of some rows, in their order: ragged int64 [rows, (values)]."""
    return tf.ragged.range(tf.gather(splits[:-1], rows), tf.gather(splits[1:], rows), row_splits_dtype=tf.int64)

"""Operations on the flat characters, bytes and tokens of a batch of texts, which tokenizers share."""

import tensorflow as tf


def utf8_sizes(points: tf.Tensor) -> tf.Tensor:
    """Bytes of each character in UTF-8, int64; 0 for code points below 0."""
    return tf.add_n([tf.cast(points > last, tf.int64) for last in (-1, 0x7F, 0x7FF, 0xFFFF)])


def shift(x: tf.Tensor, by: int) -> tf.Tensor:
    """x[i - by] in the place of x[i], zeros where there is none."""
    size = tf.size(x)
    if by > 0:
        return tf.concat([tf.zeros([by], x.dtype), x], 0)[:size]
    return tf.concat([x, tf.zeros([-by], x.dtype)], 0)[-by:]


def without_overlaps(joins: tf.Tensor) -> tf.Tensor:
    """Of flags in a row the first, third and so on: each joins an element with the one after it."""
    numbers = tf.range(tf.size(joins))
    begins = joins & ~shift(joins, 1)
    run = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32)) - 1, 0)
    first = tf.gather(tf.concat([tf.boolean_mask(numbers, begins), [0]], 0), run)
    return joins & tf.equal((numbers - first) % 2, 0)


def ragged_rows(splits: tf.Tensor, rows: tf.Tensor) -> tf.RaggedTensor:
    """The indices of the values of some rows, in their order: ragged int64 [rows, (values)]."""
    return tf.ragged.range(tf.gather(splits[:-1], rows), tf.gather(splits[1:], rows), row_splits_dtype=tf.int64)

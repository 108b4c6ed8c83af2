"""Rows of ragged tensors, compared with TensorFlow's own functions."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.text.ragged_scan import from_row_numbers, repeat, row_numbers

ROWS = [[[1, 2], [], [], [3, 4, 5], []], [[], [7]], [[]], []]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", [tf.int32, tf.int64])
def test_rows_are_those_of_tensorflow(rows, kind):
    ragged = tf.RaggedTensor.from_row_lengths(
        tf.constant([value for row in rows for value in row], tf.float32), tf.constant([len(row) for row in rows], kind)
    )
    numbers = row_numbers(ragged)
    np.testing.assert_array_equal(numbers, ragged.value_rowids())
    again = from_row_numbers(ragged.values, tf.cast(numbers, kind), tf.constant(len(rows)))
    assert again.to_list() == ragged.to_list()


def test_values_may_be_vectors():
    ragged = tf.RaggedTensor.from_row_lengths(tf.ones([3, 4]), [2, 0, 1])
    np.testing.assert_array_equal(row_numbers(ragged), [0, 0, 2])


def test_repeat_is_that_of_tensorflow():
    x, counts = tf.constant([5, 6, 7, 8]), tf.constant([2, 0, 3, 1], tf.int64)
    np.testing.assert_array_equal(repeat(x, counts), tf.repeat(x, counts))
    assert repeat(x[:0], counts[:0]).shape == [0]

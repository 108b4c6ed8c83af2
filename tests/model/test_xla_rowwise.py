"""Functions of rows that XLA compiles: the same numbers as without it, for any number of rows."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model import xla_rowwise


def scale_and_sum(tensors, weights):
    """Each row times a weight, and the sum over all rows."""
    return [tensors[0] * weights[0]], [tf.reduce_sum(tensors[0], 0)]


@pytest.mark.parametrize("rows", [0, 1, 9, 33])
def test_compiled_rows_are_equal_for_static_and_dynamic_shapes(rows):
    width = xla_rowwise.LEAST_WIDTH
    x = np.random.default_rng(0).normal(size=[rows, width]).astype(np.float32)
    for shape in ([None, width], [rows, width]):
        run = tf.function(
            lambda x: xla_rowwise.jit_rowwise(scale_and_sum, [x], [tf.constant(2.0)]),
            input_signature=[tf.TensorSpec(shape)],
        )
        (scaled,), (total,) = run(tf.constant(x))
        np.testing.assert_array_equal(scaled, 2 * x)
        np.testing.assert_allclose(total, x.sum(0), atol=1e-5)


def test_only_wide_rows_on_cpus_are_compiled(as_platform):
    wide = xla_rowwise.LEAST_WIDTH
    assert [xla_rowwise.should_compile(width) for width in (None, wide - 1, wide)] == [False, False, True]
    as_platform("gpu")
    assert not xla_rowwise.should_compile(wide)

"""Model rows in blocks, so that memory does not depend on the number of rows of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bert_tf.runtime.lazy import tf

ROWS_AT_ONCE = 16


def concat_blocks(
    compute: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    count: tf.Tensor,
    shape: Sequence[int],
    size: int | tf.Tensor = ROWS_AT_ONCE,
) -> tf.Tensor:
    """compute(first, end) -> float32 [any, *shape] on blocks of `size` out of `count` rows, concatenated."""
    blocks = -(-count // size)
    array = tf.TensorArray(tf.float32, blocks, infer_shape=False, element_shape=[None, *shape])

    def step(number: tf.Tensor, array: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        first = number * size
        block = compute(first, tf.minimum(first + size, count))
        return number + 1, array.write(number, tf.ensure_shape(block, [None, *shape]))

    _, array = tf.while_loop(lambda number, _: number < blocks, step, (0, array), parallel_iterations=1)
    return tf.cond(blocks > 0, array.concat, lambda: tf.zeros([0, *shape]))

"""Elementwise and row-wise functions compiled by XLA inside a TensorFlow graph on CPUs.

XLA traverses the data once, TensorFlow once per operation. Matrix products stay with oneDNN, which multiplies bfloat16
faster than XLA on a CPU. XLA recompiles for every shape, which takes a tenth of a second, and packed batches have many
shapes: tensors are padded with zero rows to one of a few sizes.
"""

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from bert_tf.runtime import backend

RowFunction = Callable[[Sequence[tf.Tensor], Sequence[tf.Tensor]], tuple[list[tf.Tensor], list[tf.Tensor]]]
# With fewer numbers in a row, or in a matrix, compiling takes longer than it saves.
LEAST_WIDTH, LEAST_MATRIX = 384, 2**18
# Row counts to pad tensors to: eight per factor of two, so at most an eighth is added.
ROWS = sorted({eighths << power for power in range(28) for eighths in range(8, 16)})


def jit_rowwise(
    function: RowFunction, tensors: Sequence[tf.Tensor], weights: Sequence[tf.Tensor] = (), *, width: int | None = None
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Returns `function(tensors, weights)`, compiled if it is worth it: on CPUs, for rows that are wide enough.

    tensors: [N, ...] each. The function returns two lists: tensors [N, ...] whose rows depend only on the same row of
    the arguments, and tensors of other shapes, to which zero rows must contribute nothing.
    width: row length, if it is not the last dimension of the first tensor.
    """
    if not should_compile(tensors[0].shape[-1] if width is None else width):
        return function(tensors, weights)
    if tensors[0].shape[0] is not None:
        return jit(function)(tensors, weights)
    paddings, rows = _paddings(tf.shape(tensors[0]))
    of_rows, others = jit(function)([tf.pad(x, paddings) for x in tensors], weights)
    return [x[:rows] for x in of_rows], others


@tf.function(autograph=False, reduce_retracing=True)
def _paddings(shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Padding of a shape's rows up to one of ROWS, [R, 2], and the number of rows before it; traced once for all."""
    sizes = tf.constant(ROWS)
    more = tf.gather(sizes, tf.searchsorted(sizes, shape[:1])) - shape[:1]
    return tf.pad(more[:, None], [[0, tf.size(shape) - 1], [1, 0]]), shape[0]


def should_compile(width: int | None) -> bool:
    """Returns whether rows of that many numbers (None: unknown) are compiled here."""
    return width is not None and width >= LEAST_WIDTH and backend.platform() == "cpu"


def should_compile_weight(shape: tf.TensorShape) -> bool:
    """Returns whether functions of a weight with that shape are compiled here."""
    return len(shape) == 2 and shape.num_elements() >= LEAST_MATRIX and backend.platform() == "cpu"


@functools.cache
def jit(function: Callable) -> tf.types.experimental.PolymorphicFunction:
    """The function compiled by XLA, once for all callers."""
    return tf.function(function, jit_compile=True, autograph=False, reduce_retracing=True)

"""Functions that XLA compiles in the midst of a graph: it goes over the numbers once where TensorFlow's operations go
over them once each. Matrix products stay with oneDNN, which multiplies bfloat16 faster than XLA does on a CPU.

XLA compiles anew for every shape, which takes a tenth of a second. Packed rows have many, so that tensors are filled up
with rows of zeros to one of few sizes.
"""

import functools

import tensorflow as tf

LEAST_WIDTH = 384  # numbers of a row; below, compiling takes longer than it saves
# Rows that a tensor may have: eight to an octave, so that at most an eighth is added.
ROWS = sorted({eighths << power for power in range(24) for eighths in range(8, 16)})


def by_rows(function, tensors, weights=()):
    """What `function(tensors, weights)` returns, compiled where that pays: on CPUs, for rows that are long enough.

    tensors: [N, D] each, or [N, ...]. The function returns two lists: tensors [N, ...], each row of which depends on
    that row of the given ones alone, and tensors of other shapes, to which rows of zeros must add nothing.
    """
    if not pays(tensors[0].shape[-1]):
        return function(tensors, weights)
    rows = tensors[0].shape[0]
    if rows is not None:
        return _jitted(function)(tensors, weights)
    rows = tf.shape(tensors[0])[0]
    sizes = tf.constant(ROWS)
    more = tf.gather(sizes, tf.searchsorted(sizes, rows[None]))[0] - rows
    filled = [tf.pad(x, [[0, more]] + [[0, 0]] * (len(x.shape) - 1)) for x in tensors]
    for x, given in zip(filled, tensors, strict=True):
        x.set_shape([None, *given.shape[1:]])
    of_rows, others = _jitted(function)(filled, weights)
    return [x[:rows] for x in of_rows], others


def pays(width):
    """Whether rows of that many numbers, None: unknown, are compiled here."""
    return width is not None and width >= LEAST_WIDTH and not tf.config.list_physical_devices("GPU")


@functools.cache
def _jitted(function):
    return tf.function(function, jit_compile=True, autograph=False, reduce_retracing=True)

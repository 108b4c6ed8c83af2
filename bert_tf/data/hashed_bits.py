"""Random bits without state: a hash of a seed, a stream and a counter."""

from __future__ import annotations

from bert_tf.runtime.lazy import tf


def random_bits(seeds: tf.Tensor | int, stream: int, counters: tf.Tensor | int) -> tf.Tensor:
    """64 random bits for each seed, stream and counter: uint64 of the broadcast shape.

    seeds: int64 or uint64 (or one int); counters: int32 or int64 below 2 ** 32. Two rounds of splitmix64 (Steele et al.
    2014): the seed is hashed first, so that neighboring seeds have nothing in common.
    """
    counters = tf.cast(counters, tf.uint64) + tf.constant((stream << 32) + 1, tf.uint64)
    return _mix(_mix(as_uint64(seeds) + uint64(0x9E3779B97F4A7C15)) + counters * uint64(0x9E3779B97F4A7C15))


def as_uint64(seeds: tf.Tensor | int) -> tf.Tensor:
    """Seeds as uint64, bit for bit."""
    seeds = tf.constant(seeds, tf.int64) if isinstance(seeds, int) else tf.convert_to_tensor(seeds)
    return seeds if seeds.dtype == tf.uint64 else tf.bitcast(tf.cast(seeds, tf.int64), tf.uint64)


def uint64(value: int) -> tf.Tensor:
    """A number as a tensor."""
    return tf.constant(value, tf.uint64)


def shift_right(x: tf.Tensor, bits: int) -> tf.Tensor:
    """Bits shifted to the right."""
    return tf.bitwise.right_shift(x, uint64(bits))


def _mix(x: tf.Tensor) -> tf.Tensor:
    """The finalizer of splitmix64: each bit of the result depends on all bits of x."""
    x = tf.bitwise.bitwise_xor(x, shift_right(x, 30)) * uint64(0xBF58476D1CE4E5B9)
    x = tf.bitwise.bitwise_xor(x, shift_right(x, 27)) * uint64(0x94D049BB133111EB)
    return tf.bitwise.bitwise_xor(x, shift_right(x, 31))

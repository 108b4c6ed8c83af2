"""Randomness for dropout: seeds for models trained by Keras, seeds of streams, and the bits derived from a seed.

The bits depend only on the seed: they come from a generator, or are computed at their place of use. The seeds for
Keras are a counter saved with the model.
"""

import math
import random
import zlib

import keras
import numpy as np
import tensorflow as tf

from bert_tf.runtime import backend

MULTIPLIERS = 0x7FEB352D, 0x846CA68B  # from lowbias32 (Wellons, hash-prospector)
SPAN = 4096  # positions numbered together
GOLDEN_RATIO = 0x9E3779B9  # times 2**32; odd, so that different seeds stay different


def new_state() -> list[int]:
    """A random start and the number of seeds drawn; keeps the state of Python's generator, used for weights."""
    state = random.getstate()
    start = random.getrandbits(31)
    random.setstate(state)
    return [start, 0]


def next_seed(state: keras.Variable) -> tf.Tensor:
    """Returns the seed of the next pass, int32 [2], different on every replica, and advances `state`, int64 [2]."""
    seed = tf.identity(state.value)
    state.assign(seed + tf.constant([0, 1], tf.int64))
    seed = tf.cast(seed, tf.int32)
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return seed
    return tf.random.fold_in(seed, replica.replica_id_in_sync_group)


def stream_id(stream: str) -> int:
    """The int32 id of a named random stream."""
    return int(np.uint32(zlib.crc32(stream.encode())).view(np.int32))


def of_stream(seed: tf.Tensor, number: int) -> tf.Tensor:
    """The seed, int32 [2], of the stream with that id in a pass with seed `seed`."""
    return tf.bitwise.bitwise_xor(seed, tf.constant([number, 0], tf.int32))


def lanes(x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Uniform random uint16 in the shape of `x`. seed: int32 [2].

    Philox draws them (Salmon et al. 2011), two from every 32 bits to save time. XLA on an accelerator hashes positions
    instead: within the pass that uses the bits, rather than in four passes before it.
    """
    count = math.prod(x.shape) if x.shape.is_fully_defined() else tf.size(x)
    if backend.platform() != "cpu" and isinstance(count, int):
        return tf.reshape(hashed(count, seed), x.shape)
    bits = {"minval": None, "maxval": None, "dtype": tf.uint32}
    words = tf.random.stateless_uniform([(count + 1) // 2], seed, alg="philox", **bits)
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:count], tf.shape(x))


def hashed(count: int, seed: tf.Tensor) -> tf.Tensor:
    """Uniform random uint16 [count]: the upper halves of a hash of each position and the seed, int32 [2]."""
    first, second = tf.unstack(tf.bitcast(seed, tf.uint32))
    second = tf.bitwise.bitwise_xor(second, first * tf.constant(GOLDEN_RATIO, tf.uint32))
    starts = first + tf.cast(tf.range(0, count, SPAN), tf.uint32)  # seeded: else TensorFlow stores all positions
    places = tf.reshape(starts[:, None] + tf.cast(tf.range(SPAN), tf.uint32), [-1])[:count]
    return tf.cast(_shift(_mix(_mix(places) + second), 16), tf.uint16)


def _mix(x: tf.Tensor) -> tf.Tensor:
    """A permutation of all uint32 values whose every bit depends on all others."""
    x = tf.bitwise.bitwise_xor(x, _shift(x, 16)) * tf.constant(MULTIPLIERS[0], tf.uint32)
    x = tf.bitwise.bitwise_xor(x, _shift(x, 15)) * tf.constant(MULTIPLIERS[1], tf.uint32)
    return tf.bitwise.bitwise_xor(x, _shift(x, 16))


def _shift(x: tf.Tensor, count: int) -> tf.Tensor:
    return tf.bitwise.right_shift(x, tf.constant(count, tf.uint32))

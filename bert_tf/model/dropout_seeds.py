"""Seeds of dropout: those of a model that Keras trains, a counter that is saved with it, and those of streams."""

import random
import zlib

import keras
import numpy as np
import tensorflow as tf


def new_state() -> list[int]:
    """A random start and the number of seeds drawn; does not advance Python's generator, from which weights come."""
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
    """The number, as an int32, of a stream of random numbers with that name."""
    return int(np.uint32(zlib.crc32(stream.encode())).view(np.int32))


def of_stream(seed: tf.Tensor, number: int) -> tf.Tensor:
    """The seed, int32 [2], of the stream with that number in the pass that has the seed `seed`."""
    return tf.bitwise.bitwise_xor(seed, tf.constant([number, 0], tf.int32))

"""A learned number for each distance of two tokens and each head, added to attention scores (Raffel et al. 2020, 2.1).

T positions in a row, H heads. As MPNet has it: distances up to 7 have a number each, larger ones share some.
"""

import functools
import math

import numpy as np
import tensorflow as tf

BUCKETS = 32  # half of them for tokens before, half for those after
FURTHEST = 128  # from this distance on all are alike


@functools.cache
def buckets(longest: int) -> np.ndarray:
    """The bucket of each distance key - query from -longest to longest, int32 [2 * longest + 1]."""
    distances = np.arange(-longest, longest + 1)
    half, exact = BUCKETS // 2, BUCKETS // 4
    size = np.abs(distances)
    share = np.log(np.maximum(size, 1).astype(np.float32) / exact) / math.log(FURTHEST / exact)
    large = np.minimum(exact + (share * (half - exact)).astype(np.int32), half - 1)
    return (np.where(size < exact, size, large) + np.where(distances > 0, half, 0)).astype(np.int32)


def relative_bias(table: tf.Tensor, width: tf.Tensor | int, longest: int) -> tf.Tensor:
    """Bias of the scores of rows of `width` positions: [1, H, T, T].

    Texts that are packed into a row have it too, as only distances count.

    table: [BUCKETS, H]. longest: positions of a text at most.
    """
    by_distance = tf.gather(table, buckets(longest))  # [2 * longest + 1, H]
    places = tf.range(width)
    distances = tf.clip_by_value(places[None, :] - places[:, None], -longest, longest)
    return tf.transpose(tf.gather(by_distance, distances + longest), [2, 0, 1])[None]

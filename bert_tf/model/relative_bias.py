"""Attention scores by token distance.

From a learned number per distance and head (Raffel et al. 2020, 2.1), as in MPNet: distances up to 7 have a number
each, larger ones share some. Or from vectors, as in DeBERTa and XLNet.
B rows, T positions in a row, H heads, K size of one head.
"""

import functools
import math

import numpy as np
import tensorflow as tf

from bert_tf.model.batch_layout import size_of

BUCKETS = 32  # half for preceding tokens, half for following ones
FURTHEST = 128  # all distances from here on share a bucket


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
    """Score bias for rows of `width` positions: [1, H, T, T].

    It also applies to packed texts, because only distances matter.

    table: [BUCKETS, H]. longest: maximum positions of a text.
    """
    by_distance = tf.gather(table, buckets(longest))  # [2 * longest + 1, H]
    places = tf.range(width)
    distances = tf.clip_by_value(places[None, :] - places[:, None], -longest, longest)
    return tf.transpose(tf.gather(by_distance, distances + longest), [2, 0, 1])[None]


def position_scores(
    query: tf.Tensor, key: tf.Tensor, position_query: tf.Tensor | None, position_key: tf.Tensor | None
) -> tf.Tensor:
    """Score bias by token distance: [B, H, T, T].

    query, key: [B, H, T, K]. position_query, position_key: [H, 2 T - 1, K], scaled, for the distances query - key in
    ascending order; None: the key, or the query, does not attend to positions.
    """
    parts = []
    if position_key is not None:
        parts.append(_skewed(tf.matmul(query, position_key[:, ::-1], transpose_b=True)))
    if position_query is not None:
        by_key = _skewed(tf.matmul(key, position_query, transpose_b=True))
        parts.append(tf.transpose(by_key, [0, 1, 3, 2]))
    return tf.add_n(parts)


def _skewed(x: tf.Tensor) -> tf.Tensor:
    """[B, H, T, 2 T - 1] -> [B, H, T, T]: element j of row i is element j - i + T - 1 of that row."""
    rows, heads, width = (size_of(x, axis) for axis in range(3))
    x = tf.reshape(tf.pad(x, [[0, 0], [0, 0], [0, 0], [0, 1]]), [rows, heads, 2 * width * width])
    x = x[:, :, width - 1 : width - 1 + width * (2 * width - 1)]
    return tf.reshape(x, [rows, heads, width, 2 * width - 1])[..., :width]

"""Attention scores by the distance of two tokens.

Of a learned number for each distance and each head (Raffel et al. 2020, 2.1), as MPNet has it: distances up to 7 have
a number each, larger ones share some. Or of vectors, as DeBERTa and XLNet have them.
B rows, T positions in a row, H heads, K size of one head.
"""

import functools
import math

import numpy as np
import tensorflow as tf

from bert_tf.model.batch_layout import size_of

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


def position_scores(
    query: tf.Tensor, key: tf.Tensor, position_query: tf.Tensor | None, position_key: tf.Tensor | None
) -> tf.Tensor:
    """Bias of scores by the distance of two tokens: [B, H, T, T].

    query, key: [B, H, T, K]. position_query, position_key: [H, 2 T - 1, K], of the distances query - key in ascending
    order, scaled; None: the key, or the query, does not look at positions.
    """
    parts = []
    if position_key is not None:
        parts.append(_skewed(tf.matmul(query, position_key[:, ::-1], transpose_b=True)))
    if position_query is not None:
        by_key = _skewed(tf.matmul(key, position_query, transpose_b=True))
        parts.append(tf.transpose(by_key, [0, 1, 3, 2]))
    return tf.add_n(parts)


def _skewed(x: tf.Tensor) -> tf.Tensor:
    """[B, H, T, 2 T - 1] -> [B, H, T, T], where number j of row i is number j - i + T - 1 of that row."""
    rows, heads, width = (size_of(x, axis) for axis in range(3))
    x = tf.reshape(tf.pad(x, [[0, 0], [0, 0], [0, 0], [0, 1]]), [rows, heads, 2 * width * width])
    x = x[:, :, width - 1 : width - 1 + width * (2 * width - 1)]
    return tf.reshape(x, [rows, heads, width, 2 * width - 1])[..., :width]

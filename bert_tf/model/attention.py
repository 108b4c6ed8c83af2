"""Scaled dot-product attention and its masks.

B rows, T positions in a row, H heads, K size of one head.
"""

from collections.abc import Callable

import tensorflow as tf

from bert_tf.model import fused_ops
from bert_tf.runtime import backend

MASK_BIAS = -10000.0  # added to scores of masked positions, whose probability becomes exactly zero


def dot_product_attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    mask: tf.Tensor,
    *,
    scale: float,
    dropout: Callable[[tf.Tensor], tf.Tensor] | None = None,
    training: bool = False,
    scale_scores: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2.1).

    Each query is compared with every key of its row; the softmax of these scores weights the values. Layers, exports
    and `functional_bert` all compute attention here, so replacing this function is enough to use another kernel.

    Args:
        query: [B, H, T, K].
        key: [B, H, T, K].
        value: [B, H, T, K].
        mask: [B, 1, 1 or T, T], added to the scores: MASK_BIAS for keys (last axis) hidden from a query (third axis),
            else 0. See `padding_mask` and `packing_mask`.
        scale: factor for the scores, usually 1 / sqrt(K).
        dropout: applied to the probabilities before they weight the values; None for none.
        training: whether a gradient will be computed.
        scale_scores: multiply the scores by `scale` rather than the queries, which are smaller. Converters to other
            engines look for a product, a scale, a mask and a softmax in this order.

    Returns:
        The context [B, H, T, K] and the probabilities before dropout [B, H, T, T].
    """
    if scale_scores:
        scores = tf.matmul(query, key, transpose_b=True) * scale
    else:
        scores = tf.matmul(query * scale, key, transpose_b=True)
    probabilities = softmax(scores + mask, training)
    return tf.matmul(dropout(probabilities) if dropout else probabilities, value), probabilities


def softmax(scores: tf.Tensor, training: bool) -> tf.Tensor:  # [..., T] -> [..., T]
    """Softmax in float32: oneDNN's bfloat16 softmax already computes that way, its gradient does not."""
    if scores.dtype == tf.bfloat16 and not training:
        return tf.nn.softmax(scores)
    if training and backend.platform() != "cpu":
        return fused_ops.softmax(scores)
    return tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), scores.dtype)


def padding_mask(
    lengths: tf.Tensor,
    width: tf.Tensor | int,
    *,
    text_mask: tf.Tensor | None = None,
    is_causal: bool = False,
    dtype: str = "float32",
) -> tf.Tensor:
    """The mask [B, 1, 1 or T, T] for rows of `width` positions whose first `lengths` [B] contain a text.

    text_mask: int32 [B, T], 0 on other positions hidden from all queries.
    """
    hidden = tf.reshape(tf.range(width), [1, 1, 1, -1]) >= tf.reshape(lengths, [-1, 1, 1, 1])
    return _mask(hidden, width, text_mask, is_causal, dtype)


def packing_mask(
    text_numbers: tf.Tensor,
    width: tf.Tensor | int,
    *,
    text_mask: tf.Tensor | None = None,
    is_causal: bool = False,
    dtype: str = "float32",
) -> tf.Tensor:
    """The mask [B, 1, T, T] for rows with several texts that do not see each other.

    text_numbers: [B, T], 1, 2, ... by text, 0 on padding. text_mask: as in `padding_mask`.
    """
    hidden = text_numbers[:, None, :, None] != text_numbers[:, None, None, :]
    return _mask(hidden, width, text_mask, is_causal, dtype)


def _mask(
    hidden: tf.Tensor, width: tf.Tensor | int, text_mask: tf.Tensor | None, is_causal: bool, dtype: str
) -> tf.Tensor:
    """The mask of hidden keys (last axis), bool [B, 1, 1 or T, T], including `text_mask` and later keys."""
    if text_mask is not None:
        hidden |= text_mask[:, None, None, :] == 0
    if is_causal:
        positions = tf.range(width)
        hidden |= tf.reshape(positions, [1, 1, 1, -1]) > tf.reshape(positions, [1, 1, -1, 1])
    return tf.cast(hidden, dtype) * tf.cast(MASK_BIAS, dtype)

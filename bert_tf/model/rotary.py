"""Attention with rotary positions, global or within a window, and gated feed-forward: parts of newer encoders.

B rows, T positions in a row, N = B * T, D hidden size, H heads, K size of one head, I intermediate size.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model import attention, fused_ops
from bert_tf.model.batch_layout import BatchLayout, size_of
from bert_tf.model.layers import ConfiguredLayer, SelfAttention, activate
from bert_tf.runtime import backend

QUERIES_AT_ONCE = 512  # in global attention, for rows longer than twice this


def rotate(x: tf.Tensor, positions: tf.Tensor, theta: float) -> tf.Tensor:
    """Rotates each pair of dimensions k and k + K / 2 by an angle proportional to the position (Su et al. 2021).

    The product of two rotated vectors depends only on the distance of their positions.

    x: [B, H, T, K]. positions: int32 [B or 1, T]. theta: the angle at position p is p / theta ** (2 k / K).
    """
    half = x.shape[-1] // 2
    speeds = tf.constant([1 / theta ** (k / half) for k in range(half)], tf.float32)
    angles = (tf.cast(positions, tf.float32)[..., None] * speeds)[:, None]  # [B or 1, 1, T, K / 2]
    cos, sin = tf.cos(angles), tf.sin(angles)
    first, second = tf.split(tf.cast(x, tf.float32), 2, -1)
    return tf.cast(tf.concat([first * cos - second * sin, second * cos + first * sin], -1), x.dtype)


def window_mask(positions: tf.Tensor, reach: int, dtype: str) -> tf.Tensor:
    """The mask [B or 1, 1, T, T] for tokens at positions [B or 1, T] that see others up to `reach` away."""
    far = tf.abs(positions[:, None, :, None] - positions[:, None, None, :]) > reach
    return tf.cast(far, dtype) * tf.cast(attention.MASK_BIAS, dtype)


def windowed_attention(
    query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, numbers: tf.Tensor, positions: tf.Tensor, *, reach: int,
    scale: float, training: bool,
) -> tf.Tensor:  # fmt: skip
    """Attention within a window in blocks, so that work and memory are proportional to T: [B, H, T, K].

    2 * reach queries see the 4 * reach keys around them; a mask hides those too far away or in another text.

    query, key, value: [B, H, T, K]. numbers: int32 [B, T], each token's text number. positions: int32 [B or 1, T].
    """
    rows, heads, width, size = (size_of(query, axis) for axis in range(4))
    blocks = -(-width // (2 * reach))
    after = 2 * reach * blocks - width

    def queries(x: tf.Tensor, axis: int) -> tf.Tensor:  # [..., T, ...] -> [..., blocks, 2 * reach, ...]
        pads = [[0, after] if each == axis else [0, 0] for each in range(len(x.shape))]
        shape = [*tf.unstack(tf.shape(x)[:axis]), blocks, 2 * reach, *x.shape[axis + 1 :]]
        return tf.reshape(tf.pad(x, pads), shape)

    def keys(x: tf.Tensor, axis: int, padding: int = 0) -> tf.Tensor:  # -> [..., blocks, 4 * reach, ...]
        pads = [[reach, after + reach] if each == axis else [0, 0] for each in range(len(x.shape))]
        shape = [*tf.unstack(tf.shape(x)[:axis]), blocks + 1, 2 * reach, *x.shape[axis + 1 :]]
        x = tf.reshape(tf.pad(x, pads, constant_values=padding), shape)
        left, right = (tf.gather(x, tf.range(first, first + blocks), axis=axis) for first in (0, 1))
        return tf.concat([left, right], axis + 1)

    scores = tf.matmul(queries(query * scale, 2), keys(key, 2), transpose_b=True)  # [B, H, blocks, 2 r, 4 r]
    hidden = queries(numbers, 1)[..., None] != keys(numbers, 1, -1)[..., None, :]
    hidden |= tf.abs(queries(positions, 1)[..., None] - keys(positions, 1)[..., None, :]) > reach
    mask = tf.cast(hidden, scores.dtype) * tf.cast(attention.MASK_BIAS, scores.dtype)
    context = tf.matmul(attention.softmax(scores + mask[:, None], training), keys(value, 2))
    return tf.reshape(context, [rows, heads, 2 * reach * blocks, size])[:, :, :width]


def blockwise_attention(
    query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, numbers: tf.Tensor, *, scale: float
) -> tf.Tensor:
    """Attention for a block of queries at a time, so that memory is proportional to T, also in the backward pass.

    The backward pass recomputes the probabilities (Rabe & Staats 2021, arXiv:2112.05682). Same arguments and result as
    `windowed_attention`.
    """
    width = size_of(query, 2)
    blocks = -(-width // QUERIES_AT_ONCE)

    def probabilities(query: tf.Tensor, key: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
        scores = tf.matmul(query * scale, key, transpose_b=True)
        hidden = numbers[:, None, first : first + QUERIES_AT_ONCE, None] != numbers[:, None, None, :]
        return attention.softmax(scores + tf.cast(hidden, scores.dtype) * attention.MASK_BIAS, False)

    def in_blocks(
        compute: Callable[[tf.Tensor], tuple[tf.Tensor, ...]], sums: tuple[tf.Tensor, ...]
    ) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        """compute(first) -> a block [B, H, up to QUERIES_AT_ONCE, K] and the terms to add to the sums."""

        def step(number: tf.Tensor, array: tf.TensorArray, *sums: tf.Tensor) -> tuple[Any, ...]:
            block, *more = compute(number * QUERIES_AT_ONCE)
            array = array.write(number, tf.transpose(block, [2, 0, 1, 3]))
            return number + 1, array, *(total + each for total, each in zip(sums, more, strict=True))

        array = tf.TensorArray(query.dtype, blocks, infer_shape=False)
        _, array, *sums = tf.while_loop(
            lambda number, *_: number < blocks, step, (0, array, *sums), parallel_iterations=1
        )
        return tf.reshape(tf.transpose(array.concat(), [1, 2, 0, 3]), tf.shape(query)), tuple(sums)

    @fused_ops.with_gradient
    def attend(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, Any]:
        def forward(first: tf.Tensor) -> tuple[tf.Tensor, ...]:
            return (tf.matmul(probabilities(query[:, :, first : first + QUERIES_AT_ONCE], key, first), value),)

        def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            def slopes(first: tf.Tensor) -> tuple[tf.Tensor, ...]:
                some, slope = (x[:, :, first : first + QUERIES_AT_ONCE] for x in (query, upstream))
                weights = probabilities(some, key, first)  # [B, H, Q, T]
                inner = tf.matmul(slope, value, transpose_b=True)
                inner = weights * (inner - tf.reduce_sum(inner * weights, -1, keepdims=True)) * scale
                of_key, of_value = (tf.matmul(x, y, transpose_a=True) for x, y in ((inner, some), (weights, slope)))
                return tf.matmul(inner, key), of_key, of_value

            of_query, (of_key, of_value) = in_blocks(slopes, (tf.zeros_like(key), tf.zeros_like(value)))
            return of_query, of_key, of_value

        return in_blocks(forward, ())[0], backward

    return attend(query, key, value)


class RotaryAttention(SelfAttention):
    """SelfAttention with rotary positions.

    Args:
        theta: base of the rotation, see `rotate`.
        reach: maximum distance of a visible token; None: unlimited.
    """

    def __init__(
        self, config: BertConfig | dict, stream: str, *, theta: float, reach: int | None = None, **options: Any
    ):
        super().__init__(config, stream, **options)
        self.theta, self.reach = theta, reach

    def queries(self, x: tf.Tensor, layout: BatchLayout) -> list[tf.Tensor]:
        query, key, value = super().queries(x, layout)
        return [*(rotate(each, layout.positions, self.theta) for each in (query, key)), value]

    def attend(
        self, query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, layout: BatchLayout
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Like SelfAttention; long rows are computed in blocks, without probabilities."""

        def whole() -> tuple[tf.Tensor, tf.Tensor]:
            rows = layout
            if self.reach is not None:
                mask = layout.mask + window_mask(layout.positions, self.reach, layout.mask.dtype)
                rows = dataclasses.replace(layout, mask=mask)
            return super(RotaryAttention, self).attend(query, key, value, rows)

        if layout.shows_attention or (layout.training and self.dropout.rate):
            return whole()
        options: dict[str, Any] = {"scale": self.scale}
        if self.reach is not None:
            options |= {"positions": layout.positions, "reach": self.reach, "training": layout.training}
        elif backend.platform() != "cpu":
            return whole()
        longest = 2 * QUERIES_AT_ONCE if self.reach is None else 4 * self.reach
        function: Callable[..., tf.Tensor] = blockwise_attention if self.reach is None else windowed_attention

        def in_blocks() -> tf.Tensor:
            return function(query, key, value, layout.text_numbers, **options)

        width = query.shape[2]
        if width is not None:
            return whole() if width <= longest else (in_blocks(), None)
        context = tf.cond(layout.width > longest, in_blocks, lambda: whole()[0])
        return tf.ensure_shape(context, query.shape), None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "theta": self.theta, "reach": self.reach}


class GatedFeedForward(ConfiguredLayer):
    """Gated feed-forward: contract(activation(a) * b), where [a, b] = expand(x) (Shazeer 2020, GeGLU, SwiGLU).

    dropout: rate before the contraction.
    """

    def __init__(self, config: BertConfig | dict, stream: str, dropout: float = 0.0, **options: Any):
        super().__init__(config, **options)
        narrow, wide = self.config.hidden_size, self.config.intermediate_size
        has_bias = self.config.encoder_traits.has_layer_biases
        self.expand = self.new_dense(narrow, 2 * wide, has_bias=has_bias)
        self.dropout = self.new_dropout(dropout, stream)
        self.contract = self.new_dense(wide, narrow, has_bias=has_bias)
        self.built = True

    def call(self, x: tf.Tensor, *, layout: BatchLayout) -> tf.Tensor:
        """Maps [N, D] to [N, D]."""
        x, gate = tf.split(self.expand(x, needs_gradient=layout.training), 2, -1)  # [N, I] each
        x = activate(x, self.config.hidden_act, layout.training) * gate
        return self.contract(self.dropout(x, seed=layout.seed), needs_gradient=layout.training)


def with_positions(layout: BatchLayout, inputs: Mapping[str, tf.Tensor]) -> BatchLayout:
    """The layout with each token's position in its text: from packed texts, or 0, 1, ... in every row."""
    positions = inputs["positions"] if "text_numbers" in inputs else tf.range(layout.width)[None]
    return dataclasses.replace(layout, positions=positions)

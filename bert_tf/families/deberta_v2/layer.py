"""DeBERTa-v2 and -v3: attention by content and by relative position, each with its own vectors (He et al. 2021).

transformers: `DebertaV2Model`. v3 (He et al. 2023) is v2 trained to find replaced tokens.
B rows, T positions in a row, N = B * T, D hidden size, H heads, K size of one head, R relative positions.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.families.bert.layer import BertEncoder
from bert_tf.model import attention, functional_bert
from bert_tf.model.batch_layout import BatchLayout, gather_tokens, size_of
from bert_tf.model.heads import LogitsHead
from bert_tf.model.layers import ConfiguredLayer, Dense, LayerNorm, SelfAttention, TransformerLayer, activate
from bert_tf.model.relative_bias import position_scores


@functools.cache
def rows_by_distance(buckets: int, most: int, longest: int) -> np.ndarray:
    """The row of the relative position table for each distance query - key, int32 [2 * longest + 1].

    buckets: distances up to half of this have a row each, larger ones share rows by their logarithm; 0: all have their
        own. most: all distances from this one on are treated alike. longest: distances range from -longest to longest.
    """
    distances = np.arange(-longest, longest + 1)
    span, size = buckets or most, np.abs(distances).astype(np.float32)
    middle = np.float32(buckets // 2)
    if buckets:
        share = np.log(np.maximum(size, middle) / middle) / np.log(np.float32((most - 1) / (buckets // 2)))
        size = np.where(size <= middle, size, np.ceil(share * (middle - 1)) + middle)
    return np.clip(np.sign(distances) * size.astype(np.int32) + span, 0, 2 * span - 1).astype(np.int32)


def rows_of_width(config: BertConfig, width: tf.Tensor | int) -> tuple[Any, Any, Any]:
    """The first and the last row of the table needed for rows of `width` tokens, and [2 * width - 1] rows by distance.

    The latter are numbered from the first, for the distances query - key in ascending order.
    """
    settings, longest = config.settings, config.max_position_embeddings
    table = rows_by_distance(settings["position_buckets"], settings["max_relative_positions"], longest)
    if isinstance(width, int):
        rows = table[np.clip(np.arange(1 - width, width), -longest, longest) + longest]
    else:
        rows = tf.gather(table, tf.clip_by_value(tf.range(1 - width, width), -longest, longest) + longest)
    return rows[0], rows[-1], rows - rows[0]


class DisentangledAttention(SelfAttention):
    """SelfAttention whose scores also compare queries and keys with relative position vectors (section 3.1)."""

    position_key: Dense | None = None
    position_query: Dense | None = None

    def __init__(self, config: BertConfig | dict, stream: str, **options: Any):
        super().__init__(config, stream, **options)
        width, settings = self.config.hidden_size, self.config.settings
        self.kinds = settings["pos_att_type"].split("|")
        self.scale = 1 / math.sqrt(self.config.head_size * (1 + len(self.kinds)))
        self.position_dropout = self.new_dropout(self.config.hidden_dropout_prob, f"{stream}/positions")
        if not settings["share_att_key"] and "c2p" in self.kinds:
            self.position_key = self.new_dense(width, width)
        if not settings["share_att_key"] and "p2c" in self.kinds:
            self.position_query = self.new_dense(width, width)

    def attend(
        self, query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, layout: BatchLayout
    ) -> tuple[tf.Tensor, tf.Tensor]:
        vectors = self.position_dropout(layout.distance_vectors, seed=layout.seed)  # [R, D]
        if self.config.settings["share_att_key"]:
            projected = self.query_key_value(vectors, needs_gradient=layout.training)
            position_query, position_key, _ = tf.split(projected, 3, -1)
        else:
            position_query, position_key = (
                dense and dense(vectors, needs_gradient=layout.training)
                for dense in (self.position_query, self.position_key)
            )

        def by_distance(x: tf.Tensor) -> tf.Tensor:  # [R, D] -> [H, 2 T - 1, K]
            x = tf.reshape(x * self.scale, [-1, layout.heads, self.config.head_size])
            return tf.transpose(tf.gather(x, layout.distances), [1, 0, 2])

        bias = position_scores(
            query,
            key,
            by_distance(position_query) if "p2c" in self.kinds else None,
            by_distance(position_key) if "c2p" in self.kinds else None,
        )
        return super().attend(query, key, value, dataclasses.replace(layout, bias=bias))


class Convolution(ConfiguredLayer):
    """Convolution over each token and its neighbors, added to the output of the first layer and normalized."""

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        width, size = self.config.hidden_size, self.config.settings["conv_kernel_size"]
        self.kernel = self.add_weight(name="kernel", shape=(size, width, width), initializer=self.initializer())
        self.bias = self.add_weight(name="bias", shape=(width,), initializer="zeros")
        self.dropout = self.new_dropout(self.config.hidden_dropout_prob, "convolution")
        self.norm = self.new_norm()
        self.built = True

    def call(self, x: tf.Tensor, y: tf.Tensor, *, layout: BatchLayout) -> tf.Tensor:
        """x, y: the input and the output [N, D] of the layer."""
        x = convolved(layout.as_rows(x), layout.text_numbers, self.kernel.value) + self.bias.value
        x = self.dropout(tf.reshape(x, tf.shape(y)), seed=layout.seed)
        return self.norm(y + activate(x, self.config.settings["conv_act"], layout.training))


def convolved(x: tf.Tensor, numbers: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Sums of neighbors [B, T, D], each multiplied by its part of the kernel [size, D, D].

    numbers: int32 [B, T], the text of each token, 0 for none; a token has neighbors only in its own text.
    """
    half, width = kernel.shape[0] // 2, size_of(x, 1)
    wide, wide_numbers = tf.pad(x, [[0, 0], [half, half], [0, 0]]), tf.pad(numbers, [[0, 0], [half, half]])
    parts = []
    for place in range(kernel.shape[0]):
        is_neighbor = tf.cast(wide_numbers[:, place : place + width] == numbers, x.dtype)[..., None]
        parts.append(tf.matmul(wide[:, place : place + width] * is_neighbor, kernel[place]))
    return tf.add_n(parts)


class Layer(TransformerLayer):
    """A TransformerLayer with this attention, and in some models the encoder's convolution after the first layer."""

    _convolution: Convolution | None = None  # with an underscore: its weights are the encoder's

    def new_attention(self, stream: str) -> DisentangledAttention:
        """Attention with relative positions."""
        return DisentangledAttention(self.config, stream, dtype=self.dtype_policy)

    def call(
        self, x: tf.Tensor, *, layout: BatchLayout, indices: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if self._convolution is None:
            return super().call(x, layout=layout, indices=indices)
        y, probabilities = super().call(x, layout=layout)
        return gather_tokens(self._convolution(x, y, layout=layout), indices), probabilities


class ReplacedTokenHead(ConfiguredLayer):
    """Distinguishes replaced tokens from original ones (microsoft/DeBERTa `LMMaskPredictionHead`)."""

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self.norm = self.new_norm()
        self.transform = self.new_dense(self.config.hidden_size, self.config.hidden_size, self.config.hidden_act)
        self.output_layer = LogitsHead(self.config, 1, dtype=self.dtype_policy)
        self.built = True

    def call(self, tokens: tf.Tensor) -> tf.Tensor:
        """Tokens [B, T, D] -> float32 [B, T], above 0: replaced."""
        x = self.norm(tf.reshape(tokens + tokens[:, :1], [-1, self.config.hidden_size]))
        return tf.reshape(self.output_layer(self.transform(x)), [-1, size_of(tokens, 1)])


@functional_bert.on_rows
def encode_functionally(params: functional_bert.Tensors, config: BertConfig, inputs: functional_bert.Tensors) -> Any:
    """The tokens [B, T, D] of the last layer in the textbook form, see `functional_bert`."""
    shape = tf.unstack(tf.shape(inputs["token_ids"]))
    width, settings = shape[1], config.settings
    x = functional_bert.embed(params, config, inputs, width)
    mask = functional_bert.mask_of(inputs, width)
    vectors = params["encoder/relative_table"]
    if settings["norm_rel_ebd"] == "layer_norm":
        vectors = functional_bert.layer_norm(vectors, params, "encoder/relative_norm", config)
    first, _, distances = rows_of_width(config, width)
    vectors = tf.gather(vectors, distances + first)  # [2 T - 1, D]
    kinds, size = settings["pos_att_type"].split("|"), config.head_size
    scale = 1 / math.sqrt(size * (1 + len(kinds)))

    def heads(x: tf.Tensor, name: str) -> tf.Tensor:  # [..., T, D] -> [..., H, T, K]
        values = functional_bert.dense(x, params, name)
        if len(x.shape) == 2:
            return tf.transpose(tf.reshape(values, [-1, config.num_attention_heads, size]), [1, 0, 2])
        return tf.transpose(tf.reshape(values, [*shape, config.num_attention_heads, size]), [0, 2, 1, 3])

    for number in range(config.num_hidden_layers):
        name = f"encoder/layers/{number}"
        query, key, value = (heads(x, f"{name}/attention/{part}") for part in ("query", "key", "value"))
        prefix = f"{name}/attention/{'' if settings['share_att_key'] else 'position_'}"
        by_query = heads(vectors, f"{prefix}query") * scale if "p2c" in kinds else None
        by_key = heads(vectors, f"{prefix}key") * scale if "c2p" in kinds else None
        bias = mask + position_scores(query, key, by_query, by_key)
        context, _ = attention.dot_product_attention(query, key, value, bias, scale=scale, scale_scores=True)
        context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [*shape, config.hidden_size])
        y = x + functional_bert.dense(context, params, f"{name}/attention/project_out")
        y = functional_bert.layer_norm(y, params, f"{name}/attention_norm", config)
        y = y + functional_bert.feed_forward(y, params, name, config)
        y = functional_bert.layer_norm(y, params, f"{name}/feed_forward_norm", config)
        if number == 0 and settings["conv_kernel_size"]:
            is_alone = "text_numbers" not in inputs
            numbers = tf.sequence_mask(inputs["lengths"], width, tf.int32) if is_alone else inputs["text_numbers"]
            near = convolved(x, numbers, params["encoder/convolution/kernel"]) + params["encoder/convolution/bias"]
            y += functional_bert.activation(near, settings["conv_act"])
            y = functional_bert.layer_norm(y, params, "encoder/convolution/norm", config)
        x = y
    return x


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder with these layers and without segments; the pooler of classifiers has a GELU."""

    layer_class = Layer
    replaced_token_head = ReplacedTokenHead
    functional_encode = staticmethod(encode_functionally)
    relative_norm: LayerNorm | None = None

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        settings = self.config.settings
        buckets, most = settings["position_buckets"], settings["max_relative_positions"]
        if buckets and not 0 < buckets // 2 < most - 1:
            raise UserError(
                f"position_buckets is {buckets} in the configuration, and max_relative_positions {most}; expected 2 or "
                "more buckets, and positions beyond half of them."
            )
        rows = 2 * (buckets or most)
        self.relative_table = self.new_table("relative_table", rows)
        if settings["norm_rel_ebd"] == "layer_norm":
            self.relative_norm = self.new_norm()
        if settings["conv_kernel_size"]:
            self.convolution = Convolution(self.config, dtype=self.dtype_policy)
            for layer in self.layers[:1]:
                layer._convolution = self.convolution

    @property
    def embedding_options(self) -> Mapping[str, bool]:
        """No segments; positions only in some models."""
        return {"has_segments": False, "has_positions": self.config.settings["position_biased_input"]}

    def layout(self, inputs: Mapping[str, tf.Tensor], seed: tf.Tensor | None = None) -> BatchLayout:
        layout = super().layout(inputs, seed)
        first, last, distances = rows_of_width(self.config, layout.width)
        vectors = tf.cast(self.relative_table.value, self.compute_dtype)
        vectors = self.relative_norm(vectors) if self.relative_norm else vectors
        return dataclasses.replace(layout, distance_vectors=vectors[first : last + 1], distances=distances)

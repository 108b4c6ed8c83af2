"""XLNet's content stream, for fine-tuning: attention by relative position and segment (Yang et al. 2019).

transformers: `XLNetModel`. Its rows end in <cls>, which relates to a text only by its segment and distances; rows here
begin with it, like BERT's. The encoder moves it behind the text and back, so both orders produce XLNet's vectors.
B rows, T positions in a row, N = B * T, D hidden size, H heads, K size of one head.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Unpack

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.families.bert.layer import BertEncoder
from bert_tf.model import attention, functional_bert
from bert_tf.model.base_encoder import Asked
from bert_tf.model.batch_layout import BatchLayout, ends_of_turned_rows, size_of
from bert_tf.model.layers import FeedForward, SelfAttention, TransformerLayer
from bert_tf.model.packing import POSITION_INPUTS
from bert_tf.model.relative_bias import position_scores

OWN_SEGMENT = -1  # for <cls>


def sinusoids_by_distance(width: tf.Tensor | int, size: int) -> tf.Tensor:
    """Vectors for the distances query - key in rows of `width`, in ascending order: float32 [2 * width - 1, size]."""
    frequencies = 1 / np.power(np.float32(10000), np.arange(0, size, 2, dtype=np.float32) / np.float32(size))
    angles = tf.cast(tf.range(1 - width, width), tf.float32)[:, None] * frequencies
    return tf.concat([tf.sin(angles), tf.cos(angles)], -1)


def turns(inputs: Mapping[str, tf.Tensor], cls_id: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The source of each position in XLNet's rows, and the position there of each token, int32 [B, T]; and moved <cls>.

    The latter, bool [B, T], marks <cls> in XLNet's rows if it came first in a row.
    """
    places = tf.range(size_of(inputs["token_ids"], 1))[None]
    first, last, is_turned = (x[:, None] for x in ends_of_turned_rows(inputs, cls_id))
    is_inside = is_turned & (places >= first) & (places <= last)
    is_last = is_inside & tf.equal(places, last)
    sources = tf.where(is_last, first, tf.where(is_inside, places + 1, places))
    targets = tf.where(is_inside & tf.equal(places, first), last, tf.where(is_inside, places - 1, places))
    return sources, targets, is_last


def turned(inputs: Mapping[str, tf.Tensor], config: BertConfig) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """The inputs in the order of XLNet's rows, and the position there of each token, int32 [B, T]."""
    sources, targets, is_cls = turns(inputs, config.settings["cls_token_id"])
    rows = {name: tf.gather(inputs[name], sources, batch_dims=1) for name in POSITION_INPUTS if name in inputs}
    if config.settings["cls_has_segment"]:
        rows["segment_ids"] = tf.where(is_cls, OWN_SEGMENT, rows["segment_ids"])
    return {**inputs, **rows}, targets


def other_segments(segment_ids: tf.Tensor, dtype: Any) -> tf.Tensor:
    """[B, 1, T, T]: 1 if the key (last axis) and the query have different segments, else 0."""
    return tf.cast(segment_ids[:, None, :, None] != segment_ids[:, None, None, :], dtype)


class RelativeAttention(SelfAttention):
    """SelfAttention whose scores also compare queries with distances and segments, each with its own bias."""

    def __init__(self, config: BertConfig | dict, stream: str, **options: Any):
        super().__init__(config, stream, **options)
        width = self.config.hidden_size
        self.position_key = self.new_dense(width, width, has_bias=False)
        for name in ("content_bias", "position_bias", "segment_bias"):
            setattr(self, name, self.add_weight(name=name, shape=(width,), initializer=self.initializer()))
        self.segment_table = self.new_table("segment_table", 2)  # for the same segment, and for a different one

    def attend(
        self, query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, layout: BatchLayout
    ) -> tuple[tf.Tensor, tf.Tensor]:
        distances = self.position_key(layout.distance_vectors, needs_gradient=layout.training)

        def heads(x: tf.Tensor) -> tf.Tensor:  # [..., D] -> [H, ..., K]
            return split(tf.cast(x, query.dtype), self.config)

        bias = relative_scores(
            query,
            heads(distances),
            heads(self.position_bias.value),
            heads(self.segment_bias.value),
            heads(self.segment_table.value),
            layout.other_segments,
        )
        content = query + heads(self.content_bias.value)[:, None]
        return super().attend(content, key, value, dataclasses.replace(layout, bias=bias * self.scale))


def split(x: tf.Tensor, config: BertConfig) -> tf.Tensor:
    """[D] -> [H, K], or [R, D] -> [H, R, K]."""
    if len(x.shape) == 1:
        return tf.reshape(x, [config.num_attention_heads, config.head_size])
    return tf.transpose(tf.reshape(x, [-1, config.num_attention_heads, config.head_size]), [1, 0, 2])


def relative_scores(
    query: tf.Tensor,
    distances: tf.Tensor,
    position_bias: tf.Tensor,
    segment_bias: tf.Tensor,
    segments: tf.Tensor,
    others: tf.Tensor,
) -> tf.Tensor:
    """Scores [B, H, T, T] by distance and by segment, not scaled.

    A score shared by all keys of a query changes nothing, so only the difference between the two segments counts.

    query: [B, H, T, K]. distances: [H, 2 T - 1, K]. biases: [H, K]. segments: [H, 2, K]. others: see other_segments.
    """
    by_distance = position_scores(query + position_bias[:, None], query, None, distances)
    difference = (segments[:, 1] - segments[:, 0])[:, :, None]  # [H, K, 1]
    return by_distance + tf.matmul(query + segment_bias[:, None], difference) * others


class WideDropout(FeedForward):
    """FeedForward with dropout between its layers. stream: the dropout's random stream."""

    def __init__(self, config: BertConfig | dict, stream: str, **options: Any):
        super().__init__(config, **options)
        self.dropout = self.new_dropout(self.config.hidden_dropout_prob, stream)

    def call(self, x: tf.Tensor, *, layout: BatchLayout) -> tf.Tensor:
        x = self.dropout(self.expand(x, needs_gradient=layout.training), seed=layout.seed)
        return self.contract(x, needs_gradient=layout.training)


class Layer(TransformerLayer):
    """A TransformerLayer with these parts."""

    def new_attention(self, stream: str) -> RelativeAttention:
        """Attention with distances and segments."""
        return RelativeAttention(self.config, stream, dtype=self.dtype_policy)

    def new_feed_forward(self) -> WideDropout:
        """A feed-forward layer with dropout inside."""
        return WideDropout(self.config, f"layers/{self.number}/feed_forward/wide", dtype=self.dtype_policy)


def encode_functionally(params: functional_bert.Tensors, config: BertConfig, inputs: functional_bert.Tensors) -> Any:
    """The tokens [B, T, D] of the last layer in the textbook form, see `functional_bert`."""
    rows, targets = turned(inputs, config)
    return tf.gather(_encode_turned(params, config, rows), targets, batch_dims=1)


@functional_bert.on_rows
def _encode_turned(params: functional_bert.Tensors, config: BertConfig, rows: functional_bert.Tensors) -> Any:
    shape = tf.unstack(tf.shape(rows["token_ids"]))
    x = functional_bert.embed(params, config, rows, shape[1])
    mask = functional_bert.mask_of(rows, shape[1])
    vectors = sinusoids_by_distance(shape[1], config.hidden_size)
    others = other_segments(rows["segment_ids"], tf.float32)
    scale = 1 / math.sqrt(config.head_size)

    def heads(x: tf.Tensor, name: str) -> tf.Tensor:  # [B, T, D] -> [B, H, T, K]
        values = tf.reshape(functional_bert.dense(x, params, name), [*shape, config.num_attention_heads, -1])
        return tf.transpose(values, [0, 2, 1, 3])

    for number in range(config.num_hidden_layers):
        name = f"encoder/layers/{number}"
        query, key, value = (heads(x, f"{name}/attention/{part}") for part in ("query", "key", "value"))
        distances = functional_bert.dense(vectors, params, f"{name}/attention/position_key")
        own = [params[f"{name}/attention/{part}_bias"] for part in ("content", "position", "segment")]
        content, by_distance, by_segment = (split(tf.convert_to_tensor(each), config) for each in own)
        segments = split(tf.convert_to_tensor(params[f"{name}/attention/segment_table"]), config)
        bias = (
            relative_scores(query, split(distances, config), by_distance, by_segment, segments, others) * scale + mask
        )
        context, _ = attention.dot_product_attention(
            query + content[:, None], key, value, bias, scale=scale, scale_scores=True
        )
        context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [*shape, config.hidden_size])
        x = x + functional_bert.dense(context, params, f"{name}/attention/project_out")
        x = functional_bert.layer_norm(x, params, f"{name}/attention_norm", config)
        x = x + functional_bert.feed_forward(x, params, name, config)
        x = functional_bert.layer_norm(x, params, f"{name}/feed_forward_norm", config)
    return x


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder with these layers and only words in its embeddings; the vector at <cls> represents a text."""

    layer_class = Layer
    fills_probes = False  # which would get the tokens in a different order
    functional_encode = staticmethod(encode_functionally)

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self.position_dropout = self.new_dropout(self.config.hidden_dropout_prob, "positions")
        self.last_dropout = self.new_dropout(self.config.hidden_dropout_prob, "last")

    def encode(  # type: ignore[override]  # which also takes them as positional arguments
        self, inputs: Mapping[str, tf.Tensor], **asked: Unpack[Asked]
    ) -> dict[str, Any]:
        """Like BertEncoder, on texts in the order of XLNet's rows; outputs are in the order of the inputs.

        Raises ValueError for inputs with several texts in a row; `packing` packs them.
        """
        if "text_numbers" in inputs:
            raise ValueError("text_numbers is not supported by the encoder xlnet: pass one text per row, and packing.")
        rows, targets = turned(inputs, self.config)
        if asked["positions"] is not None:
            asked["positions"] = tf.gather(targets, asked["positions"], batch_dims=1)
        if asked["return_attention"]:
            asked["packing"] = None
        outputs = super().encode(rows, **asked)

        def back(x: tf.Tensor) -> tf.Tensor:  # [B, T, D]
            return tf.gather(x, targets[:, : size_of(x, 1)], batch_dims=1)

        if "tokens" in outputs:
            outputs["tokens"] = back(outputs["tokens"])
        if asked["return_hidden_states"]:
            outputs["hidden_states"] = tuple(map(back, outputs["hidden_states"]))
        if asked["return_attention"]:
            by_query = [back(tf.transpose(x, [0, 2, 3, 1])) for x in outputs["attention_probabilities"]]  # [B, T, T, H]
            both = (back(tf.transpose(x, [0, 2, 1, 3])) for x in by_query)  # by key and query
            outputs["attention_probabilities"] = tuple(tf.transpose(x, [0, 3, 2, 1]) for x in both)
        return outputs

    def layout(self, inputs: Mapping[str, tf.Tensor], seed: tf.Tensor | None = None) -> BatchLayout:
        """Like BertEncoder, with the distance vectors, and which tokens have different segments."""
        layout = super().layout(inputs, seed)
        vectors = tf.cast(sinusoids_by_distance(layout.width, self.config.hidden_size), self.compute_dtype)
        return dataclasses.replace(
            layout,
            distance_vectors=self.position_dropout(vectors, seed=seed),
            other_segments=other_segments(inputs["segment_ids"], self.compute_dtype),
        )

    def after_layers(self, x: tf.Tensor, layout: BatchLayout) -> tf.Tensor:
        return self.last_dropout(x, seed=layout.seed)

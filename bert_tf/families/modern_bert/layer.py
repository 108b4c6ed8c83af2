"""ModernBERT: rotary positions, alternating local and global attention, gated feed-forward (Warner et al. 2024).

transformers: `ModernBertModel`. Its head (dense, GELU, LayerNorm) is the pooler here, shared by all its heads.
"""

import functools
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.families.bert.layer import BertEncoder
from bert_tf.model import functional_bert
from bert_tf.model.batch_layout import BatchLayout
from bert_tf.model.layers import ConfiguredLayer, PreNormLayer
from bert_tf.model.rotary import GatedFeedForward, RotaryAttention, rotate, window_mask, with_positions


class Layer(PreNormLayer):
    """A PreNormLayer without a LayerNorm before the first attention, because one follows the embeddings."""

    def __init__(self, config: BertConfig | dict, number: int, **options: Any):
        super().__init__(config, number, **options)
        self.attention_dropout = self.new_dropout(
            self.config.attention_probs_dropout_prob, f"layers/{number}/attention"
        )
        self.feed_forward_dropout = self.new_dropout(0.0, f"layers/{number}/feed_forward")
        if number == 0:
            self.attention_norm = keras.layers.Identity(dtype=self.dtype_policy)

    def new_attention(self, stream: str) -> RotaryAttention:
        """Global attention in every n-th layer from the first, otherwise within a window."""
        settings = self.config.settings
        for name, least in (("local_attention", 2), ("global_attn_every_n_layers", 1)):
            if settings[name] < least:
                raise UserError(f"{name} is {settings[name]} in the configuration; expected {least} or more.")
        options = {"theta": settings["global_rope_theta"], "dtype": self.dtype_policy}
        if self.number % settings["global_attn_every_n_layers"]:
            options |= {"theta": settings["local_rope_theta"], "reach": settings["local_attention"] // 2}
        return RotaryAttention(self.config, stream, **options)

    def new_feed_forward(self) -> GatedFeedForward:
        """A gated feed-forward layer."""
        stream = f"layers/{self.number}/feed_forward/gated"
        return GatedFeedForward(self.config, stream, self.config.hidden_dropout_prob, dtype=self.dtype_policy)


class Head(ConfiguredLayer):
    """A dense layer, an activation and a LayerNorm."""

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        width = self.config.hidden_size
        self.dense = self.new_dense(width, width, self.config.hidden_act, has_bias=False)
        self.norm = self.new_norm()
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [N, D] to [N, D]."""
        return self.norm(self.dense(x))


@functional_bert.on_rows
def encode_functionally(params: functional_bert.Tensors, config: BertConfig, inputs: functional_bert.Tensors) -> Any:
    """The tokens [B, T, D] of the last layer in the textbook form, see `functional_bert`."""
    shape, settings = tf.unstack(tf.shape(inputs["token_ids"])), config.settings
    x, mask = functional_bert.embed(params, config, inputs, shape[1]), functional_bert.mask_of(inputs, shape[1])
    positions = tf.range(shape[1])[None]  # positions in the row: only distances count
    local = mask + window_mask(positions, settings["local_attention"] // 2, "float32")
    for number in range(config.num_hidden_layers):
        is_local = number % settings["global_attn_every_n_layers"] > 0
        theta = settings["local_rope_theta" if is_local else "global_rope_theta"]
        turn = functools.partial(rotate, positions=positions, theta=theta)
        rows = functional_bert.Rows(local if is_local else mask, shape, turn)
        x = functional_bert.pre_norm_layer(x, rows, params, f"encoder/layers/{number}", config)
    return functional_bert.layer_norm(x, params, "encoder/norm", config)


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder with these layers and this pooler."""

    layer_class = Layer
    functional_encode = staticmethod(encode_functionally)

    def new_pooler(self) -> Head:
        return Head(self.config, dtype=self.dtype_policy)

    def layout(self, inputs: Mapping[str, tf.Tensor], seed: tf.Tensor | None = None) -> BatchLayout:
        return with_positions(super().layout(inputs, seed), inputs)

"""ModernBERT: rotary positions, local and global attention in turn, gated feed-forward (Warner et al. 2024).

transformers: `ModernBertModel`. Its head (dense, GELU, LayerNorm) is the pooler here, which all its heads share.
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.families.bert.layer import BertEncoder
from bert_tf.model import functional_bert
from bert_tf.model.batch_layout import BatchLayout
from bert_tf.model.functional_bert import Tensors
from bert_tf.model.functional_rotary import attend, begin, gated
from bert_tf.model.layers import ConfiguredLayer, PreNormLayer
from bert_tf.model.rotary import GatedFeedForward, RotaryAttention, window_mask, with_positions


class Layer(PreNormLayer):
    """A PreNormLayer without a LayerNorm before the first attention, as that comes after the embeddings."""

    def __init__(self, config: BertConfig | dict, number: int, **options: Any):
        super().__init__(config, number, **options)
        self.attention_dropout = self.new_dropout(
            self.config.attention_probs_dropout_prob, f"layers/{number}/attention"
        )
        self.feed_forward_dropout = self.new_dropout(0.0, f"layers/{number}/feed_forward")
        if number == 0:
            self.attention_norm = keras.layers.Identity(dtype=self.dtype_policy)

    def new_attention(self, stream: str) -> RotaryAttention:
        """Global in every n-th layer from the first, else within a window."""
        settings = self.config.settings
        for name, least in (("local_attention", 2), ("global_attn_every_n_layers", 1)):
            if settings[name] < least:
                raise UserError(f"{name} is {settings[name]} in the configuration; expected {least} or more.")
        options = {"theta": settings["global_rope_theta"], "dtype": self.dtype_policy}
        if self.number % settings["global_attn_every_n_layers"]:
            options |= {"theta": settings["local_rope_theta"], "reach": settings["local_attention"] // 2}
        return RotaryAttention(self.config, stream, **options)

    def new_feed_forward(self) -> GatedFeedForward:
        """With a gate."""
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
def encode_functionally(params: Tensors, config: BertConfig, inputs: Tensors) -> tf.Tensor:  # -> [B, T, D]
    """The tokens of the last layer of a ModernBERT."""
    settings, (x, mask, positions) = config.settings, begin(params, config, inputs)
    local = mask + window_mask(positions, settings["local_attention"] // 2, "float32")
    for number in range(config.num_hidden_layers):
        name, is_local = f"encoder/layers/{number}", number % settings["global_attn_every_n_layers"] > 0
        theta = settings["local_rope_theta" if is_local else "global_rope_theta"]
        normal = functional_bert.layer_norm(x, params, f"{name}/attention_norm", config) if number else x
        x += attend(normal, local if is_local else mask, positions, params, name, config, theta)
        x += gated(functional_bert.layer_norm(x, params, f"{name}/feed_forward_norm", config), params, name, config)
    return functional_bert.layer_norm(x, params, "encoder/norm", config)


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder of these layers, with a LayerNorm after the last one; no positions or segments in its embeddings."""

    layer_class = Layer
    functional_encode = staticmethod(encode_functionally)

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self.norm = self.new_norm()

    def new_pooler(self) -> Head:
        return Head(self.config, dtype=self.dtype_policy)

    def after_layers(self, x: tf.Tensor, layout: BatchLayout) -> tf.Tensor:
        return self.norm(x)

    def layout(self, inputs: Mapping[str, tf.Tensor], seed: tf.Tensor | None = None) -> BatchLayout:
        return with_positions(super().layout(inputs, seed), inputs)

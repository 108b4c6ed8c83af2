"""NomicBERT: BERT with rotary positions and gated feed-forward without biases (Nussbaum et al. 2024).

transformers: `NomicBertModel`.
"""

import functools
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.families.bert.layer import BertEncoder
from bert_tf.model import functional_bert
from bert_tf.model.batch_layout import BatchLayout
from bert_tf.model.layers import TransformerLayer
from bert_tf.model.rotary import GatedFeedForward, RotaryAttention, rotate, with_positions


class Layer(TransformerLayer):
    """A TransformerLayer with these parts."""

    def new_attention(self, stream: str) -> RotaryAttention:
        """Attention with rotary positions."""
        theta = self.config.settings["rotary_emb_base"]
        return RotaryAttention(self.config, stream, theta=theta, dtype=self.dtype_policy)

    def new_feed_forward(self) -> GatedFeedForward:
        """A gated feed-forward layer."""
        return GatedFeedForward(self.config, f"layers/{self.number}/feed_forward/gated", dtype=self.dtype_policy)


@functional_bert.on_rows
def encode_functionally(params: functional_bert.Tensors, config: BertConfig, inputs: functional_bert.Tensors) -> Any:
    """The tokens [B, T, D] of the last layer in the textbook form, see `functional_bert`."""
    shape = tf.unstack(tf.shape(inputs["token_ids"]))
    x, mask = functional_bert.embed(params, config, inputs, shape[1]), functional_bert.mask_of(inputs, shape[1])
    positions, theta = tf.range(shape[1])[None], config.settings["rotary_emb_base"]  # only distances count
    rows = functional_bert.Rows(mask, shape, functools.partial(rotate, positions=positions, theta=theta))
    for number in range(config.num_hidden_layers):
        x = functional_bert.layer(x, rows, params, f"encoder/layers/{number}", config)
    return x


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder with these layers, without positions in its embeddings."""

    layer_class = Layer
    functional_encode = staticmethod(encode_functionally)

    def layout(self, inputs: Mapping[str, tf.Tensor], seed: tf.Tensor | None = None) -> BatchLayout:
        return with_positions(super().layout(inputs, seed), inputs)

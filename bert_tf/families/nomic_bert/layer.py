"""NomicBERT: BERT with rotary positions and gated feed-forward without biases (Nussbaum et al. 2024).

transformers: `NomicBertModel`.
"""

from collections.abc import Mapping

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.families.bert.layer import BertEncoder
from bert_tf.model import functional_bert
from bert_tf.model.batch_layout import BatchLayout
from bert_tf.model.functional_bert import Tensors
from bert_tf.model.functional_rotary import attend, begin, gated
from bert_tf.model.layers import TransformerLayer
from bert_tf.model.rotary import GatedFeedForward, RotaryAttention, with_positions


class Layer(TransformerLayer):
    """A TransformerLayer of these parts."""

    def new_attention(self, stream: str) -> RotaryAttention:
        """With rotary positions."""
        theta = self.config.settings["rotary_emb_base"]
        return RotaryAttention(self.config, stream, theta=theta, dtype=self.dtype_policy)

    def new_feed_forward(self) -> GatedFeedForward:
        """With a gate."""
        return GatedFeedForward(self.config, f"layers/{self.number}/feed_forward/gated", dtype=self.dtype_policy)


@functional_bert.on_rows
def encode_functionally(params: Tensors, config: BertConfig, inputs: Tensors) -> tf.Tensor:  # -> [B, T, D]
    """The tokens of the last layer of a NomicBERT."""
    x, mask, positions = begin(params, config, inputs)
    for number in range(config.num_hidden_layers):
        name, theta = f"encoder/layers/{number}", config.settings["rotary_emb_base"]
        x += attend(x, mask, positions, params, name, config, theta)
        x = functional_bert.layer_norm(x, params, f"{name}/attention_norm", config)
        x += gated(x, params, name, config)
        x = functional_bert.layer_norm(x, params, f"{name}/feed_forward_norm", config)
    return x


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder of these layers, without positions in its embeddings."""

    layer_class = Layer
    functional_encode = staticmethod(encode_functionally)

    def layout(self, inputs: Mapping[str, tf.Tensor], seed: tf.Tensor | None = None) -> BatchLayout:
        return with_positions(super().layout(inputs, seed), inputs)

"""NomicBERT: BERT with rotary positions and gated feed-forward without biases (Nussbaum et al. 2024).

transformers: `NomicBertModel`.
"""

from collections.abc import Mapping

import keras
import tensorflow as tf

from bert_tf.model.batch_layout import BatchLayout
from bert_tf.model.encoders.bert import BertEncoder
from bert_tf.model.functional_rotary import encode_nomic_bert
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


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder of these layers, without positions in its embeddings."""

    layer_class = Layer
    embedding_options = {"has_positions": False}
    functional_encode = staticmethod(encode_nomic_bert)

    def layout(self, inputs: Mapping[str, tf.Tensor], seed: tf.Tensor | None = None) -> BatchLayout:
        return with_positions(super().layout(inputs, seed), inputs)

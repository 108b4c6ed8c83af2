"""ALBERT: narrow embeddings, layers that share weights, sentence order prediction (Lan et al. 2019).

transformers: `AlbertModel`.
"""

import dataclasses

import keras
import tensorflow as tf

from bert_tf.model.batch_layout import BatchLayout
from bert_tf.model.encoders.bert import BertEncoder
from bert_tf.model.layers import TransformerLayer


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder whose embeddings a dense layer widens, with `num_hidden_groups` different layers."""

    embedding_options = {"is_projected": True}

    def layer_at(self, number: int, layout: BatchLayout) -> tuple[TransformerLayer, BatchLayout]:
        """The layer that is applied as that number; each application drops other numbers."""
        group = number * self.config.num_hidden_groups // self.config.num_hidden_layers
        if layout.seed is None:
            return self.layers[group], layout
        seed = tf.bitwise.bitwise_xor(layout.seed, tf.constant([0, number], tf.int32))
        return self.layers[group], dataclasses.replace(layout, seed=seed)

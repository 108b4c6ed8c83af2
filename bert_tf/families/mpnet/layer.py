"""MPNet: BERT with a relative position bias shared by all layers (Song et al. 2020; transformers `MPNetModel`).

It is pre-trained here with masked LM; its own permutation pre-training is not part of this package.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.families.bert.layer import BertEncoder
from bert_tf.model.batch_layout import BatchLayout
from bert_tf.model.relative_bias import BUCKETS, relative_bias


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder without segments, with a distance bias in its attention scores."""

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        shape = (BUCKETS, self.config.num_attention_heads)
        self.relative_attention_bias = self.add_weight(
            name="relative_attention_bias", shape=shape, initializer=self.initializer()
        )

    def layout(self, inputs: Mapping[str, tf.Tensor], seed: tf.Tensor | None = None) -> BatchLayout:
        layout, table = super().layout(inputs, seed), self.relative_attention_bias.value
        bias = relative_bias(tf.cast(table, self.compute_dtype), layout.width, self.config.max_position_embeddings)
        return dataclasses.replace(layout, bias=bias)

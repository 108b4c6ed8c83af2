"""BERT with LayerNorm before attention and feed-forward, as in Megatron-LM (Shoeybi et al. 2019, section 5.3).

Deep models train stably with it, also without warm-up (Xiong et al. 2020).
"""

from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.families.bert.layer import BertEncoder
from bert_tf.model.batch_layout import BatchLayout
from bert_tf.model.layers import PreNormLayer


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder of PreNormLayers, with one LayerNorm after the last layer and none after the embeddings."""

    layer_class = PreNormLayer

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self.norm = self.new_norm()

    def after_layers(self, x: tf.Tensor, layout: BatchLayout) -> tf.Tensor:
        return self.norm(x)

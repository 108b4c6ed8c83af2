"""Encoders of configurations, from bert_tf/families or from elsewhere."""

from typing import Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.encoder_traits import module_with_layer
from bert_tf.model.base_encoder import BaseEncoder


def create(config: BertConfig, **options: Any) -> BaseEncoder:
    """Creates the encoder that `config.encoder` names."""
    return class_of(config)(config, **options)


def class_of(config: BertConfig) -> type[BaseEncoder]:
    """The class of the encoder that `config.encoder` names."""
    encoder: type[BaseEncoder] = module_with_layer(config.encoder).Encoder
    return encoder

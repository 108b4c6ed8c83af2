"""Encoders, one module each, so that every head and task can be compared on them.

A module has `Encoder`, a BaseEncoder with `token_table` and `encode`; its traits are in `config.encoder_traits`. A
module from elsewhere is an encoder too, by its dotted name.
"""

from typing import TYPE_CHECKING, Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.encoder_traits import PACKAGE
from bert_tf.runtime import plugins

if TYPE_CHECKING:
    from bert_tf.model.base_encoder import BaseEncoder


def create(config: BertConfig, **options: Any) -> "BaseEncoder":
    """Creates the encoder that `config.encoder` names."""
    return class_of(config)(config, **options)


def class_of(config: BertConfig) -> "type[BaseEncoder]":
    """The class of the encoder that `config.encoder` names."""
    encoder: type[BaseEncoder] = plugins.load(PACKAGE, config.encoder, kind="encoder").Encoder
    return encoder

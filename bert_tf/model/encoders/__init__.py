"""Encoders, one module each, so that every head and task can be compared on them.

A module has `Encoder`, an EncoderLayer with `token_table` and `encode`, and `TRAITS` (see `config.encoder_traits`). A
module from elsewhere is an encoder too, by its dotted name.
"""

from typing import TYPE_CHECKING, Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.encoder_traits import PACKAGE
from bert_tf.runtime import open_set

if TYPE_CHECKING:  # a configuration looks for traits here before TensorFlow is loaded
    from bert_tf.model.encoder_layer import EncoderLayer


def create(config: BertConfig, **options: Any) -> "EncoderLayer":
    """Creates the encoder that `config.encoder` names."""
    return class_of(config)(config, **options)


def class_of(config: BertConfig) -> "type[EncoderLayer]":
    """The class of the encoder that `config.encoder` names."""
    encoder: type[EncoderLayer] = open_set.load(PACKAGE, config.encoder, kind="encoder").Encoder
    return encoder

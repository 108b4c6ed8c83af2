"""Encoders, one module each, so that every head and task can be compared on them.

A module has `Encoder`, a ConfiguredLayer with `token_table` and `call` as those of `bert.BertEncoder`, and `TRAITS`
(see `config.encoder_traits`). A module from elsewhere is an encoder too, by its dotted name.
"""

from typing import TYPE_CHECKING, Any

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.encoder_traits import PACKAGE
from bert_tf.runtime import open_set

if TYPE_CHECKING:  # a configuration looks for traits here before TensorFlow is loaded
    from bert_tf.model.layers import ConfiguredLayer


def create(config: BertConfig, **options: Any) -> "ConfiguredLayer":
    """Creates the encoder that `config.encoder` names."""
    encoder: ConfiguredLayer = open_set.load(PACKAGE, config.encoder, kind="encoder").Encoder(config, **options)
    return encoder

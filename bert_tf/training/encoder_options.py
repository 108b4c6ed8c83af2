"""Flags of training that change how an encoder computes, but not what it is."""

from typing import Any

import tensorflow as tf

from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError


def apply(config: TrainConfig, encoder: Any, strategy: tf.distribute.Strategy) -> None:
    """Sets them; UserError if an encoder cannot do what a flag asks for."""
    if config.gradient_checkpointing:
        enable_gradient_checkpointing(encoder)
    if config.token_dropping:
        enable_token_dropping(encoder, config.token_dropping)
    if uses_one_hot(config.use_one_hot_embeddings, strategy):
        enable_one_hot_embeddings(encoder, is_required=config.use_one_hot_embeddings == "true")


def enable_gradient_checkpointing(encoder: Any) -> None:
    """Makes an encoder store less for its backward pass; UserError if it has no layers to recompute."""
    if not hasattr(encoder, "gradient_checkpointing"):
        raise UserError(
            f"gradient_checkpointing is for BERT's layers, and encoder={encoder.config.encoder} has none: leave it out."
        )
    encoder.gradient_checkpointing = True


def enable_token_dropping(encoder: Any, share: float) -> None:
    """Makes the middle layers of an encoder skip tokens in training; UserError if it has none."""
    config = encoder.config
    if not config.middle_layers or not hasattr(encoder, "token_dropping"):
        raise UserError(
            f"token_dropping needs three of BERT's layers or more, and encoder={config.encoder} with num_hidden_layers "
            f"{config.num_hidden_layers} was given: leave it out."
        )
    encoder.token_dropping = share


def uses_one_hot(flag: str, strategy: tf.distribute.Strategy) -> bool:
    """Whether a flag "true", "false" or "auto" means to look up embeddings by a matrix product; auto: on TPUs."""
    return flag == "true" or (flag == "auto" and isinstance(strategy, tf.distribute.TPUStrategy))


def enable_one_hot_embeddings(encoder: Any, *, is_required: bool) -> None:
    """Makes an encoder look up tokens by a matrix product; UserError if it cannot and `is_required`."""
    embeddings: Any = getattr(encoder, "embeddings", None)
    if hasattr(embeddings, "one_hot"):
        embeddings.one_hot = True
    elif is_required:
        raise UserError(
            f"use_one_hot_embeddings is for BERT's embeddings, and encoder={encoder.config.encoder} has others: "
            "leave it out."
        )

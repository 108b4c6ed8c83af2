"""The inputs of a model: completed from those a caller has, also under the names of other libraries.

B rows, T positions in a row.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model.batch_layout import size_of

IDS_OF_HUB, MASK_OF_HUB, TYPES_OF_HUB = "input_word_ids", "input_mask", "input_type_ids"  # names in TensorFlow Hub
ALIASES = {  # names in Hugging Face and TensorFlow Hub
    **{"input_ids": "token_ids", "token_type_ids": "segment_ids"},
    **{IDS_OF_HUB: "token_ids", TYPES_OF_HUB: "segment_ids"},
}
# Names in Hugging Face, KerasHub and TensorFlow Hub: 1 for tokens, 0 for padding.
MASKS = ("attention_mask", "padding_mask", MASK_OF_HUB)
# Inputs of transformers that change the result of its models.
NOT_SUPPORTED = ("inputs_embeds", "position_ids", "head_mask", "encoder_hidden_states", "past_key_values")
IDS = ("token_ids", "segment_ids", "lengths", "text_numbers", "text_mask", "positions", "masked_lm_positions")


def complete_for(config: BertConfig, inputs: Any) -> dict[str, tf.Tensor]:
    """The inputs of an encoder, see `complete`.

    Raises ValueError for rows without tokens and, outside of graphs, for ids out of range and for masks with values
    other than 0 and 1. In a graph, a token id out of range is an error on CPUs and yields zeros on GPUs, a segment out
    of range adds no embedding, and a nonzero mask counts as 1.
    """
    traits = config.encoder_traits
    if tf.executing_eagerly():
        named = {ALIASES.get(name, name): ids for name, ids in inputs.items()} if isinstance(inputs, Mapping) else {}
        _check_below(config.vocab_size, "token_ids", named.get("token_ids", None if named else inputs))
        if config.type_vocab_size > 1:
            _check_below(config.type_vocab_size, "segment_ids", named.get("segment_ids"))
        for name in MASKS:
            _check_below(2, name, named.get(name))
    completed = complete(inputs, config.padding_id, numbers_tokens=traits.position_offset > 0)
    shape = completed["token_ids"].shape
    if len(shape) < 2 or shape[-1] == 0:
        raise ValueError(f"token_ids has the shape {shape}; expected rows of one token or more, [B, T].")
    return completed


def _check_below(size: int, name: str, ids: Any) -> None:
    values = np.zeros(0) if ids is None else np.asarray(ids)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name} is of the type {values.dtype}; expected numbers.")
    wrong = values[~((values >= 0) & (values < size) & (values == np.floor(values)))]  # NaN among them
    if wrong.size:
        raise ValueError(f"{name} contains {wrong[0]}; expected whole numbers from 0 to {size - 1}.")


def complete(inputs: Any, padding_id: int = 0, *, numbers_tokens: bool = False) -> dict[str, tf.Tensor]:
    """Returns the inputs with `token_ids`, `segment_ids` and `lengths` (or `text_numbers`), each int32.

    Args:
        inputs: token ids [..., T], or a mapping with `token_ids`. Optional are `segment_ids` [..., T], by default 0,
            and `lengths` [...], by default up to the last token of `attention_mask` or another of MASKS [..., T], else
            up to the last one that is not [PAD]. A mask, which may have zeros anywhere, becomes `text_mask` [..., T].
            Names in ALIASES are accepted for `token_ids` and `segment_ids`. Other entries are kept.
        padding_id: the id of the padding token, 0 in every published vocabulary of BERT.
        numbers_tokens: whether positions number only tokens other than [PAD], as in RoBERTa: without `lengths`, which
            imply that each text starts its row, they are added as `positions`.

    Raises:
        ValueError: there are no token ids, the shape of segments or mask differs from theirs, or an input of
            transformers is not supported.
    """
    if not isinstance(inputs, Mapping):
        inputs = {"token_ids": inputs}
    inputs = {ALIASES.get(name, name): tensor for name, tensor in inputs.items()}
    if "token_ids" not in inputs:
        raise ValueError(
            f"Got the inputs {', '.join(sorted(inputs)) or '(none)'}; expected token_ids (or input_ids), and "
            "optionally segment_ids (or token_type_ids) and lengths (or attention_mask)."
        )
    if unsupported := [name for name in NOT_SUPPORTED if inputs.get(name) is not None]:
        raise ValueError(f"The input {unsupported[0]} is not supported: remove it.")
    mask = next((inputs.pop(name) for name in MASKS if name in inputs), None)
    inputs |= {name: tf.cast(inputs[name], tf.int32) for name in IDS if name in inputs}
    token_ids = inputs["token_ids"]
    if "segment_ids" not in inputs:
        inputs["segment_ids"] = tf.zeros_like(token_ids)
    if mask is not None:
        mask = tf.convert_to_tensor(mask)
        inputs["text_mask"] = tf.cast(tf.cast(mask, tf.bool), tf.int32)
    for name in ("segment_ids", "text_mask"):
        if name in inputs and not inputs[name].shape.is_compatible_with(token_ids.shape):
            shape = inputs[name].shape
            raise ValueError(f"{name} has the shape {shape}; expected that of token_ids, {token_ids.shape}.")
    says_texts = "lengths" in inputs or "text_numbers" in inputs
    if not says_texts:
        inputs["lengths"] = _lengths(token_ids != padding_id if mask is None else inputs["text_mask"] > 0)
    if numbers_tokens and "positions" not in inputs and (mask is not None or not says_texts):
        is_token = tf.cast(token_ids != padding_id, tf.int32)
        inputs["positions"] = tf.cumsum(is_token, -1) * is_token - 1  # -1: the padding row, before the token rows
    return inputs


def _lengths(is_token: tf.Tensor) -> tf.Tensor:  # bool [..., T] -> [...]
    """The number of positions up to the last token."""
    places = tf.range(1, size_of(is_token, -1) + 1)
    return tf.reduce_max(tf.where(is_token, places, 0), -1)

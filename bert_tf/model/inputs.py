"""The inputs of a model: completed from what a caller has, with the names of other libraries taken too.

B rows, T positions in a row.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.model.batch_layout import size_of

ALIASES = {"input_ids": "token_ids", "token_type_ids": "segment_ids"}  # the names of Hugging Face
MASKS = ("attention_mask", "padding_mask")  # of Hugging Face and of KerasHub: 1 for tokens, 0 for padding after them
IDS = ("token_ids", "segment_ids", "lengths", "text_numbers", "positions", "masked_lm_positions")


def complete(inputs: Any, padding_id: int = 0) -> dict[str, tf.Tensor]:
    """Returns the inputs with `token_ids`, `segment_ids` and `lengths` (or `text_numbers`), each int32.

    Args:
        inputs: token ids [..., T], or a mapping with `token_ids`. Optional are `segment_ids` [..., T], 0 where they are
            missing, and `lengths` [...]: where they are missing, the sum of `attention_mask` or `padding_mask`, else
            the place of the last token that is not [PAD]. `input_ids` and `token_type_ids` are taken for `token_ids`
            and `segment_ids`. Other entries are kept.
        padding_id: the id of the padding token, 0 in every published vocabulary of BERT.

    Raises:
        ValueError: there are no token ids.
    """
    if not isinstance(inputs, Mapping):
        inputs = {"token_ids": inputs}
    inputs = {ALIASES.get(name, name): tensor for name, tensor in inputs.items()}
    if "token_ids" not in inputs:
        raise ValueError(
            f"The inputs {', '.join(sorted(inputs)) or '(none)'} were given; expected token_ids (or input_ids), and if "
            "there are any, segment_ids (or token_type_ids) and lengths (or attention_mask)."
        )
    mask = next((inputs.pop(name) for name in MASKS if name in inputs), None)
    inputs |= {name: tf.cast(inputs[name], tf.int32) for name in IDS if name in inputs}
    if "segment_ids" not in inputs:
        inputs["segment_ids"] = tf.zeros_like(inputs["token_ids"])
    if "lengths" not in inputs and "text_numbers" not in inputs:
        token_ids = inputs["token_ids"]
        inputs["lengths"] = (
            _lengths(token_ids, padding_id) if mask is None else tf.reduce_sum(tf.cast(mask, tf.int32), -1)
        )
    return inputs


def _lengths(token_ids: tf.Tensor, padding_id: int) -> tf.Tensor:  # [..., T] -> [...]
    """The number of tokens up to the last one that is not padding."""
    places = tf.range(1, size_of(token_ids, -1) + 1)
    return tf.reduce_max(tf.where(token_ids == padding_id, 0, places), -1)

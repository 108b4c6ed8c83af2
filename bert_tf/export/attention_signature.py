"""An optional signature of an export that returns attention probabilities.

B texts, T tokens in a row, L layers, H heads.
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.heads.vectors.feature_windows import split_pairs
from bert_tf.model.heads import BertModel
from bert_tf.text.tokenizer import Tokenizer, pack

SIGNATURE = "attention"
MAX_TOKENS = 128  # more would be unreadable on a screen
MAX_NUMBERS = 600_000  # in the output for one text, for any model: about 12 MB as JSON
EXAMPLES = {"text": ["The fox ran over the hill.", "Who ran over it? ||| The fox ran over the hill."]}


def signature(model: BertModel, tokenizer: Tokenizer) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """attention(text string [B]) -> "tokens" string [B, T], "attention" float32 [B, L, H, T, T], "lengths" int32 [B].

    A text may be a pair, "first ||| second", and may contain "[MASK]" for a fill-mask model. Row t of "attention" has
    the probabilities of token t attending to each token and sums to 1 (while a model trains: before dropout); padding
    is "" and 0. Each text has its own row, truncated to `max_tokens`, a pair by its longer text.
    """
    length = max_tokens(model.config)
    tokenize = tokenize_function(model, tokenizer)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
    def attention(text: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = rows_of(tokenizer, tokenize, text, length)
        layers = model.encoder(inputs, return_attention=True)["attention_probabilities"]  # L times [B, H, T, T]
        used = tf.sequence_mask(inputs["lengths"], tf.shape(inputs["token_ids"])[1])  # [B, T]
        probabilities = tf.cast(tf.stack(layers, 1), tf.float32)  # [B, L, H, T, T]
        return {
            "tokens": tf.where(used, tokenizer.ids_to_tokens(inputs["token_ids"]), ""),
            "attention": tf.where(used[:, None, None, :, None], probabilities, 0.0),
            "lengths": inputs["lengths"],
        }

    return attention


def max_tokens(config: BertConfig) -> int:
    """The number of tokens that keeps an output of L * H * T * T numbers below MAX_NUMBERS."""
    heads = config.num_hidden_layers * config.num_attention_heads
    return max(4, min(MAX_TOKENS, config.max_position_embeddings, math.isqrt(MAX_NUMBERS // heads)))


def tokenize_function(model: BertModel, tokenizer: Tokenizer) -> Callable[..., Any]:
    """String [B] -> ragged ids; "[MASK]" is one token if the model fills masks."""
    return tokenizer.ids_with_masks if hasattr(model, "masked_lm") else tokenizer


def rows_of(tokenizer: Tokenizer, tokenize: Callable[..., Any], text: tf.Tensor, length: int) -> dict[str, tf.Tensor]:
    """Model inputs [B, T] for texts and pairs, T the longest of them. tokenize: string [B] -> ragged ids."""
    first, second, is_pair = split_pairs(text)
    ids = tokenize(tf.concat([first, second], 0))  # one call, because a tokenizer is a large part of a graph
    first, second = ids[: tf.size(text)], ids[tf.size(text) :]
    single, pairs = (pack(tokenizer, segments, length) for segments in ([first], [first, second]))
    rows = {name: tf.where(_broadcastable(is_pair, x), pairs[name], x) for name, x in single.items()}
    longest = tf.reduce_max(tf.concat([rows["lengths"], [1]], 0))  # 1 without any text
    return {name: x[:, :longest] if len(x.shape) == 2 else x for name, x in rows.items()}


def _broadcastable(is_pair: tf.Tensor, x: tf.Tensor) -> tf.Tensor:  # [B], [B, ...] -> [B, 1] or [B]
    return is_pair[:, None] if len(x.shape) == 2 else is_pair

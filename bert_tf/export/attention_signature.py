"""Which token looks where: a signature that an export has beside its own, if it is made so.

B texts, T slots in a row, L layers, H heads.
"""

import functools
import math

import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.tasks.embeddings.feature_windows import split_pairs
from bert_tf.tasks.pretraining.mask_filling import ids_with_masks
from bert_tf.text.tokenizer import pack

SIGNATURE = "attention"
MOST_SLOTS = 128  # nobody looks at more
MOST_NUMBERS = 600_000  # of the answer to one text, whatever the model: some 12 MB as JSON
EXAMPLES = {"text": ["The fox ran over the hill.", "Who ran over it? ||| The fox ran over the hill."]}


def check(config):
    """Raises UserError for an encoder in which tokens do not look at each other."""
    if config.encoder != "bert":
        raise UserError(f"attention goes with encoder=bert; {config.encoder} has none: leave the flag out.")


def signature(model, tokenizer):
    """attention(text string [B]) -> "tokens" string [B, T], "attention" float32 [B, L, H, T, T], "lengths" int32 [B].

    A text may be "first ||| second", a pair, and of a model that fills masks hold "[MASK]". Row t of attention says
    which share token t takes of each token and sums to 1 (of a model in training: before dropout); behind the length
    of a text stand "" and 0. One text a row, never packed. Cut to `most_slots` slots, of a pair the longer first.
    """
    slots = most_slots(model.config)
    read = functools.partial(ids_with_masks, tokenizer) if hasattr(model, "masked_lm") else tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False)
    def attention(text):
        inputs = _rows(tokenizer, read, text, slots)
        shares = model.encoder(inputs, return_attention=True)["attention_probabilities"]  # L times [B, H, T, T]
        used = tf.sequence_mask(inputs["lengths"], tf.shape(inputs["token_ids"])[1])  # [B, T]
        shares = tf.cast(tf.stack(shares, 1), tf.float32)  # [B, L, H, T, T]
        return {
            "tokens": tf.where(used, tokenizer.ids_to_tokens(inputs["token_ids"]), ""),
            "attention": tf.where(used[:, None, None, :, None], shares, 0.0),
            "lengths": inputs["lengths"],
        }

    return attention


def most_slots(config):
    """How many slots of a text are shown: an answer of L * H * T * T numbers stays below MOST_NUMBERS."""
    heads = config.num_hidden_layers * config.num_attention_heads
    return max(4, min(MOST_SLOTS, config.max_position_embeddings, math.isqrt(MOST_NUMBERS // heads)))


def _rows(tokenizer, read, text, slots):
    """Model inputs [B, T] of texts and pairs, T being the longest of them. read: string [B] -> ragged ids."""
    first, second, is_pair = split_pairs(text)
    ids = read(tf.concat([first, second], 0))  # at once: a tokenizer is a large part of a graph
    first, second = ids[: tf.size(text)], ids[tf.size(text) :]
    alone, pairs = (pack(tokenizer, segments, slots) for segments in ([first], [first, second]))
    rows = {name: tf.where(_beside(is_pair, x), pairs[name], x) for name, x in alone.items()}
    longest = tf.reduce_max(tf.concat([rows["lengths"], [1]], 0))  # of no text at all: 1
    return {name: x[:, :longest] if len(x.shape) == 2 else x for name, x in rows.items()}


def _beside(is_pair, x):
    return is_pair[:, None] if len(x.shape) == 2 else is_pair

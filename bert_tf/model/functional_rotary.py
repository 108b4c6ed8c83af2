"""Parts of encoders with rotary positions in the textbook form, for other engines: see `functional_bert`.

B texts, T positions, D hidden size, H heads, K size of one head.
"""

import math

import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model import attention, functional_bert
from bert_tf.model.functional_bert import Tensors
from bert_tf.model.rotary import rotate


def begin(params: Tensors, config: BertConfig, inputs: Tensors) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Embeddings [B, T, D], the mask [B, 1, 1 or T, T], and positions in the row [1, T]: only distances count."""
    width = tf.shape(inputs["token_ids"])[1]
    x = functional_bert.embed(params, config, inputs, width)
    return x, functional_bert.mask_of(inputs, width), tf.range(width)[None]


def attend(
    x: tf.Tensor, mask: tf.Tensor, positions: tf.Tensor, params: Tensors, name: str, config: BertConfig, theta: float
) -> tf.Tensor:  # [B, T, D] -> [B, T, D]
    """Self-attention with rotary positions and its output projection."""
    shape = tf.unstack(tf.shape(x))

    def heads(part: str) -> tf.Tensor:  # -> [B, H, T, K]
        values = tf.matmul(x, params[f"{name}/attention/{part}/kernel"])
        values = tf.reshape(values, [*shape[:2], config.num_attention_heads, config.head_size])
        return tf.transpose(values, [0, 2, 1, 3])

    query, key = (rotate(heads(part), positions, theta) for part in ("query", "key"))
    scale = 1 / math.sqrt(config.head_size)
    context, _ = attention.dot_product_attention(query, key, heads("value"), mask, scale=scale, scale_scores=True)
    context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [*shape[:2], config.hidden_size])
    return tf.matmul(context, params[f"{name}/attention/project_out/kernel"])


def gated(x: tf.Tensor, params: Tensors, name: str, config: BertConfig) -> tf.Tensor:  # [B, T, D] -> [B, T, D]
    """Feed-forward with a gate."""
    wide, gate = tf.split(tf.matmul(x, params[f"{name}/feed_forward/expand/kernel"]), 2, -1)
    wide = functional_bert.activation(wide, config.hidden_act) * gate
    return tf.matmul(wide, params[f"{name}/feed_forward/contract/kernel"])

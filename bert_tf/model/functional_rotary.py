"""ModernBERT and NomicBERT in textbook form, for other engines: see `functional_bert`.

B texts, T positions, D hidden size, H heads, K size of one head.
"""

import math
from collections.abc import Mapping

import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model import attention, functional_bert
from bert_tf.model.rotary import rotate, window_mask

Tensors = Mapping[str, tf.Tensor]


@functional_bert.on_rows
def encode_modern_bert(params: Tensors, config: BertConfig, inputs: Tensors) -> tf.Tensor:  # -> [B, T, D]
    """The tokens of the last layer of a ModernBERT."""
    settings, (x, mask, positions) = config.settings, _begin(params, config, inputs)
    local = mask + window_mask(positions, settings["local_attention"] // 2, "float32")
    for number in range(config.num_hidden_layers):
        name, is_local = f"encoder/layers/{number}", number % settings["global_attn_every_n_layers"] > 0
        theta = settings["local_rope_theta" if is_local else "global_rope_theta"]
        normal = functional_bert.layer_norm(x, params, f"{name}/attention_norm", config) if number else x
        x += _attend(normal, local if is_local else mask, positions, params, name, config, theta)
        x += _gated(functional_bert.layer_norm(x, params, f"{name}/feed_forward_norm", config), params, name, config)
    return functional_bert.layer_norm(x, params, "encoder/norm", config)


@functional_bert.on_rows
def encode_nomic_bert(params: Tensors, config: BertConfig, inputs: Tensors) -> tf.Tensor:  # -> [B, T, D]
    """The tokens of the last layer of a NomicBERT."""
    x, mask, positions = _begin(params, config, inputs)
    for number in range(config.num_hidden_layers):
        name, theta = f"encoder/layers/{number}", config.settings["rotary_emb_base"]
        x += _attend(x, mask, positions, params, name, config, theta)
        x = functional_bert.layer_norm(x, params, f"{name}/attention_norm", config)
        x += _gated(x, params, name, config)
        x = functional_bert.layer_norm(x, params, f"{name}/feed_forward_norm", config)
    return x


def _begin(params: Tensors, config: BertConfig, inputs: Tensors) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Embeddings [B, T, D], the mask [B, 1, 1 or T, T], and positions in the row [1, T]: only distances matter."""
    width = tf.shape(inputs["token_ids"])[1]
    x = functional_bert.embed(params, config, inputs, width)
    return x, functional_bert.mask_of(inputs, width), tf.range(width)[None]


def _attend(
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


def _gated(x: tf.Tensor, params: Tensors, name: str, config: BertConfig) -> tf.Tensor:  # [B, T, D] -> [B, T, D]
    """Gated feed-forward."""
    wide, gate = tf.split(tf.matmul(x, params[f"{name}/feed_forward/expand/kernel"]), 2, -1)
    wide = functional_bert.activation(wide, config.hidden_act) * gate
    return tf.matmul(wide, params[f"{name}/feed_forward/contract/kernel"])

"""The layers of BERT.

B rows, T positions in a row, N = B * T, D hidden size, H heads, K size of one head, V vocabulary.
Activations are two-dimensional [N, D], so that a matrix product, its bias and its activation are one kernel on a CPU.
"""

import math
import sys
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.model import attention, fused_ops, random_bits
from bert_tf.model.batch_layout import BatchLayout, gather_tokens
from bert_tf.runtime import plugins


def config_of(config: BertConfig | dict[str, Any]) -> BertConfig:
    """Returns the configuration, or converts it from the dictionary in a Keras file.

    Raises UserError for an encoder from another package that the program has not imported, as Keras does for other
    classes.
    """
    if isinstance(config, BertConfig):
        return config
    encoder = str(config.get("encoder", ""))
    if "." in encoder and encoder not in sys.modules:
        raise UserError(
            f"The Keras file names code outside of this package, the module {encoder}: import it first, if you trust "
            "who wrote it."
        )
    with plugins.trusting([encoder]):
        return BertConfig.from_dict(config)


class ConfiguredLayer(keras.layers.Layer):
    """A layer that keeps the whole BertConfig and creates its variables and children in its constructor."""

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(**options)
        self.config = config_of(config)

    def new_dense(
        self, size_in: int, size_out: int, activation: str | None = None, *, has_bias: bool = True
    ) -> "Dense":
        """A Dense child with this layer's configuration and precision."""
        options = {"activation": activation, "has_bias": has_bias, "dtype": self.dtype_policy}
        return Dense(self.config, size_in, size_out, **options)

    def new_norm(self, width: int | None = None) -> "LayerNorm":
        """A LayerNorm child. width: input width; None: the hidden size."""
        return LayerNorm(self.config, width, dtype=self.dtype_policy)

    def new_dropout(self, rate: float, stream: str) -> "Dropout":
        """A Dropout child with its own stream of random numbers."""
        return Dropout(rate, stream, self.config.hidden_size, dtype=self.dtype_policy)

    def new_table(self, name: str, rows: int) -> keras.Variable:
        """An embedding table, initialized like every kernel from a normal distribution truncated at two deviations."""
        return self.add_weight(name=name, shape=(rows, self.config.embedding_width), initializer=self.initializer())

    def initializer(self) -> keras.initializers.Initializer:
        """As in google-research/bert: a normal distribution truncated at two standard deviations."""
        return keras.initializers.TruncatedNormal(stddev=self.config.initializer_range)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        return {**super().get_config(), "config": self.config.to_dict()}


class Dense(ConfiguredLayer):
    """A matrix product with bias and activation.

    lora: an adapter whose output is added before the activation, see `model.lora`.
    """

    lora: keras.layers.Layer | None = None
    bias: keras.Variable | None = None

    def __init__(
        self,
        config: BertConfig | dict,
        size_in: int,
        size_out: int,
        activation: str | None = None,
        has_bias: bool = True,
        **options: Any,
    ):
        super().__init__(config, **options)
        self.activation = activation
        self.kernel = self.add_weight(name="kernel", shape=(size_in, size_out), initializer=self.initializer())
        if has_bias:
            self.bias = self.add_weight(name="bias", shape=(size_out,), initializer="zeros")
        self.built = True

    def call(self, x: tf.Tensor, needs_gradient: bool = False) -> tf.Tensor:
        """Maps [N, size_in] to [N, size_out]."""
        # Not named `training`: Keras would pass that on to all layers called later.
        y = dense(x, self.kernel.value, None if self.bias is None else self.bias.value, needs_gradient)
        y = y if self.lora is None else y + self.lora(x)
        return activate(y, self.activation, needs_gradient)


def dense(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None, training: bool = False) -> tf.Tensor:
    """[N, I], [I, O], [O] -> [N, O]; `bias_add`, not `+`: oneDNN fuses it and the activation into the product."""
    if bias is None:
        return tf.matmul(x, kernel)
    return (fused_ops.bias_add if training else tf.nn.bias_add)(tf.matmul(x, kernel), bias)


def activate(x: tf.Tensor, kind: str | None, training: bool = False) -> tf.Tensor:
    """Applies the named activation; None returns `x`. training: whether a gradient will be computed."""
    if kind is None:
        return x
    if kind == "tanh":
        return tf.tanh(x)
    if kind == "relu":
        return tf.nn.relu(x)
    if kind == "silu":
        return tf.nn.silu(x)
    if training:
        return fused_ops.GELUS[kind](x)
    return tf.nn.gelu(x, approximate=kind == "gelu_tanh")  # oneDNN fuses it into the preceding product


class LayerNorm(ConfiguredLayer):
    """Layer normalization of each token (Ba et al. 2016), in float32 whatever the precision of the rest."""

    beta: keras.Variable | None = None

    def __init__(self, config: BertConfig | dict, width: int | None = None, **options: Any):
        super().__init__(config, **options)
        wide = {"shape": (width or self.config.hidden_size,), "dtype": "float32", "autocast": False}
        self.gamma = self.add_weight(name="gamma", initializer="ones", **wide)
        if self.config.encoder_traits.has_norm_biases:
            self.beta = self.add_weight(name="beta", initializer="zeros", **wide)
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Normalizes each row of [N, D]."""
        beta = tf.zeros_like(self.gamma.value) if self.beta is None else self.beta.value
        return fused_ops.layer_norm(x, self.gamma.value, beta, self.config.layer_norm_eps)


class Dropout(keras.layers.Layer):
    """Stateless dropout: its mask depends only on the pass's seed and its stream; there is no state to save.

    stream: a name, such as "layers/0/attention", unique among the dropouts of the model.
    width: hidden size of the model, which decides whether compiling is worth it; 0: it is not.
    """

    def __init__(self, rate: float, stream: str, width: int = 0, **options: Any):
        super().__init__(**options)
        self.rate, self.stream, self.width = rate, stream, width
        self.stream_id = random_bits.stream_id(stream)
        self.built = True

    def call(
        self, x: tf.Tensor, *, seed: tf.Tensor | None = None, residual: tf.Tensor | None = None
    ) -> tf.Tensor:  # [...] -> [...]
        """Drops values of `x`, then adds `residual`, of the same shape. seed: int32 [2]; None: nothing is dropped."""
        if seed is None or not self.rate:
            return x if residual is None else residual + x
        lanes = random_bits.lanes(x, random_bits.of_stream(seed, self.stream_id))
        return fused_ops.dropout(x, lanes, self.rate, residual, width=self.width)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        return {**super().get_config(), "rate": self.rate, "stream": self.stream, "width": self.width}


class SelfAttention(ConfiguredLayer):
    """Multi-head scaled dot-product self-attention (Vaswani et al. 2017). stream: its dropout stream."""

    def __init__(self, config: BertConfig | dict, stream: str, **options: Any):
        super().__init__(config, **options)
        width = self.config.hidden_size
        self.scale = 1 / math.sqrt(self.config.head_size)
        has_bias = self.config.encoder_traits.has_layer_biases
        self.query_key_value = self.new_dense(width, 3 * width, has_bias=has_bias)
        self.dropout = self.new_dropout(self.config.attention_probs_dropout_prob, stream)
        self.project_out = self.new_dense(width, width, has_bias=has_bias)
        self.built = True

    def call(
        self, x: tf.Tensor, *, layout: BatchLayout, indices: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """[N, D] -> [N, D] and probabilities [B, H, T, T]; with `indices` only for these tokens, [R, D]."""
        query, key, value = self.queries(x, layout)
        if layout.probe:
            layout.probe.attention.append((query, key, value))
        context, probabilities = self.attend(query, key, value, layout)
        context = gather_tokens(layout.join_heads(context, x), indices)
        return self.project_out(context, needs_gradient=layout.training), probabilities

    def queries(self, x: tf.Tensor, layout: BatchLayout) -> list[tf.Tensor]:
        """Query, key and value for [N, D], [B, H, T, K] each."""
        return layout.split_heads(self.query_key_value(x, needs_gradient=layout.training))

    def attend(
        self, query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, layout: BatchLayout
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The context [B, H, T, K] and the probabilities before dropout [B, H, T, T]."""
        drops = layout.training and self.dropout.rate
        return attention.dot_product_attention(
            query,
            key,
            value,
            layout.mask if layout.bias is None else layout.mask + layout.bias,
            scale=self.scale,
            dropout=(lambda x: self.dropout(x, seed=layout.seed)) if drops else None,
            training=layout.training,
        )


class FeedForward(ConfiguredLayer):
    """Two dense layers with an activation, but no dropout, between them, as in google-research/bert."""

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        narrow, wide = self.config.hidden_size, self.config.intermediate_size
        self.expand = self.new_dense(narrow, wide, self.config.hidden_act)
        self.contract = self.new_dense(wide, narrow)
        self.built = True

    def call(self, x: tf.Tensor, *, layout: BatchLayout) -> tf.Tensor:
        """Maps [N, D] to [N, D]."""
        x = self.expand(x, needs_gradient=layout.training)
        return self.contract(x, needs_gradient=layout.training)


class TransformerLayer(ConfiguredLayer):
    """Attention, then feed-forward; each followed by dropout, the residual and LayerNorm (post-LN; paper section 3)."""

    def __init__(self, config: BertConfig | dict, number: int, **options: Any):
        super().__init__(config, **options)
        self.number = number
        stream, rate = f"layers/{number}", self.config.hidden_dropout_prob
        self.attention = self.new_attention(f"{stream}/attention/probabilities")
        self.attention_dropout = self.new_dropout(rate, f"{stream}/attention")
        self.attention_norm = self.new_norm()
        self.feed_forward = self.new_feed_forward()
        self.feed_forward_dropout = self.new_dropout(rate, f"{stream}/feed_forward")
        self.feed_forward_norm = self.new_norm()
        self.built = True

    def new_attention(self, stream: str) -> SelfAttention:
        """Its attention. stream: the dropout stream of the probabilities."""
        return SelfAttention(self.config, stream, dtype=self.dtype_policy)

    def new_feed_forward(self) -> ConfiguredLayer:
        """Its feed-forward part, which maps [N, D] to [N, D]."""
        return FeedForward(self.config, dtype=self.dtype_policy)

    def call(
        self, x: tf.Tensor, *, layout: BatchLayout, indices: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """[N, D] -> [N, D] and probabilities [B, H, T, T]; with `indices` only for these tokens, [R, D]."""
        context, probabilities = self.attention(x, layout=layout, indices=indices)
        residual = gather_tokens(x, indices)
        x = self.attention_norm(self.attention_dropout(context, seed=layout.seed, residual=residual))
        narrow = self.feed_forward(x, layout=layout)
        x = self.feed_forward_norm(self.feed_forward_dropout(narrow, seed=layout.seed, residual=x))
        return x, probabilities

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        return {**super().get_config(), "number": self.number}


class PreNormLayer(TransformerLayer):
    """A TransformerLayer whose LayerNorms come before attention and feed-forward (pre-LN; Xiong et al. 2020).

    The sum of the residuals is not normalized: the encoder needs a LayerNorm after its last layer.
    """

    def call(
        self, x: tf.Tensor, *, layout: BatchLayout, indices: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        context, probabilities = self.attention(self.attention_norm(x), layout=layout, indices=indices)
        x = self.attention_dropout(context, seed=layout.seed, residual=gather_tokens(x, indices))
        narrow = self.feed_forward(self.feed_forward_norm(x), layout=layout)
        return self.feed_forward_dropout(narrow, seed=layout.seed, residual=x), probabilities

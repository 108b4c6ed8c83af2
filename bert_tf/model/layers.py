"""The layers of BERT.

B rows, T positions in a row, N = B * T, D hidden size, H heads, K size of one head, V vocabulary.
Activations are two-dimensional [N, D]: a matrix product, its bias and its activation are then one kernel on a CPU.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model import attention, dropout_seeds, fused_ops
from bert_tf.model.probe import Probe


@dataclasses.dataclass(frozen=True)
class BatchLayout:
    """How texts lie in rows, and the seed of this pass's dropout: all that layers need besides the tokens.

    `mask` [B, 1, 1 or T, T] is added to attention scores. `seed` [2] (int32) makes every dropout mask a function of
    itself and of the layer alone; None means no dropout. `text_numbers` [B, T]: 1, 2, ... by text of a row, 0 on
    padding. `probe`: to be filled by this pass.
    """

    rows: tf.Tensor | int
    width: tf.Tensor | int  # positions in a row
    heads: int
    mask: tf.Tensor
    seed: tf.Tensor | None = None
    text_numbers: tf.Tensor | None = None
    probe: Probe | None = None

    @classmethod
    def padded(
        cls,
        lengths: tf.Tensor,
        width: tf.Tensor | int,
        *,
        heads: int,
        dtype: str,
        seed: tf.Tensor | None = None,
        is_causal: bool = False,
    ) -> "BatchLayout":
        """One text per row, in the first `lengths` [B] positions of it."""
        mask = attention.padding_mask(lengths, width, is_causal=is_causal, dtype=dtype)
        numbers = tf.cast(tf.sequence_mask(lengths, width), tf.int32)
        return cls(rows=size_of(lengths, 0), width=width, heads=heads, mask=mask, seed=seed, text_numbers=numbers)

    @classmethod
    def packed(
        cls,
        text_numbers: tf.Tensor,
        *,
        heads: int,
        dtype: str,
        seed: tf.Tensor | None = None,
        is_causal: bool = False,
    ) -> "BatchLayout":
        """Several texts per row that do not see each other: `text_numbers` [B, T], 1, 2, ... by text, 0 on padding."""
        width = size_of(text_numbers, 1)
        mask = attention.packing_mask(text_numbers, width, is_causal=is_causal, dtype=dtype)
        rows = size_of(text_numbers, 0)
        return cls(rows=rows, width=width, heads=heads, mask=mask, seed=seed, text_numbers=text_numbers)

    def with_probe(self, probe: Probe | None) -> "BatchLayout":
        """The same with a probe, which receives texts and mask; None: as it is."""
        if probe is None or self.text_numbers is None:
            return self
        before = self.width * tf.range(self.rows)[:, None]  # texts that earlier rows have room for
        probe.texts = tf.reshape(tf.where(self.text_numbers > 0, before + self.text_numbers, 0), [-1])
        probe.mask = self.mask
        return dataclasses.replace(self, probe=probe)

    @property
    def training(self) -> bool:
        """Whether a gradient will be computed."""
        return self.seed is not None

    def split_heads(self, x: tf.Tensor, parts: int) -> list[tf.Tensor]:
        """Splits [N, parts * D] into `parts` tensors [B, H, T, K]."""
        size = x.shape[-1] // (parts * self.heads)
        x = tf.reshape(x, [self.rows, self.width, parts, self.heads, size])
        return tf.unstack(tf.transpose(x, [2, 0, 3, 1, 4]))  # unstack, as the gradient of slices is slow

    def join_heads(self, x: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
        """Merges the heads of [B, H, T, K] into [N, D], the shape of `like`."""
        return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), tf.shape(like))  # then TensorFlow knows that they can be added

    def as_rows(self, x: tf.Tensor) -> tf.Tensor:
        """Reshapes [N, D] to [B, T, D]."""
        return tf.reshape(x, [self.rows, self.width, x.shape[-1]])


def gather_tokens(x: tf.Tensor, positions: tf.Tensor | None) -> tf.Tensor:  # [N, D], [R] -> [R, D]
    """The tokens at these positions; None: all."""
    return x if positions is None else tf.gather(x, positions)


def pooled_positions(inputs: Mapping[str, tf.Tensor], *, is_causal: bool) -> tf.Tensor:
    """The position of the token that has seen its whole text, int32 [B]: [CLS], or of a causal model the last one."""
    if is_causal:
        return tf.maximum(inputs["lengths"] - 1, 0)
    return tf.zeros([size_of(inputs["token_ids"], 0)], tf.int32)


def pooled_tokens(tokens: tf.Tensor, inputs: Mapping[str, tf.Tensor], *, is_causal: bool) -> tf.Tensor:
    """The tokens [B, D] among [B, T, D] that have seen their whole text."""
    if is_causal:
        return tf.gather(tokens, pooled_positions(inputs, is_causal=True), batch_dims=1)
    return tokens[:, 0]


def size_of(tensor: tf.Tensor, axis: int) -> tf.Tensor | int:
    """The static size where it is known: static shapes are what XLA and TPUs need."""
    return tensor.shape[axis] if tensor.shape[axis] is not None else tf.shape(tensor)[axis]


class ConfiguredLayer(keras.layers.Layer):
    """A layer that carries the whole BertConfig and creates its variables and children in its constructor."""

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(**options)
        self.config = config if isinstance(config, BertConfig) else BertConfig(**config)

    def new_dense(self, size_in: int, size_out: int, activation: str | None = None) -> "Dense":
        """A Dense child of this layer's configuration and precision."""
        return Dense(self.config, size_in, size_out, activation=activation, dtype=self.dtype_policy)

    def new_norm(self, width: int | None = None) -> "LayerNorm":
        """A LayerNorm child. width: of its input; None: the hidden size."""
        return LayerNorm(self.config, width, dtype=self.dtype_policy)

    def new_dropout(self, rate: float, stream: str) -> "Dropout":
        """A Dropout child with its own stream of random numbers."""
        return Dropout(rate, stream, self.config.hidden_size, dtype=self.dtype_policy)

    def new_table(self, name: str, rows: int) -> keras.Variable:
        """An embedding table, initialised like every kernel from a normal distribution truncated at two deviations."""
        return self.add_weight(name=name, shape=(rows, self.config.embedding_width), initializer=self.initializer())

    def initializer(self) -> keras.initializers.Initializer:
        """The original's: a normal distribution truncated at two standard deviations."""
        return keras.initializers.TruncatedNormal(stddev=self.config.initializer_range)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        return {**super().get_config(), "config": self.config.to_dict()}


class Dense(ConfiguredLayer):
    """A matrix product with bias and activation.

    lora: an adapter whose output is added before the activation, see `model.lora`.
    """

    lora: keras.layers.Layer | None = None

    def __init__(
        self, config: BertConfig | dict, size_in: int, size_out: int, activation: str | None = None, **options: Any
    ):
        super().__init__(config, **options)
        self.activation = activation
        self.kernel = self.add_weight(name="kernel", shape=(size_in, size_out), initializer=self.initializer())
        self.bias = self.add_weight(name="bias", shape=(size_out,), initializer="zeros")
        self.built = True

    def call(self, x: tf.Tensor, needs_gradient: bool = False) -> tf.Tensor:
        """Maps [N, size_in] to [N, size_out]."""
        # Not called `training`: Keras would pass that on to all layers that are called later.
        y = dense(x, self.kernel.value, self.bias.value, needs_gradient)
        y = y if self.lora is None else y + self.lora(x)
        return activate(y, self.activation, needs_gradient)


def dense(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, training: bool = False) -> tf.Tensor:
    """[N, I], [I, O], [O] -> [N, O]; `bias_add`, not `+`: oneDNN fuses it and the activation into the product."""
    return (fused_ops.bias_add if training else tf.nn.bias_add)(tf.matmul(x, kernel), bias)


def activate(x: tf.Tensor, kind: str | None, training: bool = False) -> tf.Tensor:
    """Applies the activation of that name; None leaves `x` as it is. training: a gradient will be computed."""
    if kind is None:
        return x
    if kind == "tanh":
        return tf.tanh(x)
    if kind == "relu":
        return tf.nn.relu(x)
    if training:
        return fused_ops.GELUS[kind](x)
    return tf.nn.gelu(x, approximate=kind == "gelu_tanh")  # which oneDNN fuses into the product before it


class LayerNorm(ConfiguredLayer):
    """Layer normalisation of each token (Ba et al. 2016), in float32 whatever the precision of the rest."""

    def __init__(self, config: BertConfig | dict, width: int | None = None, **options: Any):
        super().__init__(config, **options)
        wide = {"shape": (width or self.config.hidden_size,), "dtype": "float32", "autocast": False}
        self.gamma = self.add_weight(name="gamma", initializer="ones", **wide)
        self.beta = self.add_weight(name="beta", initializer="zeros", **wide)
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Normalises each row of [N, D]."""
        return fused_ops.layer_norm(x, self.gamma.value, self.beta.value, self.config.layer_norm_eps)


class Dropout(keras.layers.Layer):
    """Stateless dropout: its mask is a function of the pass's seed and of its stream; there is nothing to save.

    stream: a name, such as "layers/0/attention", which no other dropout of the model has.
    width: hidden size of the model, which decides whether compiling pays; 0: it does not.
    """

    def __init__(self, rate: float, stream: str, width: int = 0, **options: Any):
        super().__init__(**options)
        self.rate, self.stream, self.width = rate, stream, width
        self.stream_id = dropout_seeds.stream_id(stream)
        self.built = True

    def call(
        self, x: tf.Tensor, *, seed: tf.Tensor | None = None, residual: tf.Tensor | None = None
    ) -> tf.Tensor:  # [...] -> [...]
        """Drops numbers of `x`, then adds `residual`, of the same shape. seed: int32 [2]; None: nothing is dropped."""
        if seed is None or not self.rate:
            return x if residual is None else residual + x
        lanes = random_lanes(x, dropout_seeds.of_stream(seed, self.stream_id))
        return fused_ops.dropout(x, lanes, self.rate, residual, width=self.width)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        return {**super().get_config(), "rate": self.rate, "stream": self.stream, "width": self.width}


def random_lanes(x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Uniform random uint16 in the shape of `x`: two of every 32 random bits, as drawing these takes time."""
    count = math.prod(x.shape) if x.shape.is_fully_defined() else tf.size(x)
    bits = {"minval": None, "maxval": None, "dtype": tf.uint32}
    words = tf.random.stateless_uniform([(count + 1) // 2], seed, alg="philox", **bits)
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:count], tf.shape(x))


def one_hot_lookup(table: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:  # [V, D], [N] -> [N, D]
    """The rows of a table at these indices, as a matrix product (google-research/bert `embedding_lookup`)."""
    table = tf.convert_to_tensor(table)
    return tf.matmul(tf.one_hot(indices, table.shape[0], dtype=table.dtype), table)


def sinusoids(count: int, width: int) -> np.ndarray:
    """Fixed positions float32 [count, width]: sines in even columns, cosines in odd ones (Vaswani et al. 2017, 3.5)."""
    angles = np.arange(count)[:, None] / np.power(10000, np.arange(width) // 2 * 2 / width)
    return np.where(np.arange(width) % 2, np.cos(angles), np.sin(angles)).astype(np.float32)


class Embeddings(ConfiguredLayer):
    """Word + position + segment, normalised, then dropout (in this order: `embedding_postprocessor`).

    one_hot: look up tokens by a matrix product, which TPUs compute faster than a gather and its gradient; the same
        values.

    Args:
        has_segments: whether it adds a vector for the segment. Where there is one kind of segment, all have its vector.
        is_normalized: whether it normalises.
        is_projected: whether a dense layer makes the embeddings [N, E] as wide as the hidden states [N, D]; None: only
            where they are not.
    """

    one_hot = False

    def __init__(
        self,
        config: BertConfig | dict,
        *,
        has_segments: bool = True,
        is_normalized: bool = True,
        is_projected: bool | None = None,
        **options: Any,
    ):
        super().__init__(config, **options)
        self.token_table = self.new_table("token_table", self.config.vocab_size)
        if self.config.position_embedding_type == "absolute":
            rows = self.config.encoder_traits.position_offset + self.config.max_position_embeddings
            self.position_table = self.new_table("position_table", rows)
        if has_segments:
            self.segment_table = self.new_table("segment_table", self.config.type_vocab_size)
        if is_normalized:
            self.norm = self.new_norm(self.config.embedding_width)
        self.dropout = self.new_dropout(self.config.hidden_dropout_prob, "embeddings")
        if is_projected or (is_projected is None and self.config.embedding_width != self.config.hidden_size):
            self.projection = self.new_dense(self.config.embedding_width, self.config.hidden_size)
        self.built = True

    def call(
        self, token_ids: tf.Tensor, segment_ids: tf.Tensor, positions: tf.Tensor | None, *, layout: BatchLayout
    ) -> tf.Tensor:
        """Embeds ids, each [B, T], as [N, D]; positions None: 0, 1, ... in every row."""
        x = self.narrow(token_ids, segment_ids, positions, layout=layout)
        return self.projection(x, needs_gradient=layout.training) if hasattr(self, "projection") else x

    def narrow(
        self, token_ids: tf.Tensor, segment_ids: tf.Tensor, positions: tf.Tensor | None, *, layout: BatchLayout
    ) -> tf.Tensor:
        """As `call`, before the projection: [N, E]."""
        look_up = one_hot_lookup if self.one_hot else tf.gather
        x = look_up(self.token_table.value, tf.reshape(token_ids, [-1]))  # [N, E]
        x = layout.probe.embed(x) if layout.probe else x
        x = self._add_segments(x, segment_ids)
        table = self._positions()  # [P, E]
        if positions is None:
            x = layout.as_rows(x) + table[: layout.width]  # [B, T, E]
            x = tf.reshape(x, [-1, self.config.embedding_width])
        else:
            x += tf.gather(table, tf.reshape(positions, [-1]))
        x = self.norm(x) if hasattr(self, "norm") else x
        return self.dropout(x, seed=layout.seed)

    def _add_segments(self, x: tf.Tensor, segment_ids: tf.Tensor) -> tf.Tensor:
        if not hasattr(self, "segment_table"):
            return x
        table = self.segment_table.value
        if self.config.type_vocab_size == 1:
            return x + table
        return x + one_hot_lookup(table, tf.reshape(segment_ids, [-1]))  # always: the table is tiny

    def _positions(self) -> tf.Tensor:
        if self.config.position_embedding_type == "sinusoidal":
            table = sinusoids(self.config.max_position_embeddings, self.config.embedding_width)
            return tf.constant(table, self.compute_dtype)
        return self.position_table.value[self.config.encoder_traits.position_offset :]


class SharedEmbeddings(ConfiguredLayer):
    """The Embeddings of another encoder, made as wide as the hidden states of this one."""

    def __init__(self, config: BertConfig | dict, embeddings: Embeddings, **options: Any):
        super().__init__(config, **options)
        self._embeddings = embeddings  # with an underscore: its weights are those of the other encoder
        if self.config.embedding_width != self.config.hidden_size:
            self.projection = self.new_dense(self.config.embedding_width, self.config.hidden_size)
        self.built = True

    @property
    def token_table(self) -> keras.Variable:
        """The word embeddings [V, E]."""
        return self._embeddings.token_table

    def call(
        self, token_ids: tf.Tensor, segment_ids: tf.Tensor, positions: tf.Tensor | None, *, layout: BatchLayout
    ) -> tf.Tensor:
        """As Embeddings."""
        x = self._embeddings.narrow(token_ids, segment_ids, positions, layout=layout)
        return self.projection(x, needs_gradient=layout.training) if hasattr(self, "projection") else x


class SelfAttention(ConfiguredLayer):
    """Multi-head scaled dot-product self-attention (Vaswani et al. 2017). stream: of its dropout."""

    def __init__(self, config: BertConfig | dict, stream: str, **options: Any):
        super().__init__(config, **options)
        width = self.config.hidden_size
        self.scale = 1 / math.sqrt(self.config.head_size)
        self.query_key_value = self.new_dense(width, 3 * width)
        self.dropout = self.new_dropout(self.config.attention_probs_dropout_prob, stream)
        self.project_out = self.new_dense(width, width)
        self.built = True

    def call(
        self, x: tf.Tensor, *, layout: BatchLayout, positions: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """[N, D] -> [N, D] and probabilities [B, H, T, T]; with `positions` [R] only these tokens, [R, D]."""
        query, key, value = layout.split_heads(self.query_key_value(x, needs_gradient=layout.training), 3)
        if layout.probe:
            layout.probe.attention.append((query, key, value))
        drops = layout.training and self.dropout.rate
        context, probabilities = attention.dot_product_attention(  # [B, H, T, K], [B, H, T, T]
            query,
            key,
            value,
            layout.mask,
            scale=self.scale,
            dropout=(lambda x: self.dropout(x, seed=layout.seed)) if drops else None,
            training=layout.training,
        )
        context = gather_tokens(layout.join_heads(context, x), positions)
        return self.project_out(context, needs_gradient=layout.training), probabilities


class FeedForward(ConfiguredLayer):
    """Two dense layers with an activation between them. No dropout in between, as in the original."""

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
        self.attention = SelfAttention(self.config, f"{stream}/attention/probabilities", dtype=self.dtype_policy)
        self.attention_dropout = self.new_dropout(rate, f"{stream}/attention")
        self.attention_norm = self.new_norm()
        self.feed_forward = FeedForward(self.config, dtype=self.dtype_policy)
        self.feed_forward_dropout = self.new_dropout(rate, f"{stream}/feed_forward")
        self.feed_forward_norm = self.new_norm()
        self.built = True

    def call(
        self, x: tf.Tensor, *, layout: BatchLayout, positions: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """[N, D] -> [N, D] and probabilities [B, H, T, T]; with `positions` [R] only these tokens, [R, D]."""
        context, probabilities = self.attention(x, layout=layout, positions=positions)
        residual = gather_tokens(x, positions)
        x = self.attention_norm(self.attention_dropout(context, seed=layout.seed, residual=residual))
        narrow = self.feed_forward(x, layout=layout)
        x = self.feed_forward_norm(self.feed_forward_dropout(narrow, seed=layout.seed, residual=x))
        return x, probabilities

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        return {**super().get_config(), "number": self.number}


class PreNormLayer(TransformerLayer):
    """A TransformerLayer whose LayerNorms come before attention and feed-forward (pre-LN; Xiong et al. 2020).

    The sum of the residuals is not normalised: the encoder needs a LayerNorm after its last layer.
    """

    def call(
        self, x: tf.Tensor, *, layout: BatchLayout, positions: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """As TransformerLayer."""
        context, probabilities = self.attention(self.attention_norm(x), layout=layout, positions=positions)
        x = self.attention_dropout(context, seed=layout.seed, residual=gather_tokens(x, positions))
        narrow = self.feed_forward(self.feed_forward_norm(x), layout=layout)
        return self.feed_forward_dropout(narrow, seed=layout.seed, residual=x), probabilities

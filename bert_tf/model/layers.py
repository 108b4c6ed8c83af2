"""The blocks of BERT.

B rows, T slots in a row, N = B * T, D hidden size, H heads, K size of one head, V vocabulary.
Activations are two-dimensional [N, D]: a matrix product, its bias and its activation are then one kernel on a CPU.
"""

import dataclasses
import math

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model import fused_ops

MASK_BIAS = -10000.0  # added to the scores of positions that must not be seen: exactly zero after softmax


@dataclasses.dataclass(frozen=True)
class BatchLayout:
    """How texts lie in rows, and the seed of this pass's dropout: what every layer needs beside the tokens.

    `mask` [B, 1, 1 or T, T] is added to attention scores. `seed` [2] (int32) makes every dropout mask a function of
    itself and of the layer alone; None means no dropout.
    """

    rows: tf.Tensor | int
    slots: tf.Tensor | int
    heads: int
    mask: tf.Tensor
    seed: tf.Tensor | None = None

    @classmethod
    def padded(cls, lengths, slots, *, heads, dtype, seed=None, is_causal=False):
        """One text a row, `lengths` [B] slots of it used."""
        hidden = tf.range(slots)[None, :] >= lengths[:, None]  # [B, T]
        hidden = hidden[:, None, None, :]
        mask = tf.cast(hidden | _later(slots) if is_causal else hidden, dtype) * tf.cast(MASK_BIAS, dtype)
        return cls(rows=size_of(lengths, 0), slots=slots, heads=heads, mask=mask, seed=seed)

    @classmethod
    def packed(cls, text_numbers, *, heads, dtype, seed=None, is_causal=False):
        """Several texts a row, that do not see each other: `text_numbers` [B, T], 1, 2, ... by text, 0 on padding."""
        slots = size_of(text_numbers, 1)
        hidden = text_numbers[:, None, :, None] != text_numbers[:, None, None, :]  # [B, 1, T, T]
        mask = tf.cast(hidden | _later(slots) if is_causal else hidden, dtype) * tf.cast(MASK_BIAS, dtype)
        return cls(rows=size_of(text_numbers, 0), slots=slots, heads=heads, mask=mask, seed=seed)

    @property
    def learns(self):
        """Whether a gradient will be asked for."""
        return self.seed is not None

    def split_heads(self, x, parts):  # [N, parts * D] -> parts tensors [B, H, T, K]
        size = x.shape[-1] // (parts * self.heads)
        x = tf.reshape(x, [self.rows, self.slots, parts, self.heads, size])
        return tf.unstack(tf.transpose(x, [2, 0, 3, 1, 4]))  # unstack, as the gradient of slices is slow

    def join_heads(self, x, like):  # [B, H, T, K], some [N, D] -> [N, D]
        return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), tf.shape(like))  # then TensorFlow knows that they can be added

    def as_rows(self, x):  # [N, D] -> [B, T, D]
        return tf.reshape(x, [self.rows, self.slots, x.shape[-1]])


def _later(slots):
    """Bool [1, 1, T, T]: whether a slot (last) comes after the one that looks."""
    places = tf.range(slots)
    return (places[None, :] > places[:, None])[None, None]


def gather_tokens(x, slots):  # [N, D], [R] -> [R, D]
    """The tokens of some slots; None: all."""
    return x if slots is None else tf.gather(x, slots)


def size_of(tensor, axis):
    """The static size where it is known: static shapes are what XLA and TPUs need."""
    return tensor.shape[axis] if tensor.shape[axis] is not None else tf.shape(tensor)[axis]


class ConfiguredLayer(keras.layers.Layer):
    """A layer that carries the whole BertConfig, makes its variables when it is made, and its children alike."""

    def __init__(self, config, **options):
        super().__init__(**options)
        self.config = config if isinstance(config, BertConfig) else BertConfig(**config)

    def new_dense(self, size_in, size_out, activation=None):
        return Dense(self.config, size_in, size_out, activation=activation, dtype=self.dtype_policy)

    def new_norm(self):
        return LayerNorm(self.config, dtype=self.dtype_policy)

    def new_dropout(self, rate, number):
        return Dropout(rate, number, self.config.hidden_size, dtype=self.dtype_policy)

    def new_table(self, name, rows):
        """An embedding table, drawn like every kernel from a normal distribution cut off at two deviations."""
        return self.add_weight(name=name, shape=(rows, self.config.hidden_size), initializer=self.initializer())

    def initializer(self):
        return keras.initializers.TruncatedNormal(stddev=self.config.initializer_range)

    def get_config(self):
        return {**super().get_config(), "config": self.config.to_dict()}


class Dense(ConfiguredLayer):
    """A matrix product with bias and activation."""

    def __init__(self, config, size_in, size_out, activation=None, **options):
        super().__init__(config, **options)
        self.activation = activation
        self.kernel = self.add_weight(name="kernel", shape=(size_in, size_out), initializer=self.initializer())
        self.bias = self.add_weight(name="bias", shape=(size_out,), initializer="zeros")
        self.built = True

    def call(self, x, learns=False):  # [N, size_in] -> [N, size_out]
        return activate(dense(x, self.kernel.value, self.bias.value, learns), self.activation, learns)


def dense(x, kernel, bias, learns=False):  # [N, I], [I, O], [O] -> [N, O]
    """`bias_add`, not `+`: oneDNN joins it and the activation after it to the product."""
    return (fused_ops.bias_add if learns else tf.nn.bias_add)(tf.matmul(x, kernel), bias)


def activate(x, kind, learns=False):
    """The activation of that name; None leaves `x` as it is. learns: a gradient will be asked for."""
    if kind is None:
        return x
    if kind == "tanh":
        return tf.tanh(x)
    if kind == "relu":
        return tf.nn.relu(x)
    if learns:
        return fused_ops.GELUS[kind](x)
    return tf.nn.gelu(x, approximate=kind == "gelu_tanh")  # which oneDNN joins to the product before it


def softmax(scores, learns):  # [..., T] -> [..., T]
    """In float32 inside: oneDNN's softmax of bfloat16 is that by itself, its gradient is not."""
    if scores.dtype == tf.bfloat16 and not learns:
        return tf.nn.softmax(scores)
    return tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), scores.dtype)


class LayerNorm(ConfiguredLayer):
    """Normalises each token; in float32 whatever the precision of the rest."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        wide = {"shape": (self.config.hidden_size,), "dtype": "float32", "autocast": False}
        self.gamma = self.add_weight(name="gamma", initializer="ones", **wide)
        self.beta = self.add_weight(name="beta", initializer="zeros", **wide)
        self.built = True

    def call(self, x):  # [N, D] -> [N, D]
        return fused_ops.layer_norm(x, self.gamma.value, self.beta.value, self.config.layer_norm_eps)


class Dropout(keras.layers.Layer):
    """Stateless: what is dropped depends on the pass's seed and the layer's number alone; there is nothing to save.

    width: how wide the model is, which decides whether compiling pays; 0: it does not.
    """

    def __init__(self, rate, number, width=0, **options):
        super().__init__(**options)
        self.rate, self.number, self.width = rate, number, width
        self.built = True

    def call(self, x, layout, onto=None):
        """`x` with its numbers dropped out; `onto`, in the same shape, is added."""
        if not (layout.learns and self.rate):
            return x if onto is None else onto + x
        seed = layout.seed + tf.constant([self.number, 0], tf.int32)
        return fused_ops.dropout(x, random_lanes(x, seed), self.rate, onto, width=self.width)

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "number": self.number, "width": self.width}


def random_lanes(x, seed):
    """uint16 in the shape of `x`, each equally likely: two of every 32 random bits, as drawing these takes time."""
    count = math.prod(x.shape) if x.shape.is_fully_defined() else tf.size(x)
    bits = {"minval": None, "maxval": None, "dtype": tf.uint32}
    drawn = tf.random.stateless_uniform([(count + 1) // 2], seed, alg="philox", **bits)
    return tf.reshape(tf.reshape(tf.bitcast(drawn, tf.uint16), [-1])[:count], tf.shape(x))


class Embeddings(ConfiguredLayer):
    """Word + position + segment, normalised, then dropped out (in this order: `embedding_postprocessor`)."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        self.token_table = self.new_table("token_table", self.config.vocab_size)
        self.position_table = self.new_table("position_table", self.config.max_position_embeddings)
        self.segment_table = self.new_table("segment_table", self.config.type_vocab_size)
        self.norm = self.new_norm()
        self.dropout = self.new_dropout(self.config.hidden_dropout_prob, 0)
        self.built = True

    def call(self, token_ids, segment_ids, positions, *, layout):  # each [B, T] (positions None: 0, 1, ...) -> [N, D]
        x = tf.gather(self.token_table.value, tf.reshape(token_ids, [-1]))  # [N, D]
        kinds = tf.one_hot(tf.reshape(segment_ids, [-1]), self.config.type_vocab_size, dtype=x.dtype)  # [N, S]
        x += tf.matmul(kinds, self.segment_table.value)
        if positions is None:
            x = layout.as_rows(x) + self.position_table.value[: layout.slots]  # [B, T, D]
            x = tf.reshape(x, [-1, self.config.hidden_size])
        else:
            x += tf.gather(self.position_table.value, tf.reshape(positions, [-1]))
        return self.dropout(self.norm(x), layout=layout)


class SelfAttention(ConfiguredLayer):
    """Lets every token look at every token of its own text."""

    def __init__(self, config, number, **options):
        super().__init__(config, **options)
        width = self.config.hidden_size
        self.scale = 1 / math.sqrt(self.config.head_size)
        self.query_key_value = self.new_dense(width, 3 * width)
        self.dropout = self.new_dropout(self.config.attention_probs_dropout_prob, number)
        self.project_out = self.new_dense(width, width)
        self.built = True

    def call(self, x, *, layout, read=None):  # [N, D], slots [R] or None: all -> [N or R, D], [B, H, T, T]
        q, k, v = layout.split_heads(self.query_key_value(x, learns=layout.learns), 3)  # each [B, H, T, K]
        scores = tf.matmul(q * self.scale, k, transpose_b=True) + layout.mask  # [B, H, T, T]
        probabilities = softmax(scores, layout.learns)
        mixed = tf.matmul(self.dropout(probabilities, layout=layout), v)  # [B, H, T, K]
        return self.project_out(gather_tokens(layout.join_heads(mixed, x), read), learns=layout.learns), probabilities


class FeedForward(ConfiguredLayer):
    """Widens each token, applies the activation, narrows it again. No dropout in between, as in the original."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        narrow, wide = self.config.hidden_size, self.config.intermediate_size
        self.expand = self.new_dense(narrow, wide, self.config.hidden_act)
        self.contract = self.new_dense(wide, narrow)
        self.built = True

    def call(self, x, *, layout):  # [N, D] -> [N, D]
        return self.contract(self.expand(x, learns=layout.learns), learns=layout.learns)


class TransformerLayer(ConfiguredLayer):
    """Attention, then feed-forward; after each: dropout, add what came in, normalise (post-LN; paper section 3)."""

    def __init__(self, config, number, **options):
        super().__init__(config, **options)
        self.number = number
        first = 1 + 3 * number  # dropout numbers: the embeddings have 0, each layer three
        self.attention = SelfAttention(self.config, first, dtype=self.dtype_policy)
        self.attention_dropout = self.new_dropout(self.config.hidden_dropout_prob, first + 1)
        self.attention_norm = self.new_norm()
        self.feed_forward = FeedForward(self.config, dtype=self.dtype_policy)
        self.feed_forward_dropout = self.new_dropout(self.config.hidden_dropout_prob, first + 2)
        self.feed_forward_norm = self.new_norm()
        self.built = True

    def call(self, x, *, layout, read=None):
        """[N, D] -> [N, D] and attention probabilities [B, H, T, T]; of the slots `read` [R] alone [R, D]."""
        attended, probabilities = self.attention(x, layout=layout, read=read)
        x = self.attention_norm(self.attention_dropout(attended, layout=layout, onto=gather_tokens(x, read)))
        widened = self.feed_forward(x, layout=layout)
        x = self.feed_forward_norm(self.feed_forward_dropout(widened, layout=layout, onto=x))
        return x, probabilities

    def get_config(self):
        return {**super().get_config(), "number": self.number}

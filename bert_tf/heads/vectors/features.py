"""Features from an encoder: combined layers, for tokens, words or whole texts.

B rows, T positions in a row, M tokens of all texts, D hidden size, L layers, K vectors per token, E dimensions of a
vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bert_tf.config.sentence_vectors import VectorLayer
from bert_tf.heads.vectors.vector_choice import EPSILON, SMALLEST, LayerChoice, VectorChoice
from bert_tf.model.packing import PackingSpec
from bert_tf.runtime.lazy import tf

if TYPE_CHECKING:
    from bert_tf.model.heads import BertModel

ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "identity": lambda x: x,
    "tanh": lambda x: tf.tanh(x),
    "relu": lambda x: tf.nn.relu(x),
    "gelu": lambda x: tf.nn.gelu(x, approximate=False),
    "sigmoid": lambda x: tf.sigmoid(x),
    "silu": lambda x: tf.nn.silu(x),
}


def layer_vectors(hidden_states: Sequence[tf.Tensor], choice: LayerChoice) -> tf.Tensor:
    """The states of an encoder, L + 1 [B, T, D] -> the chosen layers, float32 [B, T, K, E]."""
    states = [tf.cast(hidden_states[number], tf.float32) for number in choice.layers]  # each [B, T, D]
    if choice.join == "concat":
        return tf.concat(states, -1)[:, :, None]
    if choice.join == "sum":
        weighted = [state * weight for state, weight in zip(states, choice.weights, strict=True)]
        return tf.add_n(weighted)[:, :, None]
    return tf.stack(states, 2)


def of_rows(
    model: BertModel, rows: Mapping[str, tf.Tensor], choice: VectorChoice, packing: PackingSpec | None
) -> dict[str, tf.Tensor]:
    """Rows of a model -> "tokens" [B, T, K, E], or "pooled" [B, D] for texts with pooling="pooled"."""
    encoded = model.encoder(rows, return_hidden_states=True, packing=packing)
    if choice.is_of_pooler:
        return {"pooled": tf.cast(encoded["pooled"], tf.float32)}
    vectors = layer_vectors(encoded["hidden_states"], choice.layers)
    padding = tf.shape(rows["token_ids"])[1] - tf.shape(vectors)[1]  # positions that no row uses
    return {"tokens": tf.pad(vectors, [[0, 0], [0, padding], [0, 0], [0, 0]])}


def text_vectors(
    vectors: tf.Tensor, texts: tf.Tensor, count: int | tf.Tensor, pooling: str, skipped: int = 0
) -> tf.Tensor:
    """Token vectors -> one vector per text: [M, K, E] -> [count, K, E], P times as wide for P poolings.

    Args:
        vectors: token vectors, [M, K, E].
        texts: the text of each token, int32 [M], ascending; each text has at least its first token ([CLS]).
        count: number of texts.
        pooling: one of VectorChoice's except "pooled"; [CLS] and [SEP] count like other tokens.
        skipped: leading tokens of each text that do not count (a prompt); its last token always does.
    """
    firsts, ends = (tf.searchsorted(texts, tf.range(count), side=side) for side in ("left", "right"))
    numbers = tf.range(1, tf.size(texts) + 1) - tf.gather(firsts, texts)  # 1 for a text's first token
    if skipped:
        counts = (numbers > skipped) | (tf.range(1, tf.size(texts) + 1) == tf.gather(ends, texts))
        vectors, texts, numbers = (tf.boolean_mask(each, counts) for each in (vectors, texts, numbers))
    return tf.concat([_pooled(vectors, texts, count, numbers, name) for name in pooling.split("+")], -1)


def _pooled(
    vectors: tf.Tensor, texts: tf.Tensor, count: int | tf.Tensor, numbers: tf.Tensor, pooling: str
) -> tf.Tensor:
    """`text_vectors` for one pooling, or "mean_max". numbers: the number of each token in its text, int32 [M]."""
    if pooling == "cls":
        return tf.gather(vectors, tf.searchsorted(texts, tf.range(count)))
    if pooling == "last":
        return tf.gather(vectors, tf.searchsorted(texts, tf.range(count), side="right") - 1)
    if pooling == "weighted_mean":
        weights = tf.cast(numbers, vectors.dtype)[:, None, None]
        return tf.math.segment_sum(vectors * weights, texts) / tf.math.segment_sum(weights, texts)
    if pooling == "mean_sqrt_len":
        ones = tf.ones_like(vectors[:, :1, :1])
        return tf.math.segment_sum(vectors, texts) / tf.sqrt(tf.math.segment_sum(ones, texts))
    mean, largest = tf.math.segment_mean, tf.math.segment_max
    pools = {"mean": [mean], "max": [largest], "mean_max": [mean, largest]}[pooling]
    return tf.concat([pool(vectors, texts) for pool in pools], -1)


def through_layers(vectors: tf.Tensor, layers: Sequence[VectorLayer]) -> tf.Tensor:
    """Applies the layers after pooling to text vectors: [..., E] -> [..., F]."""
    for layer in layers:
        arrays = {name: tf.constant(array) for name, array in layer.arrays.items()}
        if layer.kind == "normalize":
            vectors = normalize(vectors)
        elif layer.kind == "layer_norm":
            mean, variance = tf.nn.moments(vectors, -1, keepdims=True)
            vectors = (vectors - mean) * tf.math.rsqrt(variance + EPSILON) * arrays["gamma"] + arrays["beta"]
        else:
            output = ACTIVATIONS[layer.activation](tf.tensordot(vectors, arrays["kernel"], 1) + arrays.get("bias", 0.0))
            residual = tf.tensordot(vectors, arrays["residual"], 1) if "residual" in arrays else vectors
            vectors = output + residual if layer.is_residual else output
    return vectors


def normalize(vectors: tf.Tensor) -> tf.Tensor:
    """Vectors [..., E] divided by their lengths; zero vectors stay zero."""
    return vectors / tf.maximum(tf.norm(vectors, axis=-1, keepdims=True), SMALLEST)

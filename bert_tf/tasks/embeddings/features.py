"""What is taken from an encoder: vectors of layers, combined; of tokens, of words, of whole texts.

B rows, T positions in a row, M tokens of all texts, D hidden size, L layers, K vectors of a token, E numbers of a
vector.
"""

from collections.abc import Sequence

import tensorflow as tf

from bert_tf.tasks.embeddings.vector_choice import LayerChoice

SMALLEST = 1e-12  # smallest length that a vector is divided by


def layer_vectors(hidden_states: Sequence[tf.Tensor], choice: LayerChoice) -> tf.Tensor:
    """The states of an encoder, L + 1 [B, T, D] -> the chosen layers, float32 [B, T, K, E]."""
    states = [tf.cast(hidden_states[number], tf.float32) for number in choice.layers]  # each [B, T, D]
    if choice.join == "concat":
        return tf.concat(states, -1)[:, :, None]
    if choice.join == "sum":
        weighted = [state * weight for state, weight in zip(states, choice.weights, strict=True)]
        return tf.add_n(weighted)[:, :, None]
    return tf.stack(states, 2)


def text_vectors(vectors: tf.Tensor, texts: tf.Tensor, count: int | tf.Tensor, pooling: str) -> tf.Tensor:
    """Vectors of tokens -> one for each text: [M, K, E] -> [count, K, E], or [count, K, 2 * E] for "mean_max".

    Args:
        vectors: of tokens, [M, K, E].
        texts: the text of each token, int32 [M], ascending; each text has its first token ([CLS]) at least.
        count: number of texts.
        pooling: as in VectorChoice, except "pooled"; [CLS] and [SEP] count like other tokens.
    """
    firsts = tf.searchsorted(texts, tf.range(count))
    if pooling == "cls":
        return tf.gather(vectors, firsts)
    if pooling == "last":
        return tf.gather(vectors, tf.searchsorted(texts, tf.range(count), side="right") - 1)
    if pooling == "weighted_mean":
        weights = tf.range(1, tf.size(texts) + 1) - tf.gather(firsts, texts)  # 1 for a text's first token
        weights = tf.cast(weights, vectors.dtype)[:, None, None]
        return tf.math.segment_sum(vectors * weights, texts) / tf.math.segment_sum(weights, texts)
    if pooling == "mean_sqrt_len":
        ones = tf.ones_like(vectors[:, :1, :1])
        return tf.math.segment_sum(vectors, texts) / tf.sqrt(tf.math.segment_sum(ones, texts))
    mean, largest = tf.math.segment_mean, tf.math.segment_max
    pools = {"mean": [mean], "max": [largest], "mean_max": [mean, largest]}[pooling]
    return tf.concat([pool(vectors, texts) for pool in pools], -1)


def word_vectors(vectors: tf.Tensor, is_first: tf.Tensor, kind: str) -> tf.Tensor:
    """Vectors of tokens -> one for each word: [M, K, E] -> [words, K, E].

    is_first: whether a token begins a word, bool [M], true for the first. kind: the "first" token, or the "mean".
    """
    if kind == "first":
        return tf.boolean_mask(vectors, is_first)
    return tf.math.segment_mean(vectors, tf.cumsum(tf.cast(is_first, tf.int32)) - 1)


def normalize(vectors: tf.Tensor) -> tf.Tensor:
    """Vectors [..., E] divided by their lengths; a vector of zeros stays one."""
    return vectors / tf.maximum(tf.norm(vectors, axis=-1, keepdims=True), SMALLEST)

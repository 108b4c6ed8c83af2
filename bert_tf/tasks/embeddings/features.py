"""What is taken from an encoder: the vectors of layers, joined; of tokens, of words, of whole texts.

B rows, T slots in a row, M tokens of all texts, D hidden size, L layers, K vectors of a token, E numbers of a vector.
"""

import tensorflow as tf

SMALLEST = 1e-12  # length that a vector is divided by at least


def layer_vectors(hidden_states, choice):
    """The states of an encoder, L + 1 [B, T, D], and a LayerChoice -> float32 [B, T, K, E]."""
    states = [tf.cast(hidden_states[number], tf.float32) for number in choice.layers]  # each [B, T, D]
    if choice.join == "concat":
        return tf.concat(states, -1)[:, :, None]
    if choice.join == "sum":
        weighted = [state * weight for state, weight in zip(states, choice.weights, strict=True)]
        return tf.add_n(weighted)[:, :, None]
    return tf.stack(states, 2)


def text_vectors(vectors, texts, count, pooling):
    """Tokens as one vector for each text: [M, K, E] -> [count, K, E], or [count, K, 2 * E] of "mean_max".

    texts: int32 [M], ascending, the text of each token; each has its first token ([CLS]) and possibly others.
    pooling: as of a VectorChoice, "pooled" excepted; [CLS] and [SEP] count like other tokens.
    """
    firsts = tf.searchsorted(texts, tf.range(count))
    if pooling == "cls":
        return tf.gather(vectors, firsts)
    if pooling == "last":
        return tf.gather(vectors, tf.searchsorted(texts, tf.range(count), side="right") - 1)
    if pooling == "weighted_mean":
        places = tf.range(1, tf.size(texts) + 1) - tf.gather(firsts, texts)  # of a text's first token 1
        places = tf.cast(places, vectors.dtype)[:, None, None]
        return tf.math.segment_sum(vectors * places, texts) / tf.math.segment_sum(places, texts)
    if pooling == "mean_sqrt_len":
        ones = tf.ones_like(vectors[:, :1, :1])
        return tf.math.segment_sum(vectors, texts) / tf.sqrt(tf.math.segment_sum(ones, texts))
    mean, largest = tf.math.segment_mean, tf.math.segment_max
    pools = {"mean": [mean], "max": [largest], "mean_max": [mean, largest]}[pooling]
    return tf.concat([pool(vectors, texts) for pool in pools], -1)


def word_vectors(vectors, is_first, kind):
    """Pieces as one vector for each word: [M, K, E] -> [words, K, E].

    is_first: bool [M], whether a piece begins a word; the first does. kind: "first" or "mean" of its pieces.
    """
    if kind == "first":
        return tf.boolean_mask(vectors, is_first)
    return tf.math.segment_mean(vectors, tf.cumsum(tf.cast(is_first, tf.int32)) - 1)


def normalized(vectors):
    """Vectors [..., E] of length 1; a vector of zeros stays one."""
    return vectors / tf.maximum(tf.norm(vectors, axis=-1, keepdims=True), SMALLEST)

"""Losses for sentence embeddings, and the ranks used to score them.

B examples in a batch, F texts in an example (an anchor, its positive, and hard negatives), D vector size,
n examples of a split, C candidates.
"""

from __future__ import annotations

import numpy as np

from bert_tf.runtime.lazy import module, tf

sentence_encoder = module("bert_tf.model.sentence_encoder")
EXCLUDED = -1e9  # score of non-candidates
RANKED_AT_ONCE = 1024


def cosines(vectors: tf.Tensor) -> tf.Tensor:
    """The cosine of the first two texts of each example: [B, F, D] -> [B]."""
    units = sentence_encoder.unit_vectors(vectors)
    return tf.reduce_sum(units[:, 0] * units[:, 1], -1)


def in_batch_negatives(
    vectors: tf.Tensor, keys: tf.Tensor, weights: tf.Tensor, scale: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Cross-entropy of finding an anchor's positive among the candidates of all examples (Henderson et al. 2017).

    sentence-transformers' MultipleNegativesRankingLoss, except that a candidate with the same text as an anchor's
    positive is not used as its negative.

    Args:
        vectors: anchors, positives and any number of hard negatives, [B, F, D].
        keys: text hashes, equal for equal texts, int64 [B, F].
        weights: [B], 0 for rows that are not candidates.
        scale: factor of the cosines.

    Returns:
        Losses [B], and 1 if the positive is the nearest, else 0: [B].
    """
    units = sentence_encoder.unit_vectors(vectors)
    candidates = tf.reshape(tf.transpose(units[:, 1:], [1, 0, 2]), [-1, tf.shape(units)[-1]])  # [B * (F - 1), D]
    scores = scale * tf.matmul(units[:, 0], candidates, transpose_b=True)  # [B, B * (F - 1)]
    rows, others = tf.shape(scores)[0], tf.shape(vectors)[1] - 1  # the positives are the first candidates
    own = tf.range(tf.shape(scores)[1])[None, :] == tf.range(rows)[:, None]
    is_same = tf.reshape(tf.transpose(keys[:, 1:]), [1, -1]) == keys[:, 1:2]
    is_padding = tf.tile(weights == 0, [others])[None, :]
    scores = tf.where(~own & (is_same | is_padding), EXCLUDED, scores)
    positive = tf.linalg.diag_part(scores[:, :rows])  # [B]
    losses = tf.reduce_logsumexp(scores, 1) - positive
    return losses, tf.cast(positive >= tf.reduce_max(scores, 1), tf.float32)


def same_class(vectors: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Squared errors of the cosines of all pairs of texts, 1 for pairs of the same class and 0 for others: -> [].

    Both kinds of pairs have equal weight, as with SetFit's oversampling (Tunstall et al. 2022, arXiv:2209.11055).

    Args:
        vectors: [B, D].
        labels: class numbers [B].
        weights: [B], 0 for ignored rows.
    """
    units = sentence_encoder.unit_vectors(vectors)
    found = tf.matmul(units, units, transpose_b=True)
    is_pair = tf.linalg.set_diag(tf.matmul(weights[:, None], weights[None, :]) > 0, tf.zeros_like(weights > 0))
    is_same = labels[:, None] == labels[None, :]

    def mean(errors: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        counted = tf.cast(counts, tf.float32)
        return tf.math.divide_no_nan(tf.reduce_sum(errors * counted), tf.reduce_sum(counted))

    return (mean((1 - found) ** 2, is_pair & is_same) + mean(found**2, is_pair & ~is_same)) / 2


def cosent(similarities: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, scale: float) -> tf.Tensor:
    """log(1 + sum of exp(scale * (s_i - s_j)) over all i, j with label_i < label_j): [B], [B], [B] -> [].

    Su 2022, https://kexue.fm/archives/8847; sentence-transformers' CoSENTLoss.
    """
    differences = scale * (similarities[:, None] - similarities[None, :])
    counts = (labels[:, None] < labels[None, :]) & (weights[:, None] * weights[None, :] > 0)
    terms = tf.reshape(tf.where(counts, differences, EXCLUDED), [-1])
    return tf.reduce_logsumexp(tf.concat([[0.0], terms], 0))


def plain_cosines(vectors: np.ndarray) -> np.ndarray:
    """Like `cosines`, for an array, in float64."""
    units = vectors.astype(np.float64)
    units /= np.maximum(np.linalg.norm(units, axis=-1, keepdims=True), 1e-12)
    return (units[:, 0] * units[:, 1]).sum(-1)


def ranks(vectors: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """The rank of each positive among all candidates of a split, int64 [n], 1 for the nearest to its anchor.

    vectors: [n, F, D]. texts: string [n, F]; the candidates are the distinct texts that are not anchors. A candidate
    as near as the positive ranks before it.
    """
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    _, firsts, numbers = np.unique(texts[:, 1:].astype(str), return_index=True, return_inverse=True)
    pool = units[:, 1:].reshape(-1, units.shape[-1])[firsts]  # [C, D]
    positives = numbers.reshape(len(texts), -1)[:, 0]
    found = np.empty(len(texts), np.int64)
    for first in range(0, len(texts), RANKED_AT_ONCE):
        rows = slice(first, first + RANKED_AT_ONCE)
        scores = units[rows, 0] @ pool.T  # [rows, C]
        own = np.take_along_axis(scores, positives[rows, None], 1)
        found[rows] = (scores >= own).sum(1)
    return found

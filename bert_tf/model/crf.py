"""Linear-chain conditional random fields (Lafferty et al. 2001): a score for every pair of successive labels.

B sequences of words, W words in the longest, C labels. `potentials` float32 [C + 2, C]: [i, j] is the score of label j
after label i, [C, j] of j as the first label of a sentence, [C + 1, j] of j as the last.
"""

from typing import Any

import keras
import tensorflow as tf


class Crf(keras.layers.Layer):
    """The potentials of a CRF, initially zeros, which make it equal to a softmax per word."""

    def __init__(self, size: int, **options: Any):
        super().__init__(**options)
        shape = (size + 2, size)
        self.potentials = self.add_weight(name="potentials", shape=shape, initializer="zeros", autocast=False)
        self.built = True

    def call(self, rows: tf.Tensor) -> tf.Tensor:
        """The potentials for each of B rows, float32 [B, C + 2, C]: model outputs have a first dimension B."""
        potentials = tf.cast(self.potentials.value, tf.float32)
        return tf.tile(potentials[None], [tf.shape(rows)[0], 1, 1])


def words_first(is_word: tf.Tensor, *values: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Moves the words among positions to the front, keeping their order.

    is_word: bool [B, T]; values: [B, T, ...]. Returns the values in the new order, and the number of words, int32 [B].
    """
    order = tf.argsort(tf.cast(is_word, tf.int32), direction="DESCENDING", stable=True)  # [B, T]
    return [tf.gather(x, order, batch_dims=1) for x in values], tf.reduce_sum(tf.cast(is_word, tf.int32), 1)


def row_losses(
    logits: tf.Tensor, labels: tf.Tensor, is_word: tf.Tensor, potentials: tf.Tensor, *edges: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """The negative log-likelihood of each row divided by its words, and their number: float32 [B] each.

    Labels [B, T] form a chain from word to word; other positions (not is_word, [B, T]) have no effect. edges: `begins`
    and `ends` of `log_likelihood`.
    """
    (logits, labels), lengths = words_first(is_word, logits, labels)
    likelihood = log_likelihood(logits, labels, lengths, potentials, *edges)
    counts = tf.cast(lengths, tf.float32)
    return -likelihood / tf.maximum(counts, 1.0), counts


def log_likelihood(
    emissions: tf.Tensor,
    labels: tf.Tensor,
    lengths: tf.Tensor,
    potentials: tf.Tensor,
    begins: tf.Tensor | None = None,
    ends: tf.Tensor | None = None,
) -> tf.Tensor:
    """The log probability of label sequences, float32 [B]; 0 for a sequence of length 0.

    Args:
        emissions: label scores of words, float32 [B, W, C].
        labels: int32 [B, W].
        lengths: number of words, int32 [B]; later emissions and labels have no effect.
        potentials: [C + 2, C].
        begins: bool [B], whether a sequence starts a sentence; None: all do. If not, no start potential is added.
        ends: likewise for the end of a sentence.
    """
    size = emissions.shape[-1]
    transitions, start, end = potentials[:size], _edge(potentials[size], begins), _edge(potentials[size + 1], ends)
    is_word = tf.sequence_mask(lengths, tf.shape(emissions)[1])
    chosen = tf.one_hot(labels, size) * tf.cast(is_word, tf.float32)[:, :, None]  # [B, W, C]
    last = tf.one_hot(lengths - 1, tf.shape(labels)[1])[:, :, None] * chosen
    score = tf.reduce_sum(chosen * emissions, [1, 2]) + tf.reduce_sum(chosen[:, 0] * start, 1)
    score += tf.reduce_sum(tf.tensordot(chosen[:, :-1], transitions, 1) * chosen[:, 1:], [1, 2])
    score += tf.reduce_sum(tf.reduce_sum(last, 1) * end, 1)
    log_partition = tf.reduce_logsumexp(_forward(emissions, lengths, transitions, start)[:, -1] + end, 1)
    return tf.where(lengths > 0, score - log_partition, 0.0)


def marginals(emissions: tf.Tensor, lengths: tf.Tensor, potentials: tf.Tensor) -> tf.Tensor:
    """The probability of each label of each word, by forward-backward, float32 [B, W, C]."""
    size = emissions.shape[-1]
    transitions, start, end = potentials[:size], potentials[size], potentials[size + 1]
    forward = _forward(emissions, lengths, transitions, start, is_shifted=True)
    backwards = tf.reverse_sequence(emissions, lengths, 1)
    backward = _forward(backwards, lengths, tf.transpose(transitions), end, is_shifted=True)
    return tf.nn.softmax(forward + tf.reverse_sequence(backward, lengths, 1) - emissions)


def viterbi(emissions: tf.Tensor, lengths: tf.Tensor, potentials: tf.Tensor) -> tf.Tensor:
    """The most probable label sequences, int32 [B, W] (Viterbi 1967); undefined after `lengths`."""
    size = emissions.shape[-1]
    transitions, start, end = potentials[:size], potentials[size], potentials[size + 1]
    stays = tf.broadcast_to(tf.range(size), tf.shape(emissions)[::2])  # [B, C]

    def step(before: tuple[tf.Tensor, tf.Tensor], word: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        emission, is_first, goes_on = word
        scores = before[0][:, :, None] + transitions  # [B, C, C]
        best = _shifted(tf.where(is_first, start, tf.reduce_max(scores, 1)) + emission)
        keeps = goes_on[:, None] & ~is_first
        return (tf.where(is_first | keeps, best, before[0]), tf.where(keeps, tf.argmax(scores, 1, tf.int32), stays))

    best, previous = tf.scan(step, _words(emissions, lengths), (tf.zeros_like(emissions[:, 0]), stays))
    last = tf.argmax(best[-1] + end, -1, tf.int32)  # [B]
    labels = tf.scan(lambda after, back: tf.gather(back, after, batch_dims=1), previous, last, reverse=True)
    return tf.transpose(tf.concat([labels[1:], last[None]], 0))


def _edge(potential: tf.Tensor, applies: tf.Tensor | None) -> tf.Tensor:
    """The potential [C] of one end for rows: [1, C] or, if it applies to only some of them, [B, C]."""
    return potential[None] if applies is None else potential * tf.cast(applies, tf.float32)[:, None]


def _words(emissions: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Elements of a scan over words: scores [W, B, C], whether it is the first word [W], and within its sequence."""
    count = tf.shape(emissions)[1]
    is_word = tf.sequence_mask(lengths, count)
    return tf.transpose(emissions, [1, 0, 2]), tf.equal(tf.range(count), 0), tf.transpose(is_word)


def _shifted(scores: tf.Tensor) -> tf.Tensor:
    """The scores [B, C] less the largest of each row: sums over thousands of words would exceed float32's precision."""
    return scores - tf.reduce_max(scores, 1, keepdims=True)


def _forward(
    emissions: tf.Tensor, lengths: tf.Tensor, transitions: tf.Tensor, start: tf.Tensor, *, is_shifted: bool = False
) -> tf.Tensor:
    """Log of the sum over all label sequences up to a word that end with each label, float32 [B, W, C].

    After the end of a sequence it keeps the value of its last word. is_shifted: whether the values of each word are
    only known up to a constant, see `_shifted`.
    """

    def step(before: tf.Tensor, word: tuple[tf.Tensor, ...]) -> tf.Tensor:
        emission, is_first, goes_on = word
        summed = tf.reduce_logsumexp(before[:, :, None] + transitions, 1)  # [B, C]
        after = tf.where(is_first, tf.broadcast_to(start, tf.shape(summed)), summed) + emission
        after = _shifted(after) if is_shifted else after
        return tf.where(is_first | goes_on[:, None], after, before)

    scores = tf.scan(step, _words(emissions, lengths), tf.zeros_like(emissions[:, 0]))
    return tf.transpose(scores, [1, 0, 2])

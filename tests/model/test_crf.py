"""Conditional random fields against the enumeration of all label sequences."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model import crf

B, W, C = 4, 5, 3
LENGTHS = np.array([5, 1, 3, 0], np.int32)
BEGINS, ENDS = np.array([True, False, True, True]), np.array([False, True, True, True])


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    shapes = (B, W, C), (C + 2, C)
    emissions, potentials = (rng.normal(0, 2, shape).astype(np.float32) for shape in shapes)
    return emissions, rng.integers(0, C, (B, W)).astype(np.int32), potentials


def score(emissions, labels, potentials, begins=True, ends=True):
    """The score of one sequence of labels, as the definition has it."""
    pairs = sum(potentials[a, b] for a, b in itertools.pairwise(labels))
    edges = begins * potentials[C, labels[0]] + ends * potentials[C + 1, labels[-1]]
    return sum(emissions[t, label] for t, label in enumerate(labels)) + pairs + edges


def all_sequences(emissions, potentials, row, **edges):
    """Every sequence of labels of a row, and their scores."""
    sequences = list(itertools.product(range(C), repeat=LENGTHS[row]))
    return sequences, np.array([score(emissions[row], each, potentials, **edges) for each in sequences], np.float64)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_likelihood_marginals_and_best_labels_equal_enumeration(drawn, jit_compile):
    emissions, labels, potentials = drawn

    @tf.function(jit_compile=jit_compile, autograph=False)
    def compute():
        e, p = tf.constant(emissions), tf.constant(potentials)
        likelihood = crf.log_likelihood(e, tf.constant(labels), LENGTHS, p, tf.constant(BEGINS), tf.constant(ENDS))
        return likelihood, crf.marginals(e, LENGTHS, p), crf.viterbi(e, LENGTHS, p)

    likelihood, marginals, best = (x.numpy() for x in compute())
    assert likelihood[3] == 0 and best.dtype == np.int32
    for row, length in enumerate(LENGTHS[:3]):
        edges = {"begins": BEGINS[row], "ends": ENDS[row]}
        _, scores = all_sequences(emissions, potentials, row, **edges)
        own = score(emissions[row], labels[row, :length], potentials, **edges)
        assert likelihood[row] == pytest.approx(own - np.log(np.exp(scores).sum()), abs=1e-5)
        sequences, scores = all_sequences(emissions, potentials, row)
        shares = np.exp(scores) / np.exp(scores).sum()
        assert tuple(best[row, :length]) == sequences[shares.argmax()]
        expected = sum(share * np.eye(C)[list(each)] for share, each in zip(shares, sequences, strict=True))
        np.testing.assert_allclose(marginals[row, :length], expected, atol=1e-6)


def test_gradients_are_labels_less_their_probabilities_and_pairs_less_theirs(drawn):
    emissions, labels, potentials = (tf.constant(x) for x in drawn)
    with tf.GradientTape() as tape:
        tape.watch([emissions, potentials])
        likelihood = tf.reduce_sum(crf.log_likelihood(emissions, labels, LENGTHS, potentials))
    of_emissions, of_potentials = tape.gradient(likelihood, [emissions, potentials])
    marginals = crf.marginals(emissions, LENGTHS, potentials)
    is_word = tf.sequence_mask(LENGTHS, W, tf.float32)[:, :, None]
    np.testing.assert_allclose(of_emissions, (tf.one_hot(labels, C) - marginals) * is_word, atol=1e-5)
    step = 1e-2
    for place in ((0, 1), (C, 2), (C + 1, 0)):
        around = [tf.tensor_scatter_nd_add(potentials, [place], [sign * step]) for sign in (-1, 1)]
        low, high = (tf.reduce_sum(crf.log_likelihood(emissions, labels, LENGTHS, each)) for each in around)
        assert float(of_potentials[place]) == pytest.approx(float(high - low) / (2 * step), abs=1e-2)


def test_words_come_first_in_their_order_and_zero_potentials_are_a_softmax(drawn):
    emissions, labels, _ = drawn
    is_word = np.array([[0, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]], bool)
    (moved, names), lengths = crf.words_first(tf.constant(is_word), tf.constant(emissions), tf.constant(labels))
    assert lengths.numpy().tolist() == [3, 0, 5, 1]
    for row in range(B):
        np.testing.assert_array_equal(moved[row, : lengths[row]], emissions[row][is_word[row]])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, emissions).numpy() * is_word
    likelihood = crf.log_likelihood(moved, names, lengths, tf.zeros([C + 2, C]))
    np.testing.assert_allclose(-likelihood, losses.sum(1), atol=1e-5)

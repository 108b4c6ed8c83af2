"""The simple models that fine-tuning is compared with."""

import numpy as np
import pytest

from bert_tf.tasks import baseline

GOOD, BAD = ["a fine film", "what a fine day", "fine acting"], ["a dull film", "what a dull day", "dull acting"]
TRAIN = np.array([[text] for text in GOOD + BAD], object)
NEW = np.array([["fine"], ["dull"]], object)
CLASSES = np.array([0, 0, 0, 1, 1, 1], np.int32)
SEVERAL = np.array([[1, 1, 0]] * 3 + [[0, 1, 0]] * 3, np.float32)  # of labels that all or none have
NUMBERS = np.array([5, 5, 5, 1, 1, 1], np.float32)
VECTORS = np.array([[3, 0], [4, 1], [3, 1], [0, 3], [1, 4], [1, 3]], np.float32) * 100


def test_tf_idf_learns_classes_labels_and_numbers(recwarn):
    assert baseline.tf_idf(TRAIN, CLASSES, NEW, is_balanced=True).tolist() == [0, 1]
    assert baseline.tf_idf(TRAIN, SEVERAL, NEW, is_balanced=False).tolist() == [[1, 1, 0], [0, 1, 0]]
    numbers = baseline.tf_idf(TRAIN, NUMBERS, NEW, is_balanced=False)
    assert numbers[0] > 3 > numbers[1]
    assert not recwarn.list


def test_both_texts_of_a_pair_count():
    pairs = np.array([["a film", text] for text in GOOD + BAD], object)
    assert baseline.tf_idf(pairs, CLASSES, np.array([["a film", "dull"]], object), is_balanced=False).tolist() == [1]


def test_texts_without_words_are_no_baseline():
    assert baseline.tf_idf(np.array([[" "], [""]], object), CLASSES[2:4], NEW, is_balanced=False) is None


@pytest.mark.parametrize("labels, size", [(CLASSES, 2), (CLASSES * 2, 3), (SEVERAL, 3), (NUMBERS, 1)])
def test_head_on_vectors_is_one_dense_layer(labels, size):
    head = baseline.fit_vectors(VECTORS, labels, size)
    assert (head.kernel.shape, head.bias.shape, head.kernel.dtype) == ((2, size), (size,), np.float32)
    predicted = head.predict(VECTORS, labels)
    assert predicted.dtype == labels.dtype
    np.testing.assert_allclose(predicted, labels, atol=1.0 if labels is NUMBERS else 0)


def test_logits_of_two_classes_have_the_probabilities_of_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    standard = (VECTORS - VECTORS.mean(0)) / VECTORS.std(0).mean()
    expected = LogisticRegression(C=baseline.C[baseline.FROZEN]).fit(standard, CLASSES).predict_proba(standard)
    head = baseline.fit_vectors(VECTORS, CLASSES, 2)
    odds = np.exp(VECTORS @ head.kernel + head.bias)
    np.testing.assert_allclose(odds / odds.sum(1, keepdims=True), expected, atol=1e-4)


def test_commonest_answer():
    assert baseline.commonest(np.array([1, 0, 1], np.int32), 2).tolist() == [1, 1]
    assert baseline.commonest(SEVERAL, 2).tolist() == [[0, 1, 0]] * 2
    assert baseline.commonest(NUMBERS, 2).tolist() == [3, 3]

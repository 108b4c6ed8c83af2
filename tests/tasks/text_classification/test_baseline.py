"""TF-IDF with a linear model, which fine-tuning is compared with."""

import numpy as np

from bert_tf.tasks.text_classification import baseline

GOOD, BAD = ["a fine film", "what a fine day", "fine acting"], ["a dull film", "what a dull day", "dull acting"]
TRAIN = np.array([[text] for text in GOOD + BAD], object)
NEW = np.array([["fine"], ["dull"]], object)


def test_classes_labels_and_numbers_are_learned():
    classes = baseline.predict(TRAIN, np.array([0, 0, 0, 1, 1, 1], np.int32), NEW, is_balanced=True)
    assert classes.tolist() == [0, 1]
    several = np.array([[1, 0]] * 3 + [[0, 1]] * 3, np.int32)
    assert baseline.predict(TRAIN, several, NEW, is_balanced=False).tolist() == [[1, 0], [0, 1]]
    numbers = baseline.predict(TRAIN, np.array([5, 5, 5, 1, 1, 1], np.float32), NEW, is_balanced=False)
    assert numbers[0] > 3 > numbers[1]


def test_label_that_all_examples_have_is_learned_without_a_warning(recwarn):
    several = np.array([[1, 1]] * 3 + [[0, 1]] * 3, np.int32)
    assert baseline.predict(TRAIN, several, NEW, is_balanced=False).tolist() == [[1, 1], [0, 1]]
    assert not recwarn.list


def test_both_texts_of_a_pair_count():
    pairs = np.array([["a film", text] for text in GOOD + BAD], object)
    labels = np.array([0, 0, 0, 1, 1, 1], np.int32)
    assert baseline.predict(pairs, labels, np.array([["a film", "dull"]], object), is_balanced=False).tolist() == [1]


def test_nothing_to_learn_is_no_baseline():
    assert baseline.predict(TRAIN, np.zeros(6, np.int32), NEW, is_balanced=False) is None
    blank = np.array([[" "], [""]], object)
    assert baseline.predict(blank, np.array([0, 1]), NEW, is_balanced=False) is None

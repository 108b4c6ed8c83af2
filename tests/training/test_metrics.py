"""Scores against numbers worked out by hand."""

import math
import tracemalloc

import numpy as np
import pytest

from bert_tf.errors import UserError
from bert_tf.training import metrics

TRUTH, GUESSES = [1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0]  # 2 found, 1 missed, 1 false alarm, 2 rightly left alone


def test_binary_scores():
    assert metrics.accuracy(TRUTH, GUESSES) == pytest.approx(4 / 6)
    assert metrics.f1(TRUTH, GUESSES) == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert metrics.matthews(TRUTH, GUESSES) == pytest.approx((2 * 2 - 1 * 1) / math.sqrt(3 * 3 * 3 * 3))


def test_f1_is_of_class_1_and_macro_f1_the_mean():
    labels, predictions = [1, 0, 0, 0], [1, 1, 0, 0]
    assert metrics.f1(labels, predictions) == pytest.approx(2 / 3)
    assert metrics.macro_f1(labels, predictions) == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_best_threshold_of_a_label_has_the_best_f1():
    rng = np.random.default_rng(0)
    labels = (rng.random((40, 4)) < [0.3, 0.5, 0.1, 0.9]).astype(np.float32)
    probabilities = np.clip(0.3 * labels + rng.random(labels.shape), 0, 1).astype(np.float32)
    probabilities[:3, 1] = np.nextafter(np.float32(1), np.float32(0)), 1, 1  # neighbours, with nothing in between
    labels[:3, 1] = 0, 1, 1
    actual = metrics.best_thresholds(labels, probabilities)
    assert actual.dtype == np.float32
    for label in range(4):
        every = [0.0, *probabilities[:, label].tolist()]
        best = max(metrics.f1(labels[:, label], probabilities[:, label] > threshold) for threshold in every)
        assert metrics.f1(labels[:, label], probabilities[:, label] > actual[label]) == pytest.approx(best)
    apart = np.array([[0.1], [0.2], [0.6], [0.7]], np.float32)
    assert metrics.best_thresholds(np.array([[0], [0], [1], [1]]), apart) == pytest.approx([0.4])
    assert metrics.best_thresholds(np.zeros([4, 1]), apart) == [0.5]
    neighbours = np.array([[1], [np.nextafter(np.float32(1), np.float32(0))]], np.float32)
    assert ((neighbours > metrics.best_thresholds(np.array([[1], [0]]), neighbours)) == [[True], [False]]).all()


def test_multi_label_accuracy_needs_all_labels_and_f1_counts_each():
    labels, predictions = [[1, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 1, 0]]
    assert metrics.accuracy(labels, predictions) == 0.5
    assert metrics.micro_f1(labels, predictions) == pytest.approx(2 * 2 / (2 * 2 + 1))


def test_correlations_and_squared_error():
    labels, predictions = [1.0, 2.0, 3.0, 4.0], [1.0, 4.0, 9.0, 16.0]
    assert metrics.spearman(labels, predictions) == pytest.approx(1)
    assert metrics.pearson(labels, predictions) == pytest.approx(25 / math.sqrt(5 * 129))
    assert metrics.mean_squared_error(labels, predictions) == pytest.approx((0 + 4 + 36 + 144) / 4)


@pytest.mark.parametrize("score", [metrics.pearson, metrics.spearman, metrics.matthews])
def test_constant_predictions_have_zero_correlation(score):
    assert score([0, 1, 1], [1, 1, 1]) == 0.0


def test_class_table_and_confusion_matrix_add_up():
    labels, predictions = [0, 0, 1, 2], [0, 1, 1, 1]
    assert metrics.per_class(labels, predictions, ["a", "b", "c", "d"]) == [
        {"label": "a", "precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "count": 2},
        {"label": "b", "precision": pytest.approx(1 / 3), "recall": 1.0, "f1": 0.5, "count": 1},
        {"label": "c", "precision": 0.0, "recall": 0.0, "f1": 0.0, "count": 1},
        {"label": "d", "precision": 0.0, "recall": 0.0, "f1": 0.0, "count": 0},
    ]
    assert metrics.confusions(labels, predictions, "abc") == {"confusion": [[1, 1, 0], [0, 1, 0], [0, 1, 0]]}


def test_confusions_of_ten_thousand_classes_are_bounded():
    names = [str(number) for number in range(10_000)]
    labels = np.arange(10_000)
    predictions = np.where(labels < 3, 5, labels)
    predictions[9000:] = labels[9000:] - 1
    tracemalloc.start()
    found = metrics.confusions(np.append(labels, 2), np.append(predictions, 5), names)["most_confused"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[:2] == [{"label": "2", "predicted": "5", "count": 2}, {"label": "0", "predicted": "5", "count": 1}]
    assert len(found) == metrics.MAX_CONFUSED and peak < 2**24


@pytest.fixture
def my_lab(tmp_path, monkeypatch):
    """A module outside of the package with a score."""
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "scores.py").write_text(
        "def errors(labels, predictions):\n    return -sum(labels != predictions)"
    )
    monkeypatch.syspath_prepend(tmp_path)


def test_metric_is_found_by_name_or_outside_module(my_lab):
    assert metrics.score_of("macro_f1") is metrics.macro_f1
    assert metrics.score_of("my_lab.scores:errors")(np.array([1, 0, 1]), np.array([1, 1, 1])) == -1


@pytest.mark.parametrize("name", ["kappa", "my_lab.scores", "my_lab.scores:kappa", "no_lab:kappa", ":kappa", ""])
def test_unknown_metric_error_lists_known_metrics(my_lab, name):
    with pytest.raises(UserError, match=f"no score '{name}'. Known: accuracy, .*such as my_lab.scores:kappa"):
        metrics.score_of(name)


@pytest.mark.parametrize(("count", "entry"), [(500, "confusion"), (501, "most_confused")])
def test_confusions_are_a_matrix_up_to_a_number_of_classes(count, entry):
    names = [f"class {number}" for number in range(count)]
    (name, found), *others = metrics.confusions([0, 1], [count - 1, 1], names).items()
    assert name == entry and not others
    if entry == "confusion":
        assert found[0][count - 1] == found[1][1] == 1
    else:
        assert found == [{"label": "class 0", "predicted": "class 500", "count": 1}]

"""Expected calibration error and temperature against computations in plain loops."""

import math

import numpy as np
import pytest

from bert_tf.errors import UserError
from bert_tf.training import confidence


def plain_error(confidences, is_right, bins=15):
    total = 0.0
    for number in range(bins):
        inside = [i for i, p in enumerate(confidences) if number / bins < p <= (number + 1) / bins]
        if inside:
            mean = sum(confidences[i] for i in inside) / len(inside)
            share = sum(is_right[i] for i in inside) / len(inside)
            total += len(inside) / len(confidences) * abs(mean - share)
    return total


def plain_loss(logits, labels, temperature):
    total = 0.0
    for row, right in zip(logits, labels, strict=True):
        shares = [math.exp(value / temperature) for value in row]
        good = sum(share for share, is_right in zip(shares, right, strict=True) if is_right)
        total -= math.log(good / sum(shares) if any(right) else 1 - shares[0] / sum(shares))
    return total / len(logits)


@pytest.fixture
def overconfident():
    """Logits that are three times what they should be: labels are drawn from softmax(logits / 3)."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 4, [4000, 3])
    shares = confidence.softmax(logits, 3.0)
    return logits, np.eye(3)[[rng.choice(3, p=row) for row in shares]]


def test_error_matches_the_plain_computation(overconfident):
    logits, labels = overconfident
    shares = confidence.softmax(logits)
    np.testing.assert_allclose(shares[0], [math.exp(x) / sum(map(math.exp, logits[0])) for x in logits[0]])
    confidences, is_right = shares.max(1), labels[np.arange(len(labels)), shares.argmax(1)]
    actual = confidence.expected_calibration_error(confidences, is_right)
    assert actual == pytest.approx(plain_error(confidences, is_right)) and actual > 0.1
    assert confidence.expected_calibration_error([0.8] * 5, [1, 1, 1, 1, 0]) == pytest.approx(0)
    assert confidence.expected_calibration_error([0.0, 1.0], [1, 0]) == 1


def test_temperature_is_the_best_of_a_grid_and_found_again(overconfident):
    logits, labels = overconfident
    right = labels.argmax(1)[:, None]
    found = confidence.fit_temperature(logits, right)
    grid = np.exp(np.linspace(-1, 3, 81))
    best = min(grid, key=lambda temperature: plain_loss(logits[:400], labels[:400], temperature))
    assert found == pytest.approx(3, rel=0.05)
    assert confidence.fit_temperature(logits[:400], right[:400]) == pytest.approx(best, rel=0.06)
    values = confidence.report(logits, right)
    assert values["temperature"] == found and values["with_temperature"] < 0.03 < values["expected_calibration_error"]
    assert sum(row["count"] for row in values["bins"]) == 4000


def test_answers_of_different_number_and_none_right():
    logits = [np.array([3.0, 1.0]), np.array([2.0, 1.5, -1.0]), np.array([0.5, 0.0]), np.array([4.0])] * 10
    labels = [np.array([1, 0]), np.array([0, 1, 1]), np.array([0, 0]), np.array([1])] * 10
    found = confidence.fit_temperature(logits, [np.flatnonzero(row) for row in labels])
    losses = [plain_loss(logits, labels, found * factor) for factor in (0.97, 1, 1.03)]
    assert losses[1] == min(losses) and 0.1 < found < 10
    assert confidence.fit_temperature([], []) == 1


def test_a_temperature_that_does_not_help_is_not_offered():
    values = {"expected_calibration_error": 0.2, "with_temperature": 0.3, "temperature": 0.9}
    assert confidence.sentence(values) == "expected calibration error 0.200; a temperature does not lower it"
    assert "0.100 with temperature 0.90" in confidence.sentence(values | {"with_temperature": 0.1})


@pytest.mark.parametrize("share, expected", [(1.0, 1.0), (0.0, 1.0), (0.75, 4 / math.log(3))])
def test_a_temperature_at_the_end_of_the_range_is_none(share, expected):
    """With all predictions right the best temperature would be 0, with chance it would be infinite."""
    labels = np.arange(80) % 2 if share else np.arange(80) % 4 // 2
    flips = np.arange(80) % 8 > 8 * share - 1 if 0 < share < 1 else np.zeros(80, bool)
    logits = np.stack([4.0 * (np.arange(80) % 2 == 0), 4.0 * (np.arange(80) % 2 == 1)], 1)
    right = (labels ^ flips)[:, None]
    assert confidence.fit_temperature(logits, right) == pytest.approx(expected, rel=1e-2)
    values = confidence.report(logits, right)
    assert (values["with_temperature"] is None) == (expected == 1)
    assert ("temperature" in confidence.sentence(values)) == (expected != 1)
    few = confidence.report(logits[:48], right[:48])
    assert few["with_temperature"] is None and "temperature" not in confidence.sentence(few)


def test_blocks_change_no_bit(overconfident, monkeypatch):
    logits, labels = overconfident
    right = labels.argmax(1)
    expected = confidence.fit_temperature(logits, right[:, None]), confidence.log_losses(logits, right, 2.0)
    np.testing.assert_allclose(
        expected[1][:3], [plain_loss(logits[i : i + 1], labels[i : i + 1], 2.0) for i in range(3)]
    )
    monkeypatch.setattr(confidence, "BLOCK", 100)
    assert confidence.fit_temperature(logits, right[:, None]) == expected[0]
    np.testing.assert_array_equal(confidence.log_losses(logits, right, 2.0), expected[1])


@pytest.mark.parametrize("text", ["", "0", "-1", "inf", "nan", "warm"])
def test_temperatures_that_are_none_are_refused(text):
    with pytest.raises(UserError, match=f"temperature is {text}; expected a number above 0, or best"):
        confidence.parse_temperature(text)


def test_few_examples_have_the_temperature_of_the_prior_and_many_their_own(overconfident):
    logits, labels = overconfident
    right = labels.argmax(1)[:, None]
    prior = confidence.Prior(4.0, 0.5)
    assert confidence.fit_temperature([], [], prior) == 4
    assert confidence.fit_temperature(logits, right, prior) == pytest.approx(
        confidence.fit_temperature(logits, right), rel=0.02
    )
    all_right = np.array([[9.0, 0.0]] * 12)
    found = confidence.fit_temperature(all_right, np.zeros((12, 1), int), prior)
    assert 2.5 < found < 4
    assert confidence.softmax(all_right[0], found)[0] < 0.98
    values = confidence.report(all_right, np.zeros((12, 1), int), prior)
    assert values["is_used"] and confidence.sentence(values) == f"probabilities have the temperature {found:.2f}"
    assert "(without it 0." in confidence.sentence(confidence.report(logits, right, prior))


def test_bins_of_confidence_have_their_edges():
    rows = confidence.reliability([0.05, 0.1, 0.11, 1.0], [0, 1, 1, 1])
    width = 1 / confidence.BINS
    for row in rows:
        assert row["to"] - row["from"] == pytest.approx(width) and row["from"] < row["confidence"] <= row["to"] + 1e-9
    assert sum(row["count"] for row in rows) == 4 and rows[-1]["to"] == 1

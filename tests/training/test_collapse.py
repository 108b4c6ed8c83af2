"""Predictions that are all the same, or do not follow the labels."""

import numpy as np
import pytest

from bert_tf.training import metrics

LABELS, NUMBERS = [0, 1, 1, 0], [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    "labels, predictions, expected",
    [
        (LABELS, [1, 1, 1, 1], "all 4 predictions are the same"),
        (LABELS, [1, 1, 1, 0], None),
        ([1, 1, 1, 1], [1, 1, 1, 1], None),  # nothing else can be predicted
        ([[1, 0], [0, 1]], [[0, 0], [0, 0]], "all 2 predictions are the same"),
        ([[1, 0], [0, 1]], [[0, 0], [0, 1]], None),
        (NUMBERS, [2.5, 2.5, 2.5, 2.5], "all 4 predicted numbers are nearly the same"),
        (NUMBERS, [2.5, 2.5, 2.5, 2.51], "all 4 predicted numbers are nearly the same"),
        (NUMBERS, [2.0, 1.0, 1.0, 2.0], "the correlation is 0.00"),
        (NUMBERS, [4.0, 3.0, 2.0, 1.0], "the correlation is -1.00"),
        (NUMBERS, [1.0, 1.1, 0.9, 1.2], None),
    ],
)
def test_worthless_predictions_are_detected(labels, predictions, expected):
    reason = metrics.collapse_reason(np.array(labels), np.array(predictions))
    assert reason is None if expected is None else expected in reason

"""Lengths of texts and the padding they make."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.heads.base import text_lengths
from bert_tf.heads.base.text_lengths import statistics


def test_lengths_histogram_and_three_kinds_of_padding():
    actual = statistics(np.array([4] * 8 + [8] * 8 + [40] * 16), 32)
    assert actual.pop("lengths") == {"width": 2, "counts": [0, 8, 0, 8, *[0] * 15, 16]}
    assert actual == {
        "mean_length": 23.0,
        "longest": 40,
        "longer_than_32": 16,
        "padding_in_full_rows": pytest.approx(1 - (4 * 8 + 8 * 8 + 32 * 16) / (32 * 32), abs=1e-3),
        "padding_in_batches": pytest.approx(0.406, abs=1e-3),  # the longest has 32
        "padding_when_packed": pytest.approx(0.05, abs=0.05),
    }


def test_single_text_is_padded_in_full_rows_only():
    actual = statistics(np.array([5]), 20)
    assert (actual["padding_in_full_rows"], actual["padding_in_batches"], actual["padding_when_packed"]) == (0.75, 0, 0)
    assert actual["lengths"] == {"width": 1, "counts": [0, 0, 0, 0, 1]}


def test_pretraining_rows_are_sampled_with_their_predictions():
    rows = {"lengths": [8, 6, 0], "masked_lm_weights": [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]}  # the last fills a batch
    batches = tf.data.Dataset.from_tensors({name: tf.constant(values) for name, values in rows.items()}).repeat(800)
    actual = text_lengths.of_rows(batches, 8)
    assert actual.pop("lengths") == {"width": 1, "counts": [0, 0, 0, 0, 0, 683, 0, 683]}
    assert actual == {
        "rows_in_the_sample": 1366,  # of 2048
        "predictions_per_row": 1.5,
        "most_predictions_in_a_row": 2,
        "mean_length": 7.0,
        "longest": 8,
        "padding_in_full_rows": 0.125,
        "padding_in_batches": 0.125,
        "padding_when_packed": pytest.approx(0.07, abs=0.07),
    }
    assert text_lengths.of_rows(batches.take(0), 8) == {}

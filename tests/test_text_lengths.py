"""Lengths of texts and the padding they make."""

import numpy as np
import pytest

from bert_tf.text_lengths import statistics


def test_lengths_are_counted_under_bars_and_padding_is_told_three_ways():
    found = statistics(np.array([4] * 8 + [8] * 8 + [40] * 16), 32)
    assert found.pop("lengths") == {"width": 2, "counts": [0, 8, 0, 8, *[0] * 15, 16]}
    assert found == {
        "mean_length": 23.0,
        "longest": 40,
        "longer_than_32": 16,
        "padding_in_full_rows": pytest.approx(1 - (4 * 8 + 8 * 8 + 32 * 16) / (32 * 32), abs=1e-3),
        "padding_in_batches": pytest.approx(0.406, abs=1e-3),  # the longest has 32
        "padding_when_packed": pytest.approx(0.05, abs=0.05),
    }


def test_one_text_alone_has_no_padding_but_in_a_full_row():
    found = statistics(np.array([5]), 20)
    assert (found["padding_in_full_rows"], found["padding_in_batches"], found["padding_when_packed"]) == (0.75, 0, 0)
    assert found["lengths"] == {"width": 1, "counts": [0, 0, 0, 0, 1]}

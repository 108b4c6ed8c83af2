"""Sliding windows: they cover a text, the last ends with it, each token has the original's max-context window."""

import numpy as np
import oracle_squad
import pytest
import tensorflow as tf

from bert_tf.data import windows
from bert_tf.errors import UserError
from bert_tf.text.tokenizer_settings import DEFAULT


def spans_of(plan, text):
    """[(start, size)] of the windows of a text."""
    numbers = tf.range(plan.counts[text])
    starts = plan.starts(tf.fill([plan.counts[text]], text), numbers).numpy()
    return [(int(start), int(plan.sizes[text])) for start in starts]


@pytest.mark.parametrize("room, stride", [(1, 1), (5, 1), (5, 3), (5, 5), (8, 6), (9, 4)])
def test_windows_cover_the_text_and_best_window_matches_the_original(room, stride):
    lengths = tf.range(40)
    (plan,) = windows.segment_windows([lengths], room, stride, DEFAULT)
    for length in range(1, 40):
        spans = spans_of(plan, length)
        assert spans[0] == (0, min(room, length)) and sum(spans[-1]) == length
        assert all(after[0] - before[0] <= stride for before, after in zip(spans, spans[1:], strict=False))
        positions = tf.range(length)
        numbers, inside = (x.numpy() for x in windows.best_windows(positions, tf.fill([length], length), plan))
        for position in range(length):
            assert oracle_squad.is_max_context(spans, numbers[position], position)
            assert inside[position] == position - spans[numbers[position]][0]


def test_longer_segment_of_a_pair_slides_and_stride_0_truncates():
    lengths = [tf.constant([2, 9, 4, 0]), tf.constant([9, 2, 4, 0])]
    first, second = windows.segment_windows(lengths, 6, 3, DEFAULT)
    assert (first.sizes.numpy().tolist(), second.sizes.numpy().tolist()) == ([2, 4, 3, 0], [4, 2, 3, 0])
    assert (first.counts.numpy().tolist(), second.counts.numpy().tolist()) == ([1, 3, 1, 1], [3, 1, 2, 1])
    assert (spans_of(first, 1), spans_of(second, 2)) == ([(0, 4), (3, 4), (5, 4)], [(0, 3), (1, 3)])
    truncated = windows.segment_windows(lengths, 6, 0, DEFAULT)
    assert all(np.all(each.counts == 1) and np.all(each.lengths == each.sizes) for each in truncated)


def test_windows_are_numbered_per_text_and_ranges_gathered():
    owners, numbers = windows.enumerate_windows(tf.constant([2, 0, 3]))
    assert (owners.numpy().tolist(), numbers.numpy().tolist()) == ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2])
    rows = windows.gather_ranges(tf.constant([5, 6, 7, 8]), tf.constant([2, 0, 4]), tf.constant([2, 3, 0]))
    assert rows.to_list() == [[7, 8], [5, 6, 7], []]


@pytest.mark.parametrize("stride", [0, 127])
def test_stride_that_leaves_gaps_is_refused(stride):
    windows.check_stride(126, 128)
    with pytest.raises(UserError, match=f"doc_stride is {stride}; expected 1 to 126, the number of tokens"):
        windows.check_stride(stride, 128)

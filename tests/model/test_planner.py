"""Which texts the host computes together, padded or in shared rows, in shapes of any size or of a few."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model.packing import (
    PADDED,
    SHARED,
    RowAssignment,
    Shape,
    first_fit,
    first_fit_decreasing,
    pack_batch,
    static_planner,
)

LENGTHS = [[3], [12] * 5, [0, 0], [12, 1, 7, 3, 0, 2, 9, 4, 4, 4, 1], [1] * 40]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_every_text_lies_once_in_a_row_of_one_of_the_shapes(lengths):
    planner = static_planner(12, texts_per_row=3, rows=(1, 4))
    placements = planner.plan(lengths)
    assert sorted(np.concatenate([each.indices for each in placements])) == list(range(len(lengths)))
    for each in placements:
        assert each.shape in planner.shapes()
        tables = each.assignment(lengths)
        assert tables["row_sources"].shape == (each.shape.rows, each.shape.width)
        sizes = np.array(lengths)[each.indices]
        sources = tables["row_sources"]
        held = [text * each.shape.width + slot for text, size in enumerate(sizes) for slot in range(size)]
        assert sorted(sources[sources >= 0]) == held
        owners = np.where(sources >= 0, sources // each.shape.width, -1)
        assert all(len(np.flatnonzero((owners == text).any(1))) == 1 for text in np.flatnonzero(sizes))


def test_shapes_are_few_and_no_larger_than_texts_or_memory_allow():
    assert [each.rows * each.width for each in static_planner(20).shapes()] == [20, 160, 1280]
    assert static_planner(384).widths == (32, 128, 256, 384)
    assert max(each.rows * each.width for each in static_planner(4096).shapes()) <= 1 << 15
    for count, width in ((1, 32), (4, 128)):
        assert static_planner(128).plan([30] * count)[0].shape == Shape(8, 1, width)
    calls = static_planner(12, rows=(1, 4)).plan([12, 0])
    assert [each.shape.rows for each in calls] == [1], "an empty text needs no row"


def test_calls_are_of_similar_lengths_or_share_rows():
    assert SHARED.plan([]) == SHARED.shapes() == []
    padded = SHARED.plan([9, 5000, 9, 8])  # rows of 5,000 would cost more
    assert [call.indices.tolist() for call in padded] == [[1], [0, 2, 3]]
    lengths = [*np.random.default_rng(0).integers(5, 60, 128).tolist(), *[16] * 300]
    for planner, most in ((PADDED, 1.15), (SHARED, 1.02)):
        found = planner.plan(lengths)
        assert sorted(np.concatenate([call.indices for call in found])) == list(range(428))
        assert all(call.shape.rows * call.shape.width <= planner.max_positions for call in found)
        assert sum(call.shape.rows * call.shape.width for call in found) < most * sum(lengths)


def test_first_fit_on_the_host_is_that_of_the_graph():
    draws, specs = np.random.default_rng(0), [tf.TensorSpec([None], tf.int32), tf.TensorSpec([3], tf.int32)]
    in_graph = tf.function(first_fit_decreasing, specs, autograph=False)
    for _ in range(20):
        lengths = np.sort(draws.integers(1, draws.integers(2, 60), draws.integers(1, 40)))[::-1].astype(np.int32)
        widths = lengths[:1] + np.array([0, 7, 60], np.int32)
        for width, starts, rows in zip(widths, *(x.numpy() for x in in_graph(lengths, widths)[:2]), strict=True):
            np.testing.assert_array_equal(first_fit(lengths, width, rows=rows, texts=len(lengths)), starts)


def test_placement_on_the_host_is_that_of_the_graph():
    lengths = sorted([3, 9, 4, 2, 5, 3, 1], reverse=True)
    starts, rows, _ = first_fit_decreasing(tf.constant(lengths), tf.constant([9]))
    np.testing.assert_array_equal(first_fit(lengths, 9, rows=int(rows[0]), texts=99), starts[0])
    graph = RowAssignment.of(tf.constant(lengths), 9, starts[0], rows[0], 9)
    (placement,) = static_planner(9, texts_per_row=3, rows=(3,)).plan(lengths)
    tables = placement.assignment(lengths)
    np.testing.assert_array_equal(tables["row_sources"], graph.sources)
    np.testing.assert_array_equal(tables["row_targets"][: len(lengths)], graph.targets)


@pytest.mark.parametrize(("rows", "all_fit"), [(1, [False, False]), (2, [False, True])])
def test_batch_is_packed_slice_by_slice_if_it_fits(rows, all_fit):
    lengths = np.array([[12, 6], [7, 4], [3, 9], [4, 2]])
    tables = pack_batch(lengths, 12, slices=2, rows=rows)
    assert tables["row_fits"].tolist() == all_fit
    assert tables["row_sources"].shape == (2 * rows, 12) and tables["row_targets"].shape == (8, 12)
    if all_fit[1]:
        assert (tables["row_targets"][4:, 0]).tolist() == [9, 0, 12, 16], "of [3, 9, 4, 2], in its own order"

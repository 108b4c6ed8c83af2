"""Texts that the host packs into few static shapes."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.model import heads
from bert_tf.model.sequence_packing import RowAssignment, first_fit_decreasing
from bert_tf.model.static_rows import StaticRows
from bert_tf.model.static_shapes import Ladder, Shape, first_fit, pack_batch

LENGTHS = [[3], [12] * 5, [0, 0], [12, 1, 7, 3, 0, 2, 9, 4, 4, 4, 1], [1] * 40]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_every_text_lies_once_in_a_row_of_a_shape_of_the_ladder(lengths):
    ladder = Ladder(12, texts_per_row=3, rows=(1, 4))
    placements = list(ladder.place(lengths))
    assert sorted(np.concatenate([each.indices for each in placements])) == list(range(len(lengths)))
    for each in placements:
        assert each.shape in ladder.shapes()
        tables = each.assignment(lengths)
        assert tables["row_sources"].shape == (each.shape.rows, each.shape.width)
        sizes = np.array(lengths)[each.indices]
        sources = tables["row_sources"]
        held = [text * each.shape.width + slot for text, size in enumerate(sizes) for slot in range(size)]
        assert sorted(sources[sources >= 0]) == held
        owners = np.where(sources >= 0, sources // each.shape.width, -1)
        assert all(len(np.flatnonzero((owners == text).any(1))) == 1 for text in np.flatnonzero(sizes))


def test_shapes_are_few_and_no_larger_than_texts_or_memory_allow():
    assert [each.rows * each.width for each in Ladder(20).shapes()] == [20, 160, 1280]
    assert Ladder(384).widths == (32, 128, 256, 384)
    assert max(each.rows * each.width for each in Ladder(4096).shapes()) <= 1 << 15
    for count, width in ((1, 32), (4, 128)):
        assert list(Ladder(128).place([30] * count))[0].shape == Shape(8, 1, width)
    assert [each.shape.rows for each in Ladder(12, rows=(1, 4)).place([12, 0])] == [1], "an empty text needs no row"


def test_placement_on_the_host_is_that_of_the_graph():
    lengths = sorted([3, 9, 4, 2, 5, 3, 1], reverse=True)
    starts, rows, _ = first_fit_decreasing(tf.constant(lengths), tf.constant([9]))
    np.testing.assert_array_equal(first_fit(lengths, 9, rows=int(rows[0]), texts=99), starts[0])
    graph = RowAssignment.of(tf.constant(lengths), 9, starts[0], rows[0], 9)
    (placement,) = Ladder(9, texts_per_row=3, rows=(3,)).place(lengths)
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


def test_compiled_rows_equal_the_model_run_on_each_text_alone():
    model = heads.BertModel(tiny.CONFIG)
    heads.weights.assign(model, tiny.random_weights(model))
    rows = {name: tiny.batch(9, slots=12)[name].astype(np.int32) for name in ("token_ids", "segment_ids", "lengths")}
    rows["lengths"][3] = 2
    static = StaticRows(lambda rows: model(rows), Ladder(12, texts_per_row=2, rows=(1, 4)))
    actual, expected = static(rows), model({name: tf.constant(x) for name, x in rows.items()})
    np.testing.assert_allclose(actual["pooled"], expected["pooled"], atol=1e-5)
    used = np.arange(12) < rows["lengths"][:, None]
    np.testing.assert_allclose(actual["tokens"][used], expected["tokens"].numpy()[used], atol=1e-4)
    nothing = static({name: x[:0] for name, x in rows.items()})
    assert {name: x.shape for name, x in nothing.items()} == {"pooled": (0, 16), "tokens": (0, 12, 16)}

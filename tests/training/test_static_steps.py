"""What GPUs and TPUs are given: static shapes that XLA compiles, and the same answers."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny
from training_steps import CONFIG, learner, passes

from bert_tf.model import heads
from bert_tf.model.packing import pack_batch

pytestmark = [pytest.mark.optimized_graphs, pytest.mark.slow]

LENGTHS = [3, 9, 0, 4, 2, 5, 3, 1]  # in rows of twelve: 9 3, 5 4 3, 2 1
HEADS = {
    "causal": lambda: heads.Classifier(dataclasses.replace(tiny.CONFIG, is_causal=True), 3),
    "span": lambda: heads.SpanFinder(tiny.CONFIG),
    "choice": lambda: heads.MultipleChoice(tiny.CONFIG),
}


def inputs_of(lengths, slots=12):
    used = np.arange(slots) < np.array(lengths)[:, None]
    ids = np.where(used, np.random.default_rng(1).integers(5, 30, used.shape), 0)
    named = {"token_ids": ids, "segment_ids": ids % 2, "lengths": np.array(lengths)}
    return {name: tf.constant(x, tf.int32) for name, x in named.items()}


@pytest.mark.parametrize("head", HEADS)
def test_packed_static_rows_match_padded_rows_under_xla(head):
    model = tiny.randomized(HEADS[head]())
    inputs = inputs_of(LENGTHS)
    if head == "choice":
        inputs = {name: tf.reshape(x, [4, 2, *x.shape[1:]]) for name, x in inputs.items()}
    expected, rows = model(inputs), []
    first = model.encoder.layers[0]
    plain, first.call = first.call, lambda x, layout, indices: rows.append(layout.rows) or plain(x, layout=layout)
    tables = pack_batch(inputs["lengths"].numpy(), 12, slices=1, rows=3)
    all_fit = tables.pop("row_fits")
    inputs |= {name: tf.constant(x) for name, x in tables.items()}
    actual = tf.function(lambda: model(inputs), jit_compile=True)()
    assert all_fit.all() and rows == [3]
    has_text = np.array(LENGTHS) > 0
    for name, value in expected.items():
        value, ours = (np.reshape(x, [8, -1]) for x in (value.numpy(), actual[name].numpy()))
        if value.shape[1] > 3:  # of each slot
            has_text = np.repeat(np.arange(12) < np.array(LENGTHS)[:, None], value.shape[1] // 12, -1)
        np.testing.assert_allclose(ours[has_text], value[has_text], atol=1e-5)


def batch_of(lengths):
    batch = tiny.batch(rows=len(lengths))
    return tiny.tensors({**batch, "lengths": np.array(lengths)})


@pytest.mark.slow
def test_packed_static_step_matches_plain_step():
    known = dataclasses.replace(CONFIG, jit_compile="true")
    task = tiny.task(next_sentence_weight=0.0)  # so that some weights have no gradient
    plain = passes(learner(known, task=task))
    of_two_rows = learner(dataclasses.replace(known, packed_rows=2), task=task)
    packed = passes(of_two_rows, jit_compile=True)
    for lengths, all_fit in [([5, 7, 6, 6], True), ([12, 12, 11, 9], False), ([7, 7, 5, 5], True)]:
        batch = batch_of(lengths)
        with_rows = of_two_rows.with_rows(batch)
        assert with_rows["row_fits"].numpy().tolist() == [all_fit]
        actual, expected = packed(with_rows), plain(batch)
        assert [x is None for x in actual] == [x is None for x in expected] and any(x is None for x in expected)
        for ours, theirs in zip(actual, expected, strict=True):
            if theirs is not None:
                np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.slow
def test_whole_packed_step_compiles_with_static_shapes():
    ours = learner(dataclasses.replace(CONFIG, jit_compile="true", packed_rows=3, gradient_checkpointing=True))
    compiled = tf.function(ours._on_replica, jit_compile=True, autograph=False)
    code = compiled.experimental_get_compiler_ir(ours.with_rows(batch_of([5, 7, 6, 6])))(stage="hlo")
    assert "f32[36,16]" in code and "f32[48,16]" in code, "tokens of three rows, and of four"
    assert "<=" not in code, "a dynamic dimension is written <=N"

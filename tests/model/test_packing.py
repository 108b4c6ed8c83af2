"""Several texts in a row: where they lie, and that nothing else differs."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.model import heads, weights
from bert_tf.model.packing import (
    CPU_COSTS,
    PackingSpec,
    RowAssignment,
    RowCosts,
    choose_rows,
    first_fit_decreasing,
    round_up_row_count,
)

LENGTHS = [3, 9, 0, 4, 2, 5, 3, 1]
SLOTS = 12


def inputs_of(lengths, slots=SLOTS, seed=1):
    """Random texts of these lengths."""
    draws = np.random.default_rng(seed)
    used = np.arange(slots) < np.array(lengths)[:, None]
    return {
        "token_ids": tf.constant(np.where(used, draws.integers(5, tiny.CONFIG.vocab_size, used.shape), 0), tf.int32),
        "segment_ids": tf.constant(np.where(used, draws.integers(0, 2, used.shape), 0), tf.int32),
        "lengths": tf.constant(lengths, tf.int32),
    }


@pytest.mark.parametrize("compiled", [False, True])
def test_longest_text_is_packed_first_into_the_first_row_with_room(compiled):
    fit = tf.function(first_fit_decreasing) if compiled else first_fit_decreasing
    starts, rows, fullest = fit(tf.constant(LENGTHS), tf.constant([9, 15]))
    # 9 | 5 4 | 3 3 2 1, and 9 5 1 | 4 3 3 2
    assert starts.numpy().tolist() == [[18, 0, 0, 14, 24, 9, 21, 26], [19, 0, 0, 15, 25, 9, 22, 14]]
    assert (rows.numpy().tolist(), fullest.numpy().tolist()) == ([3, 2], [9, 15])
    starts, rows, fullest = fit(tf.constant([0, 0]), tf.constant([1]))
    assert [x.numpy().tolist() for x in (starts, rows, fullest)] == [[[0, 0]], [1], [0]]


def test_rows_hold_every_token_once_with_its_position():
    packing = RowAssignment.of(tf.constant([2, 3, 1]), 4, tf.constant([3, 0, 5]), 2, 3)
    inputs = {"token_ids": tf.constant([[1, 2, 0, 0], [3, 4, 5, 0], [6, 0, 0, 0]])}
    rows = packing.pack({**inputs, "segment_ids": inputs["token_ids"] % 2})
    assert rows["token_ids"].numpy().tolist() == [[3, 4, 5], [1, 2, 6]]
    assert rows["segment_ids"].numpy().tolist() == [[1, 0, 1], [1, 0, 0]]
    assert rows["positions"].numpy().tolist() == [[0, 1, 2], [0, 1, 0]]
    assert rows["text_numbers"].numpy().tolist() == [[2, 2, 2], [1, 1, 3]]
    assert packing.locate(tf.constant([[0], [2], [0]])).numpy().tolist() == [[3], [2], [5]]


def width_of(lengths, costs=CPU_COSTS):
    return int(choose_rows(tf.constant(lengths), costs)[2])


def test_row_width_minimizes_cost():
    assert width_of([10] * 8) == 10
    assert width_of([10] * 4 + [2] * 4) == 12
    assert width_of([100] + [2] * 20) == 140, "one row, no wider than what is in it"
    assert width_of([250] * 5 + [10] * 3) == 260, "not so wide that none of the long ones has company"
    assert width_of([0, 0]) == 1
    assert width_of([55] * 20 + [9] * 20) == 64, "a multiple of 16 takes less time"


@pytest.mark.slow
@pytest.mark.parametrize("costs", [CPU_COSTS, RowCosts()])
def test_texts_begin_where_first_fit_puts_them_in_rows_of_the_chosen_width(costs):
    draws, of_any_number = np.random.default_rng(0), [tf.TensorSpec([None], tf.int32)]
    choose = tf.function(lambda lengths: choose_rows(lengths, costs), of_any_number, autograph=False)
    fit = tf.function(first_fit_decreasing, [*of_any_number, tf.TensorSpec([1], tf.int32)], autograph=False)
    for _ in range(30):
        lengths = tf.constant(draws.integers(0, draws.integers(2, 60), draws.integers(1, 40)), tf.int32)
        starts, rows, width = choose(lengths)
        (expected,), (needed,), _ = fit(lengths, width[None])
        np.testing.assert_array_equal(starts, expected)
        assert rows == needed


def test_rows_are_padded_to_whole_blocks_if_cheap():
    assert [int(round_up_row_count(rows, 64, CPU_COSTS)) for rows in (3, 50, 51)] == [3, 50, 52]
    assert [int(round_up_row_count(rows, 48, CPU_COSTS)) for rows in (66, 121)] == [66, 128]
    assert [int(round_up_row_count(9, width, CPU_COSTS)) for width in (288, 308)] == [9, 9], (
        "twelve would be a third more"
    )


def test_packing_removes_most_padding():
    lengths = tf.constant(np.random.default_rng(0).integers(3, 20, 31).tolist() + [60])
    packing = PackingSpec(CPU_COSTS).assign({"lengths": lengths, "token_ids": tf.zeros([32, 64], tf.int32)})
    slots, used = tf.size(packing.sources).numpy(), tf.reduce_sum(lengths).numpy()
    assert used <= slots < 1.15 * used
    assert used < 0.3 * 32 * 60  # of the slots when padded to the longest


def model_of(make):
    return tiny.randomized(make(tiny.CONFIG))


@pytest.mark.parametrize("compiled", [False, True])
def test_packed_encoding_matches_padded_encoding(compiled):
    encoder = model_of(lambda config: heads.Classifier(config, 2)).encoder
    encode = functools.partial(encoder.__call__, return_hidden_states=True)
    padded = inputs_of(LENGTHS)
    packing = PackingSpec(CPU_COSTS)
    trimmed = packing.trim(padded)
    assert packing.assign(trimmed).sources.shape[1] == 9 and trimmed["token_ids"].shape == [8, 9]
    pack = lambda inputs: encode(inputs, packing=packing)  # noqa: E731
    actual, expected = (tf.function(pack) if compiled else pack)(padded), encode(padded)
    used = np.arange(9) < np.array(LENGTHS)[:, None]
    for name in ("tokens", "hidden_states"):
        for ours, plain in zip(tf.nest.flatten(actual[name]), tf.nest.flatten(expected[name]), strict=True):
            np.testing.assert_allclose(ours.numpy()[used], plain.numpy()[:, :9][used], atol=1e-5)
    has_text = np.array(LENGTHS) > 0
    np.testing.assert_allclose(actual["pooled"].numpy()[has_text], expected["pooled"].numpy()[has_text], atol=1e-5)


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_selected_positions_match_and_others_are_not_computed(packs, is_causal):
    config = dataclasses.replace(tiny.CONFIG, is_causal=is_causal)
    encoder = model_of(lambda _: heads.Classifier(config, 2)).encoder
    inputs = inputs_of([3, 9, 4, 2])
    expected = encoder(inputs)
    widths = []
    last = encoder.layers[-1].feed_forward.expand
    before, last.call = last.call, lambda x, **actual: widths.append(x.shape[0]) or before(x, **actual)
    packing = PackingSpec() if packs else None
    actual = encoder(inputs, positions=tf.constant([[1, 2], [8, 0], [3, 3], [1, 1]]), packing=packing)
    assert widths == [4 * 3]
    expected_tokens = expected["tokens"].numpy()[np.arange(4)[:, None], [[1, 2], [8, 0], [3, 3], [1, 1]]]
    np.testing.assert_allclose(actual["tokens_at"], expected_tokens, atol=1e-5)
    np.testing.assert_allclose(actual["pooled"], expected["pooled"], atol=1e-5)
    alone = encoder(inputs, positions=tf.zeros([4, 0], tf.int32))
    assert alone["tokens_at"].shape == [4, 0, config.hidden_size]
    np.testing.assert_allclose(alone["pooled"], expected["pooled"], atol=1e-5)


def test_positions_can_be_selected_without_layers():
    encoder = heads.Classifier(dataclasses.replace(tiny.CONFIG, num_hidden_layers=0), 2).encoder
    inputs = inputs_of([3, 9])
    actual = encoder(inputs, positions=tf.constant([[1], [8]]))
    np.testing.assert_array_equal(actual["tokens_at"][1, 0], encoder(inputs)["tokens"][1, 8])


def span_loss(model, inputs, packing):
    outputs = model(inputs, packing=packing)
    return tf.reduce_sum(outputs["start_logits"][:2, :3] - 2 * outputs["end_logits"][:2, :3])


def choice_loss(model, inputs, packing):
    shapes = {"token_ids": [4, 2, -1], "segment_ids": [4, 2, -1], "lengths": [4, 2]}
    inputs = inputs | {name: tf.reshape(inputs[name], shape) for name, shape in shapes.items()}
    return tf.reduce_sum(model(inputs, packing=packing)["logits"] * [[1.0, 2.0], [0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])


def regression_loss(model, inputs, packing):
    return tf.reduce_sum(model(inputs, packing=packing)["values"] * tf.cast(LENGTHS, tf.float32))


@pytest.mark.parametrize(
    ("make", "loss"),
    [(heads.SpanFinder, span_loss), (heads.MultipleChoice, choice_loss), (heads.Regressor, regression_loss)],
    ids=["span", "choice", "regression"],
)
def test_packed_loss_and_gradients_match_padded(make, loss):
    model = model_of(make)
    trained = list(weights.variables(model).values())

    def learned(inputs, packing=None):
        with tf.GradientTape() as tape:
            value = loss(model, inputs, packing)
        return value, [tf.convert_to_tensor(x) for x in tape.gradient(value, trained) if x is not None]

    padded = inputs_of(LENGTHS)
    (actual, gradients), (expected, plain) = tf.function(learned)(padded, PackingSpec()), learned(padded)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert len(gradients) == len(plain) > 20
    for ours, theirs in zip(gradients, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_export_packs_rows_for_any_processor():
    lengths = tf.constant([55] * 20 + [8] * 20)
    assert (width_of(lengths, RowCosts()), width_of(lengths)) == (63, 64)
    assert round_up_row_count(51, 64, RowCosts()) == 51
    assert PackingSpec().costs == RowCosts()


def test_packed_inputs_are_left_unchanged():
    encoder = model_of(heads.SpanFinder).encoder
    packing = PackingSpec()
    inputs = inputs_of([3, 9, 4, 2])
    rows = packing.assign(inputs).pack(inputs)
    np.testing.assert_array_equal(encoder(rows, packing=packing)["tokens"], encoder(rows)["tokens"])

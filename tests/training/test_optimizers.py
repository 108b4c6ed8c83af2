"""Optimizers and schedules against their NumPy statement."""

import numpy as np
import oracle_optimizer
import pytest
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.model import xla_rowwise
from bert_tf.training import optimizers

SHAPES = {
    "encoder/layers/0/attention/query_key_value/kernel": (4, 12),
    "encoder/layers/0/attention_norm/gamma": (4,),
    "masked_lm/output_bias": (7,),
    "encoder/embeddings/token_table": (7, 4),
}


def arrays(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return {name: scale * rng.normal(size=shape) for name, shape in SHAPES.items()}


@pytest.mark.parametrize("least_matrix", [xla_rowwise.LEAST_MATRIX, 0])
@pytest.mark.parametrize(
    "name, step, options",
    [
        ("adamw", oracle_optimizer.adam_weight_decay, {}),
        ("adamw_corrected", oracle_optimizer.adam_weight_decay, {"bias_correction": True}),
        ("lamb", oracle_optimizer.lamb, {}),
    ],
)
def test_six_steps_equal_the_oracle(name, step, options, least_matrix, monkeypatch):
    monkeypatch.setattr(xla_rowwise, "LEAST_MATRIX", least_matrix)  # 0: all matrices are gone over at once
    weights, state = arrays(0), oracle_optimizer.new_state(arrays(0))
    variables = {key: tf.Variable(value, dtype=tf.float32) for key, value in weights.items()}
    optimizer = optimizers.create(name, variables, optimizers.linear_schedule(0.1, 10, 3), weight_decay=0.05)
    for number in range(6):
        gradients = arrays(number + 1, scale=0.02 if number % 2 else 3.0)  # below and above the norm of clipping
        clipped, norm = oracle_optimizer.clip(gradients, 1.0)
        rate = oracle_optimizer.learning_rate(number, peak=0.1, num_train_steps=10, num_warmup_steps=3)
        weights, state = step(weights, clipped, state, learning_rate=rate, weight_decay=0.05, **options)
        given = optimizer.apply([tf.constant(gradients[key], tf.float32) for key in variables])
        assert float(given) == pytest.approx(norm, rel=1e-5)
        for key, variable in variables.items():
            np.testing.assert_allclose(variable, weights[key], atol=2e-5, err_msg=f"{key} after step {number}")


@pytest.mark.parametrize("continuous", [False, True])
def test_the_schedule_equals_the_oracle_at_every_step(continuous):
    schedule = optimizers.linear_schedule(2.0, 10, 4, continuous=continuous)
    given = [float(schedule(tf.constant(step))) for step in range(11)]
    expected = [
        oracle_optimizer.learning_rate(step, peak=2.0, num_train_steps=10, num_warmup_steps=4, continuous=continuous)
        for step in range(11)
    ]
    assert given == pytest.approx(expected)


def test_the_original_schedule_jumps_where_warm_up_ends_and_the_continuous_one_reaches_the_peak():
    original = optimizers.linear_schedule(1.0, 10, 4)
    smooth = optimizers.linear_schedule(1.0, 10, 4, continuous=True)
    assert [round(float(original(step)), 3) for step in (0, 3, 4, 10)] == [0.0, 0.75, 0.6, 0.0]
    assert [round(float(smooth(step)), 3) for step in (0, 3, 4, 10)] == [0.0, 0.75, 1.0, 0.0]


def test_a_gradient_that_is_not_finite_changes_nothing():
    variables = {"encoder/pooler/kernel": tf.Variable([[1.0, 2.0]])}
    optimizer = optimizers.create("adamw", variables, optimizers.linear_schedule(0.1, 10))
    norm = optimizer.apply([tf.constant([[np.inf, 1.0]])])
    assert not np.isfinite(norm)
    np.testing.assert_array_equal(variables["encoder/pooler/kernel"], [[1.0, 2.0]])
    np.testing.assert_array_equal(optimizer.m[0], [[0.0, 0.0]])


def test_a_weight_without_a_gradient_is_left_alone():
    variables = {"a/kernel": tf.Variable([[1.0]]), "b/kernel": tf.Variable([[1.0]])}
    optimizer = optimizers.create("adamw", variables, optimizers.linear_schedule(0.1, 10))
    optimizer.apply([tf.constant([[0.5]]), None])
    assert float(variables["b/kernel"][0, 0]) == 1.0 and float(variables["a/kernel"][0, 0]) < 1.0


def test_an_unknown_optimizer_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match="no optimizer 'sgd'. Known: adamw, adamw_corrected, lamb"):
        optimizers.create("sgd", {}, None)


NAMES = [
    "encoder/embeddings/token_table",
    "encoder/embeddings/norm/gamma",
    "encoder/layers/0/attention/output/kernel",
    "encoder/layers/1/feed_forward_norm/beta",
    "encoder/pooler/kernel",
    "classifier/bias",
]


def test_layers_near_the_input_learn_more_slowly_and_head_and_pooler_at_the_full_rate():
    assert list(optimizers.layer_factors(NAMES, 0.5).values()) == [0.125, 0.125, 0.25, 0.5, 1.0, 1.0]
    assert set(optimizers.layer_factors(NAMES, 1.0).values()) == {1.0}


@pytest.mark.parametrize("frozen, first", [(0, 0), (1, 3), (2, 4)])
def test_freezing_leaves_out_the_embeddings_and_the_first_layers(frozen, first):
    assert list(optimizers.trained(dict.fromkeys(NAMES), frozen)) == NAMES[first:]


def test_more_frozen_layers_than_there_are_are_refused_with_both_numbers():
    with pytest.raises(UserError, match="num_frozen_layers is 3, but the model has 2 layers: choose 2 or fewer"):
        optimizers.trained(dict.fromkeys(NAMES), 3)


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_the_update_of_a_weight_is_multiplied_by_its_factor(name):
    changes = []
    for factor in (1.0, 0.25):
        variable = tf.Variable([[1.0, -2.0]])
        optimizer = optimizers.create(
            name, {"a/kernel": variable}, optimizers.linear_schedule(0.1, 10), factors={"a/kernel": factor}
        )
        optimizer.apply([tf.constant([[0.5, 0.1]])])
        changes.append(variable.numpy() - [[1.0, -2.0]])
    np.testing.assert_allclose(changes[1], changes[0] / 4, rtol=1e-5)

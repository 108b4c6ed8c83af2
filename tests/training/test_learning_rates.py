"""Learning rates of steps and layers, and the layers that are trained."""

import oracle_optimizer
import pytest
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.training import learning_rates


@pytest.mark.parametrize("continuous", [False, True])
def test_schedule_matches_reference_at_every_step(continuous):
    schedule = learning_rates.polynomial_schedule(2.0, 10, 4, continuous=continuous)
    actual = [float(schedule(tf.constant(step))) for step in range(11)]
    expected = [
        oracle_optimizer.learning_rate(step, peak=2.0, num_train_steps=10, num_warmup_steps=4, continuous=continuous)
        for step in range(11)
    ]
    assert actual == pytest.approx(expected)


def test_decay_with_a_power_is_that_of_the_linear_one():
    linear = learning_rates.polynomial_schedule(2.0, 10, 2)
    root = learning_rates.polynomial_schedule(2.0, 10, 2, power=0.5)
    assert float(root(tf.constant(1))) == float(linear(tf.constant(1)))
    for step in (2, 7, 10):
        assert float(root(tf.constant(step))) == pytest.approx(2 * (float(linear(tf.constant(step))) / 2) ** 0.5)


NAMES = [
    "encoder/embeddings/token_table",
    "encoder/embeddings/norm/gamma",
    "encoder/layers/0/attention/output/kernel",
    "encoder/layers/1/feed_forward_norm/beta",
    "encoder/pooler/kernel",
    "classifier/bias",
]


def test_a_faster_head_is_that_of_the_task():
    names = [*NAMES, "span/kernel", "masked_lm/bias"]
    assert list(learning_rates.layer_factors(names, 1.0, head=10.0).values()) == [1.0] * 5 + [10.0, 10.0, 1.0]


def test_layerwise_decay_lowers_early_layers_and_not_the_head():
    assert list(learning_rates.layer_factors(NAMES, 0.5).values()) == [0.125, 0.125, 0.25, 0.5, 1.0, 1.0]
    assert set(learning_rates.layer_factors(NAMES, 1.0).values()) == {1.0}


@pytest.mark.parametrize("frozen, first", [(0, 0), (1, 3), (2, 4)])
def test_freezing_excludes_embeddings_and_first_layers(frozen, first):
    assert list(learning_rates.trainable(dict.fromkeys(NAMES), frozen)) == NAMES[first:]


@pytest.mark.parametrize("freeze, names", [("none", NAMES), ("embeddings", NAMES[2:]), ("encoder", NAMES[4:])])
def test_embeddings_or_the_whole_encoder_are_frozen(freeze, names):
    assert list(learning_rates.trainable(dict.fromkeys(NAMES), freeze=freeze)) == names


def test_adapters_of_a_frozen_encoder_are_trained():
    names = [*NAMES[:3], "encoder/layers/0/attention/output/lora/query/a", *NAMES[3:]]
    assert list(learning_rates.trainable(dict.fromkeys(names), freeze="encoder")) == [names[3], *NAMES[4:]]
    assert list(learning_rates.trainable(dict.fromkeys(names), 1, "encoder")) == NAMES[4:]


@pytest.mark.parametrize("phase, first", [(0, 4), (1, 3), (2, 2), (3, 0), (9, 0)])
def test_layers_are_unfrozen_from_the_head_down(phase, first):
    assert list(learning_rates.unfrozen(dict.fromkeys(NAMES), phase)) == NAMES[first:]


def test_too_many_frozen_layers_are_refused():
    with pytest.raises(UserError, match="num_frozen_layers is 3, but the model has 2 layers: choose 2 or fewer"):
        learning_rates.trainable(dict.fromkeys(NAMES), 3)

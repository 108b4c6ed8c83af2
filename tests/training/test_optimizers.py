"""Optimizers against their NumPy statement, and one from outside."""

import dataclasses

import numpy as np
import oracle_optimizer
import pages
import pytest
import tensorflow as tf
import tiny
from training_steps import CONFIG, learner

from bert_tf.errors import UserError
from bert_tf.model import xla_rowwise
from bert_tf.training import learning_rates, optimizers
from bert_tf.training.optimizers import muon

SHAPES = {
    "encoder/layers/0/attention/query_key_value/kernel": (4, 12),
    "encoder/layers/0/attention_norm/gamma": (4,),
    "encoder/layers/0/feed_forward/contract/kernel": (6, 4),
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
        ("muon", oracle_optimizer.muon, {}),
    ],
)
def test_six_steps_match_reference(name, step, options, least_matrix, compiled_from):
    compiled_from(xla_rowwise.LEAST_WIDTH, least_matrix)  # 0: all matrices are gone over at once
    weights, state = arrays(0), oracle_optimizer.new_state(arrays(0))
    variables = {key: tf.Variable(value, dtype=tf.float32) for key, value in weights.items()}
    optimizer = optimizers.create(name, variables, learning_rates.polynomial_schedule(0.1, 10, 3), weight_decay=0.05)
    for number in range(6):
        gradients = arrays(number + 1, scale=0.02 if number % 2 else 3.0)  # below and above the norm of clipping
        clipped, norm = oracle_optimizer.clip(gradients, 1.0)
        rate = oracle_optimizer.learning_rate(number, peak=0.1, num_train_steps=10, num_warmup_steps=3)
        weights, state = step(weights, clipped, state, learning_rate=rate, weight_decay=0.05, **options)
        optimizer.apply([tf.constant(gradients[key], tf.float32) for key in variables], tf.constant(norm, tf.float32))
        optimizer.step.assign_add(1)
        for key, variable in variables.items():
            np.testing.assert_allclose(variable, weights[key], atol=2e-5, err_msg=f"{key} after step {number}")


def test_muon_makes_hidden_matrices_orthogonal_whatever_their_shape():
    for rows, columns in (16, 16), (8, 24), (24, 8):
        matrix = np.random.default_rng(rows).normal(size=(rows, columns)).astype(np.float32)
        values = np.linalg.svd(muon.orthogonal(tf.constant(matrix)).numpy())[1]
        assert values.min() > 0.6 and values.max() < 1.3
    assert not muon.orthogonal(tf.zeros([3, 5])).numpy().any()


def test_muon_keeps_no_second_moment_of_hidden_matrices():
    variables = {name: tf.Variable(array, dtype=tf.float32) for name, array in arrays(0).items()}
    optimizer = optimizers.create("muon", variables, learning_rates.polynomial_schedule(0.1, 10))
    sizes = {name: v.shape.num_elements() for name, v in zip(variables, optimizer.state()["v"], strict=True)}
    assert sizes == {name: 1 if "/layers/" in name and "kernel" in name else np.prod(SHAPES[name]) for name in SHAPES}


@pytest.fixture
def lion(tmp_path, monkeypatch):
    """The module my_lab.lion of docs/adding_an_optimizer.md, an optimizer from outside."""
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "lion.py").write_text(pages.code("adding_an_optimizer.md"))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("name", ["adamw", "my_lab.lion"])
@pytest.mark.usefixtures("lion")
def test_non_finite_gradients_change_nothing(name):
    ours = learner(dataclasses.replace(CONFIG, optimizer=name))
    before = [variable.numpy() for variable in tf.nest.flatten(ours.state()["weights"])]
    moments = [m.numpy() for m in ours.optimizer.m]
    batch = tiny.batch()
    batch["masked_lm_weights"] = np.full_like(batch["masked_lm_weights"], np.inf)
    for _ in range(2):
        assert not np.isfinite(ours.step(tiny.tensors(batch))["gradient_norm"])
        assert ours.optimizer.step.numpy() == 1, "the step that diverges is counted, later ones are not"
    tf.nest.map_structure(np.testing.assert_array_equal, before, tf.nest.flatten(ours.state()["weights"]))
    tf.nest.map_structure(np.testing.assert_array_equal, moments, ours.optimizer.m)


def test_weight_without_gradient_is_unchanged():
    variables = {"a/kernel": tf.Variable([[1.0]]), "b/kernel": tf.Variable([[1.0]])}
    optimizer = optimizers.create("adamw", variables, learning_rates.polynomial_schedule(0.1, 10))
    optimizer.apply([tf.constant([[0.5]]), None], tf.constant(0.5))
    assert float(variables["b/kernel"][0, 0]) == 1.0 and float(variables["a/kernel"][0, 0]) < 1.0


def test_unknown_optimizer_error_lists_known_optimizers():
    with pytest.raises(UserError, match="no optimizer 'sgd'. Known: adamw, adamw_corrected, lamb, muon"):
        optimizers.create("sgd", {}, None)


@pytest.mark.parametrize("name", ["adamw", "lamb", "muon"])
def test_update_is_scaled_by_the_weights_factor(name):
    changes = []
    for factor in (1.0, 0.25):
        variable = tf.Variable([[1.0, -2.0]])
        optimizer = optimizers.create(
            name, {"a/kernel": variable}, learning_rates.polynomial_schedule(0.1, 10), factors={"a/kernel": factor}
        )
        optimizer.apply([tf.constant([[0.5, 0.1]])], tf.constant(0.5))
        changes.append(variable.numpy() - [[1.0, -2.0]])
    np.testing.assert_allclose(changes[1], changes[0] / 4, rtol=1e-5)


@pytest.mark.usefixtures("lion")
def test_outside_optimizer_trains_by_its_module_name():
    ours = learner(dataclasses.replace(CONFIG, optimizer="my_lab.lion", weight_decay=0.0))
    before = {name: variable.numpy() for name, variable in ours.variables.items()}
    ours.step(tiny.tensors(tiny.batch()))
    assert ours.optimizer.step.numpy() == 1
    moved = {round(float(np.abs(variable - before[name]).max()), 4) for name, variable in ours.variables.items()}
    assert moved == {CONFIG.learning_rate}, "every weight moves by the rate, in the direction of a sign"
    assert ours.state()["optimizer"].keys() == {"step", "m"}

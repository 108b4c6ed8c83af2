"""One training step: the oracle's gradient, the same on replicas and with micro-batches."""

import dataclasses

import faults
import numpy as np
import oracle
import oracle_optimizer
import pytest
import tensorflow as tf
import tiny
from training_steps import CONFIG, ONE_LAYER, learner, passes, values_of

from bert_tf.errors import UserError
from bert_tf.model import weights
from bert_tf.training import train_step as learners
from bert_tf.training.gradients import LossScale
from bert_tf.training.metric_sums import averages


def run(learner, steps, seeds=range(100)):
    return [learner.step(tiny.tensors(tiny.batch(seed=seed))) for seed, _ in zip(seeds, range(steps), strict=False)]


@pytest.mark.optimized_graphs
@pytest.mark.parametrize("compiles", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_three_steps_match_reference_losses_norms_and_weights(compiles, compiled_from):
    if compiles:
        compiled_from()
    ours = learner(model_config=tiny.CONFIG)
    arrays = {name: value.astype(np.float64) for name, value in values_of(ours).items()}
    state = oracle_optimizer.new_state(arrays)
    for number in range(3):
        batch = tiny.batch(seed=number)
        losses, gradients = oracle.gradients(arrays, tiny.CONFIG, batch, batch)
        clipped, norm = oracle_optimizer.clip(gradients, 1.0)
        rate = oracle_optimizer.learning_rate(number, peak=0.05, num_train_steps=100, num_warmup_steps=0)
        arrays, state = oracle_optimizer.adam_weight_decay(arrays, clipped, state, learning_rate=rate)
        result = ours.step(tiny.tensors(batch))
        means = averages(ours.task, {name: value.numpy() for name, value in result["metrics"].items()})
        for name in ("masked_lm_loss", "next_sentence_loss", "loss"):
            assert means[name] == pytest.approx(losses[name], rel=1e-5), f"{name} of step {number}"
        assert float(result["gradient_norm"]) == pytest.approx(norm, rel=1e-5)
        assert float(result["learning_rate"]) == pytest.approx(rate)
    for name, value in values_of(ours).items():
        assert difference_of(name, value, arrays[name]).max() < 1e-4, name


def difference_of(name, value, other):
    """Without the key's bias: softmax does not see it, so that its gradient is rounding and its update chance."""
    difference = np.abs(value - other)
    if name.endswith("query_key_value/bias"):
        difference[16:32] = 0
    return difference


@pytest.mark.slow
@pytest.mark.parametrize("replicas, parts, compiles", [(1, 4, False), (2, 2, True)])
def test_twenty_steps_on_replicas_and_micro_batches_match_one_device(
    replicas_are_processes, compiled_from, replicas, parts, compiles
):
    if compiles:
        compiled_from()
    gentle = dataclasses.replace(CONFIG, learning_rate=1e-3)
    one, many = learner(gentle), learner(dataclasses.replace(gentle, num_accumulation_steps=parts), replicas)
    for seed in range(20):
        batch = tiny.tensors(tiny.batch(seed=seed))
        expected, actual = one.step(batch), many.step(batch, stop_requested=seed > 0)
        assert actual.get("stop_requests") == (None if replicas == 1 else replicas * (seed > 0))
        for name, value in expected["metrics"].items():
            np.testing.assert_allclose(actual["metrics"][name], value, rtol=1e-5)
        assert float(actual["gradient_norm"]) == pytest.approx(float(expected["gradient_norm"]), rel=1e-5)
    for name, value in values_of(one).items():
        assert difference_of(name, values_of(many)[name], value).max() < 1e-5, name


@pytest.mark.parametrize("precision, rounding", [("float32", 1e-5), ("bfloat16", 2e-2)])
@pytest.mark.eager
def test_gradients_are_sent_once_per_step_after_accumulation(precision, rounding):
    sent = []
    config = dataclasses.replace(CONFIG, num_accumulation_steps=2, all_reduce_precision=precision)
    one, two = learner(CONFIG), learner(config, 2)
    batch = tiny.tensors(tiny.batch())
    expected = one.step(batch)
    with faults.on_call(learners, "all_reduce_sum", sent.append):
        actual = two.step(batch)
    gradients = [values for values in sent if isinstance(values, list)]
    assert len(gradients) == 2, "once on each replica"
    assert sum(g.shape.num_elements() * g.dtype.size for g in gradients[0]) == two.all_reduced_bytes()
    assert {g.dtype for g in gradients[0]} == {tf.as_dtype(precision)} and one.all_reduced_bytes() == 0
    assert float(actual["gradient_norm"]) == pytest.approx(float(expected["gradient_norm"]), rel=rounding)


@pytest.mark.eager
def test_models_of_different_sizes_train_in_turn_on_the_same_replicas():
    configs = (ONE_LAYER, dataclasses.replace(ONE_LAYER, num_hidden_layers=0))
    norms = [float(run(learner(CONFIG, 2, config), 1)[0]["gradient_norm"]) for config in configs]
    assert np.isfinite(norms).all() and norms[0] != norms[1]


@pytest.mark.eager
def test_dropout_differs_between_replicas_micro_batches_and_steps():
    config = dataclasses.replace(ONE_LAYER, hidden_dropout_prob=0.5)
    row = {name: np.repeat(value[:1], 4, 0) for name, value in tiny.batch().items()}  # four equal rows
    losses = {}
    for name, replicas, parts in (("one", 1, 1), ("replicas", 2, 1), ("parts", 1, 2)):
        still = dataclasses.replace(CONFIG, learning_rate=0.0, num_accumulation_steps=parts)
        ours = learner(still, replicas, config)
        losses[name] = [float(ours.step(tiny.tensors(row))["metrics"]["masked_lm_loss"][0]) for _ in range(2)]
    assert losses["one"][0] != losses["one"][1]
    halves = learner(dataclasses.replace(CONFIG, train_batch_size=2, learning_rate=0.0), 1, config)
    half = float(halves.step(tiny.tensors({k: v[:2] for k, v in row.items()}))["metrics"]["masked_lm_loss"][0])
    for name in ("replicas", "parts"):
        assert losses[name][0] != pytest.approx(2 * half, rel=1e-4), f"{name} with equal masks would be twice one half"


@pytest.mark.eager
def test_next_sentence_weights_stay_unchanged_without_it():
    ours = learner(task=tiny.task(next_sentence_weight=0.0))
    before = values_of(ours)
    run(ours, 2)
    after = values_of(ours)
    for name in ("encoder/pooler/kernel", "next_sentence/kernel", "next_sentence/bias"):
        np.testing.assert_array_equal(after[name], before[name])
    assert np.abs(after["masked_lm/output_bias"] - before["masked_lm/output_bias"]).max() > 0


@pytest.mark.parametrize("replicas, parts", [(2, 3), (1, 3)])
def test_indivisible_batch_is_refused(replicas, parts):
    with pytest.raises(UserError, match="cannot be"):
        learner(dataclasses.replace(CONFIG, train_batch_size=4, num_accumulation_steps=parts), replicas)


@pytest.mark.eager
@pytest.mark.parametrize(("lengths", "fits"), [([5, 7, 6, 6], True), ([12, 12, 11, 9], False)])
def test_step_on_packed_static_rows_matches_one_on_padded_rows(lengths, fits):
    packed = learner(dataclasses.replace(CONFIG, jit_compile="true", packed_rows=2))
    plain = learner()
    batch = tiny.tensors({**tiny.batch(rows=4), "lengths": np.array(lengths)})
    assert packed.with_rows(batch)["row_fits"].numpy().tolist() == [fits]
    norms = [float(each.step(batch)["gradient_norm"]) for each in (packed, plain)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)
    for name, value in values_of(plain).items():
        assert difference_of(name, value, values_of(packed)[name]).max() < 1e-4, name


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_compiled_step_matches_plain_step(replicas):
    plain, compiled = learner(), learner(dataclasses.replace(CONFIG, jit_compile="true"), replicas)
    for expected, actual in zip(run(plain, 3), run(compiled, 3), strict=True):
        assert float(actual["gradient_norm"]) == pytest.approx(float(expected["gradient_norm"]), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adamw", "adamw_corrected", "lamb", "muon"])
def test_compiled_update_matches_plain_one_and_leaves_all_as_it_was_where_the_norm_is_not_finite(name):
    config = dataclasses.replace(CONFIG, optimizer=name, learning_rate=1e-3, ema_decay=0.9)
    plain, compiled = learner(config), learner(dataclasses.replace(config, jit_compile="true"))
    for ours in (plain, compiled):
        weights.assign(ours.model, tiny.random_weights(ours.model))
    generator = np.random.default_rng(1)
    gradients = [tf.constant(generator.normal(size=v.shape), tf.float32) for v in plain.trainable.values()]
    gradients[3] = None

    def numbers(ours):
        parts = ours.trainable, ours.optimizer.state(), ours.average.state()
        return [variable.numpy() for variable in tf.nest.flatten(parts)]

    results = [ours._compiled(ours.update)(gradients) for ours in (plain, compiled, plain, compiled)][2:]
    np.testing.assert_allclose(*([float(norm) for norm, _ in results][i : i + 1] for i in (0, 1)), rtol=1e-6)
    for expected, actual in zip(*map(numbers, (plain, compiled)), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=2e-6)
    before = [dict(zip(compiled.trainable, map(tf.identity, compiled.trainable.values()), strict=True))]
    before += [tf.nest.map_structure(tf.identity, compiled.optimizer.state())]
    norm, diverged = compiled._compiled(compiled.update)([gradients[0] * np.inf, *gradients[1:]])
    assert not np.isfinite(norm) and diverged
    assert int(compiled.optimizer.step) == int(before[1].pop("step")) + 1, "the step after which it diverged counts"
    after = [compiled.trainable, compiled.optimizer.state()]
    after[1].pop("step")
    tf.nest.map_structure(np.testing.assert_array_equal, after, before)
    assert np.isnan(compiled._compiled(compiled.update)(gradients)[0]), "training has ended"
    tf.nest.map_structure(np.testing.assert_array_equal, after, before)


def scatters_of(function, *arguments):
    operations = function.get_concrete_function(*arguments).graph.get_operations()
    return sum(operation.type == "UnsortedSegmentSum" for operation in operations)


def test_gradients_on_accelerators_are_those_on_cpus(as_platform):
    """The formulas that XLA compiles best there, computed on a CPU."""
    config, batch = dataclasses.replace(ONE_LAYER, num_hidden_layers=2), tiny.tensors(tiny.batch())
    ours = learner(dataclasses.replace(CONFIG, jit_compile="true"), model_config=config)
    on_cpu = passes(ours)
    scatters = [scatters_of(on_cpu, batch)]
    expected = on_cpu(batch)
    as_platform("gpu")
    on_gpu = passes(ours)
    scatters.append(scatters_of(on_gpu, batch))
    assert scatters == [3, 1], "of the word embeddings, and on CPUs of two gathers of the tokens that are needed"
    for ours, theirs in zip(on_gpu(batch), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.slow
def test_gradient_checkpointing_matches_plain_gradients():
    config = dataclasses.replace(ONE_LAYER, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2)
    plain = passes(learner(dataclasses.replace(CONFIG, jit_compile="true"), 1, config))
    wanted = dataclasses.replace(CONFIG, jit_compile="true", gradient_checkpointing=True)
    again, compiled = (passes(learner(wanted, 1, config), jit_compile=jit) for jit in (None, True))
    batch = tiny.tensors(tiny.batch())
    softmaxes = [
        sum(operation.type == "Softmax" for operation in each.get_concrete_function(batch).graph.get_operations())
        for each in (plain, again)
    ]
    assert softmaxes[1] == 2 * softmaxes[0] == 2 * config.num_hidden_layers
    expected = plain(batch)
    for actual in (again(batch), compiled(batch)):
        assert len(actual) == len(expected) > 15
        for ours, theirs in zip(actual, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_encoder_without_layers_has_nothing_to_recompute():
    static = dataclasses.replace(tiny.CONFIG, encoder="static")
    with pytest.raises(UserError, match="gradient_checkpointing requires BERT's layers, and encoder=static has none"):
        learner(dataclasses.replace(CONFIG, gradient_checkpointing=True), 1, static)


@pytest.mark.eager
def test_mixed_precision_keeps_float32_weights_and_learns_alike():
    gentle = dataclasses.replace(CONFIG, learning_rate=1e-3)
    exact, mixed = learner(gentle), learner(gentle, dtype="mixed_bfloat16")
    for expected, actual in zip(run(exact, 5), run(mixed, 5), strict=True):
        for name in ("masked_lm_loss", "next_sentence_loss"):
            values = [result["metrics"][name].numpy() for result in (expected, actual)]
            assert values[1] == pytest.approx(values[0], rel=0.1, abs=0.02)
    assert {value.dtype.name for value in values_of(mixed).values()} == {"float32"}


@pytest.mark.eager
def test_float16_loss_scale_is_neutral_and_halves_on_overflow():
    exact, mixed = learner(), learner(dtype="mixed_float16")
    expected, actual = run(exact, 1)[0], run(mixed, 1)[0]
    assert float(actual["gradient_norm"]) == pytest.approx(float(expected["gradient_norm"]), rel=0.02)
    scale = LossScale(enabled=True)
    scale.update(tf.constant(np.inf))
    assert float(scale.factor) == 2.0**14 and int(scale.good_steps) == 0
    scale.update(tf.constant(1.0))
    assert float(scale.factor) == 2.0**14 and int(scale.good_steps) == 1


@pytest.mark.parametrize("enabled, factor, norm, expected", [
    (True, 2.0, np.nan, False), (True, 1.0, np.nan, True), (True, 1.0, 3.0, False),
    (False, 1.0, np.inf, True), (False, 1.0, 3.0, False),
])  # fmt: skip
def test_persistent_nan_norm_ends_training(enabled, factor, norm, expected):
    scale = LossScale(enabled=enabled)
    scale.factor.assign(factor)
    assert bool(scale.update(tf.constant(norm))) is expected
    assert float(scale.factor) == 1

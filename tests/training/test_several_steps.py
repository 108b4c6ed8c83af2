"""Several steps in one call, and steps that are taken again with smaller micro-batches: the same weights."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny
from training_steps import CONFIG, learner, values_of

from bert_tf.errors import TrainingError, UserError
from bert_tf.training import loop
from bert_tf.training.budget import Budget

BATCHES = [tiny.tensors(tiny.batch(seed=seed)) for seed in range(3)]
ROWS = 4


def check_same_bits(ours, theirs):
    for (name, actual), expected in zip(values_of(ours).items(), values_of(theirs).values(), strict=True):
        np.testing.assert_array_equal(actual, expected, name)


@pytest.mark.slow
@pytest.mark.parametrize("replicas, jit_compile", [(2, "false"), (1, "true")])
def test_steps_of_one_call_are_bitwise_those_of_several(replicas, jit_compile, replicas_are_processes):
    config = dataclasses.replace(CONFIG, iterations_per_loop=3, jit_compile=jit_compile)
    dropout = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1, hidden_dropout_prob=0.1)
    one, several = (learner(config, replicas, model_config=dropout) for _ in range(2))
    expected = [one.step(batch) for batch in BATCHES]
    actual = several.steps(BATCHES)
    assert several.iterations_per_loop == 3
    check_same_bits(several, one)
    for ours, theirs in zip(actual, expected, strict=True):
        tf.nest.assert_same_structure(ours, theirs)
        for x, y in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
            np.testing.assert_array_equal(x.numpy(), y.numpy())
            assert x.numpy().dtype == y.numpy().dtype


def limited(rows):
    """A task for which a device has memory for so many rows at once."""
    task = tiny.task()
    plain = task.metrics

    def metrics(outputs, batch):
        if batch["lengths"].shape[0] > rows:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        return plain(outputs, batch)

    vars(task).update(metrics=metrics)
    return task


def loop_of(ours):
    """A loop that has a task, a step and batches only, and what it writes into run.json."""
    training = loop.TrainingLoop.__new__(loop.TrainingLoop)
    training.task, training.train_step, training.batches, written = ours.task, ours, iter(BATCHES), {}
    training.folder = types.SimpleNamespace(update=lambda **values: written.update(values), is_chief=True)
    return training, written


@pytest.mark.slow
def test_micro_batches_are_halved_until_memory_suffices(capsys):
    auto = dataclasses.replace(CONFIG, num_accumulation_steps=0, iterations_per_loop=3)
    training, written = loop_of(learner(auto, task=limited(2)))
    results = [training._steps(step, 1, stop_requested=False)[0] for step in range(2)]
    ours = training.train_step
    assert (ours.micro_batches, ours.iterations_per_loop, written) == (2, 1, {"micro_batches": 2})
    assert capsys.readouterr().out == "Memory ran out in step 1: 2 micro-batches per step from here on.\n"
    known, whole = learner(dataclasses.replace(CONFIG, num_accumulation_steps=2)), learner()
    for result, batch in zip(results, BATCHES, strict=False):
        known.step(batch)
        norm = whole.step(batch)["gradient_norm"]
        np.testing.assert_allclose(result["gradient_norm"], norm, rtol=1e-4)
    check_same_bits(ours, known)


@pytest.mark.parametrize("parts", [0, 1])
def test_too_little_memory_is_one_sentence_and_changes_nothing(parts):
    training, _ = loop_of(learner(dataclasses.replace(CONFIG, num_accumulation_steps=parts), task=limited(0)))
    before = values_of(training.train_step)
    with pytest.raises(
        TrainingError, match="Memory ran out in step 1 .*OOM.* Raise num_accumulation_steps or pass auto"
    ):
        training._steps(0, 1, stop_requested=False)
    for name, value in values_of(training.train_step).items():
        np.testing.assert_array_equal(value, before[name])
    assert training.train_step.micro_batches == (1 if parts else ROWS)


def test_automatic_micro_batches_are_for_one_process(replicas_are_processes):
    with pytest.raises(UserError, match="num_accumulation_steps=auto requires a single process"):
        learner(dataclasses.replace(CONFIG, num_accumulation_steps=0), 2)


@pytest.mark.parametrize("step, expected", [(0, 1), (4, 1), (5, 3), (8, 4), (12, 2), (18, 2), (19, 1)])
def test_calls_end_where_weights_are_evaluated_or_saved(step, expected):
    training = loop.TrainingLoop.__new__(loop.TrainingLoop)
    training.budget = Budget(0)
    training.early, training.train_step = 5, types.SimpleNamespace(iterations_per_loop=4)
    training.config = dataclasses.replace(CONFIG, num_train_steps=20, save_checkpoints_steps=8)
    training.early_stopping = types.SimpleNamespace(is_due=lambda step: step == 14)
    assert training._steps_at_once(step) == expected

"""A loss that is not finite names the layer and the batch that caused it, and leaves the weights as they were."""

import contextlib
import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tiny
from training_steps import CONFIG, learner, trained

from bert_tf.model import weights
from bert_tf.training import metrics_log, nonfinite

NAN = float("nan")
WORDS = tiny.Words([f"w{number}" for number in range(25)])


@contextlib.contextmanager
def spoiled(model, name, value, index=slice(None)):
    """A weight with other values for a while."""
    variable = weights.variables(model)[name]
    before = variable.numpy()
    array = before.copy()
    array[index] = value
    variable.assign(array)
    yield
    variable.assign(before)


@pytest.fixture(scope="module")
def ours():
    return learner()


@pytest.mark.parametrize(
    "weight, value, kind, name",
    [
        ("encoder/layers/0/attention/query_key_value/kernel", 1e20, "layer", "encoder/layers/0/attention"),
        ("masked_lm/output_bias", NAN, "weight", "masked_lm/output_bias"),
    ],
)
def test_first_layer_that_is_not_finite_is_named(ours, weight, value, kind, name):
    with spoiled(ours.model, weight, value):
        cause = nonfinite.find(ours, tiny.tensors(tiny.batch()), 1)
    assert (cause.kind, cause.name, cause.rows) == (kind, name, [0, 1, 2, 3] if kind == "layer" else [])
    assert (ours.model.call.__func__ is type(ours.model).call) and not tf.config.functions_run_eagerly()


def test_rows_are_named_over_micro_batches():
    batch = tiny.batch()
    batch["lengths"][:] = 9, 8, 12, 9
    ours = learner(dataclasses.replace(CONFIG, num_accumulation_steps=2))
    with spoiled(ours.model, "encoder/embeddings/position_table", 3e38, 11):
        cause = nonfinite.find(ours, tiny.tensors(batch), 1)
    assert (cause.name, cause.rows) == ("encoder/embeddings/norm", [2]) and cause.largest_input > 2e38


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda loss: loss, nonfinite.Cause()),
        (lambda loss: loss / 0, nonfinite.Cause("loss", "next_sentence_loss")),
        (lambda loss: loss + tf.sqrt(loss - tf.stop_gradient(loss)), nonfinite.Cause("gradient", "next_sentence/bias")),
    ],
)
def test_loss_and_gradient_are_told_apart(ours, monkeypatch, change, expected):
    original = ours.task.metrics

    def metrics(outputs, batch):
        results = original(outputs, batch)
        loss, row_weights = results["next_sentence_loss"]
        return {**results, "next_sentence_loss": (change(loss), row_weights)}

    monkeypatch.setattr(ours.task, "metrics", metrics)
    assert nonfinite.find(ours, tiny.tensors(tiny.batch()), 1) == expected


@pytest.mark.eager
def test_run_stops_with_the_batch_and_the_weights_before_it(tmp_path):
    batches = [tiny.batch(seed=seed) for seed in range(8)]
    batches[5]["masked_lm_weights"][3, 0] = NAN
    task = tiny.task(batches, tokenizer=WORDS)
    config = dataclasses.replace(CONFIG, num_train_steps=300, save_checkpoints_steps=2, eval_steps=1000)
    order = [bool(np.isnan(batch["masked_lm_weights"]).any()) for batch in task.train_batches(4, 12345).take(8)]
    step = order.index(True) + 1
    message = (
        f'stopped in step {step} because "masked_lm_weights" of the batch is not finite in rows 3 counted from 0 .*'
        "kept: ckpt-.*: correct or remove these rows"
    )
    with pytest.raises(metrics_log.Diverged, match=message):
        trained(tmp_path, config, task, evaluator=lambda: {})
    report = json.loads((tmp_path / nonfinite.REPORT).read_text())
    assert (report["step"], report["kind"], report["rows"]) == (step, "batch", [3])
    saved = np.load(tmp_path / nonfinite.ROWS)
    for name, values in tiny.tensors(batches[5]).items():
        np.testing.assert_array_equal(saved[name], values)
    assert report["texts"][3] == WORDS.detokenize([batches[5]["token_ids"][3]])[0]


@pytest.mark.eager
def test_nothing_is_updated_after_a_step_that_is_not_finite(ours):
    bad = tiny.batch()
    bad["masked_lm_weights"][0, 0] = NAN
    values = lambda: [variable.numpy() for variable in weights.variables(ours.model).values()]  # noqa: E731
    assert not ours.step(tiny.tensors(tiny.batch()))["diverged"]
    before = values()
    for batch in (bad, tiny.batch(seed=1)):
        assert ours.step(tiny.tensors(batch))["diverged"]
    for expected, actual in zip(before, values(), strict=True):
        np.testing.assert_array_equal(actual, expected)

"""Distillation: each loss against NumPy, the step against a computation by hand, mistakes, and resuming bitwise."""

import dataclasses

import numpy as np
import oracle
import pytest
import tensorflow as tf
import tiny

from bert_tf.checkpoints import formats
from bert_tf.config.train_config import DistillationConfig, TrainConfig
from bert_tf.errors import UserError
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.model import heads, weights
from bert_tf.model.activation_probe import Probe
from bert_tf.model.packing import PackingSpec
from bert_tf.training import distillation, distribute
from bert_tf.training.checkpointing import TrainState
from bert_tf.training.distillation import DistilledTask
from bert_tf.training.train_step import TrainStep

pytestmark = pytest.mark.eager

TEACHER = dataclasses.replace(tiny.CONFIG, num_hidden_layers=4)
BATCH = tiny.tensors(tiny.batch())
ALL = ",".join(distillation.LOSSES) + ",task=0.5"


@pytest.fixture(scope="module")
def models():
    """A student of two layers and its teacher of four."""
    return tiny.pretrainer()[0], tiny.pretrainer(TEACHER, seed=5)[0]


def distilled(models, losses=ALL, task=None, **options):
    return DistilledTask(task or tiny.task(), models[1], models[0], DistillationConfig(distillation=losses, **options))


def metrics_of(task, model, packing=None):
    probe = Probe(shows_all_tokens=True)
    outputs = model(BATCH, packing=packing, probe=probe)
    own = task.metrics(outputs, BATCH)
    values = {k: v for k, v in task.training_metrics(outputs, BATCH, probe, packing).items() if k not in own}
    return {name: float(tf.reduce_sum(v * w)) for name, (v, w) in values.items()}


def inside(model):
    """Hidden states [L + 1][B, T, D], scores and value relations [L][B, H, T, T] and outputs, as NumPy arrays."""
    probe = Probe(shows_all_tokens=True)
    outputs = model(BATCH, probe=probe)
    states = [x.numpy().reshape(4, 12, -1) for x in probe.hidden_states]
    products = [[x @ np.swapaxes(y, -1, -2) / 2 for x, y in ((q, k), (v, v))] for q, k, v in _numpy(probe.attention)]
    return states, [p[0] for p in products], [p[1] for p in products], {k: v.numpy() for k, v in outputs.items()}


def _numpy(attention):
    return [[x.numpy() for x in each] for each in attention]


def divergence(student, teacher):
    p, q = oracle.softmax(teacher), oracle.softmax(student)
    return float((p * (np.log(p) - np.log(q))).sum())


def test_every_loss_is_that_of_numpy_and_packing_changes_nothing(models):
    (states, scores, values, outputs), (taught, their_scores, their_values, theirs) = map(inside, models)
    expected = dict.fromkeys(("hidden_cosine", "hidden_error"), 0.0)
    expected |= dict.fromkeys(("attention_error", "attention_divergence", "value_divergence"), 0.0)
    for row, length in enumerate(BATCH["lengths"].numpy()):
        for t in range(length):
            a, b = states[-1][row, t], taught[-1][row, t]
            expected["hidden_cosine"] += 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)
            for ours, their in ((0, 0), (1, 2), (2, 4)):
                expected["hidden_error"] += ((states[ours][row, t] - taught[their][row, t]) ** 2).mean()
            for head in range(4):
                where = row, head, t, slice(length)
                for ours, their in ((0, 1), (1, 3)):
                    difference = scores[ours][where] - their_scores[their][where]
                    expected["attention_error"] += (difference**2).mean() / 4
                expected["attention_divergence"] += divergence(scores[-1][where], their_scores[-1][where]) / 4
                expected["value_divergence"] += divergence(values[-1][where], their_values[-1][where]) / 4
    soft = {"masked_lm": BATCH["masked_lm_weights"].numpy(), "next_sentence": BATCH["next_sentence_weights"].numpy()}
    for name, given in soft.items():
        ours, their = (x[f"{name}_logits"] / 2 for x in (outputs, theirs))
        places = np.argwhere(given)
        expected[f"soft_{name}_loss"] = 4 * sum(divergence(ours[tuple(at)], their[tuple(at)]) for at in places)
    task = distilled(models)
    for packing in (None, PackingSpec()):
        actual = metrics_of(task, models[0], packing)
        assert actual.keys() == expected.keys()
        for name, value in actual.items():
            assert value == pytest.approx(expected[name], rel=2e-4), name


NARROW = dataclasses.replace(tiny.CONFIG, hidden_size=12)


def test_hidden_states_of_a_narrow_student_are_widened_by_what_is_trained_too():
    student, teacher = tiny.pretrainer(NARROW)[0], tiny.pretrainer(TEACHER, seed=5)[0]
    task = distilled((student, teacher), "hidden_error=1")
    assert {name: tuple(x.shape) for name, x in task.variables.items()} == {
        "teacher_projection/kernel": (12, 16),
        "teacher_projection/bias": (16,),
    }
    kernel, bias = (variable.numpy() for variable in task.variables.values())
    states, taught = inside(student)[0], inside(teacher)[0]
    expected = 0.0
    for row, length in enumerate(BATCH["lengths"].numpy()):
        for ours, their in ((0, 0), (1, 2), (2, 4)):
            error = (states[ours][row, :length] @ kernel + bias - taught[their][row, :length]) ** 2
            expected += error.mean(-1).sum()
    for packing in (None, PackingSpec()):
        assert metrics_of(task, student, packing) == {"hidden_error": pytest.approx(expected, rel=2e-4)}
    config = TrainConfig(train_batch_size=4, learning_rate=0.01, num_train_steps=9, num_warmup_steps=0)
    step = TrainStep(task, student, config, tf.distribute.get_strategy())
    before = step.step(BATCH)["metrics"]["hidden_error"][0]
    assert not np.array_equal(kernel, task.variables["teacher_projection/kernel"].numpy())
    assert float(step.step(BATCH)["metrics"]["hidden_error"][0]) < float(before)


def test_projection_is_in_the_checkpoint_but_not_in_the_model(tmp_path):
    student, teacher = tiny.pretrainer(NARROW)[0], tiny.pretrainer(TEACHER, seed=5)[0]
    config = TrainConfig(train_batch_size=4, num_train_steps=9)
    task = distilled((student, teacher), "hidden_error=1,task=1")
    step = TrainStep(task, student, config, tf.distribute.get_strategy())
    TrainState(str(tmp_path / "checkpoints"), step.state()).save(1)
    NARROW.write(tmp_path / "bert_config.json")
    assert "teacher_projection/kernel" in step.state()["weights"]
    assert formats.read(str(tmp_path)).weights.keys() == weights.variables(student).keys()


def test_objectives_have_their_factors_and_weights(models):
    task = distilled(models, "distilbert")
    assert {name: each.factor for name, each in task.objectives.items()} == {
        "masked_lm_loss": 2,
        "next_sentence_loss": 2,
        "soft_masked_lm_loss": 5,
        "soft_next_sentence_loss": 5,
        "hidden_cosine": 1,
    }
    sums = {name: float(tf.reduce_sum(x)) for name, x in task.loss_weights(BATCH).items()}
    assert sums["hidden_cosine"] == BATCH["lengths"].numpy().sum()
    assert sums["soft_masked_lm_loss"] == sums["masked_lm_loss"] == BATCH["masked_lm_weights"].numpy().sum()
    assert not any("task" in name for name in distilled(models, "soft_targets").objectives)
    assert distilled(models, "soft_targets").name == "tiny", "everything else is the task's"


def test_step_minimizes_the_terms_and_leaves_the_teacher():
    models = tiny.pretrainer()[0], tiny.pretrainer(TEACHER, seed=5)[0]
    before = {name: x.numpy() for name, x in weights.variables(models[1]).items()}
    config = TrainConfig(train_batch_size=4, learning_rate=0.01, num_train_steps=30, num_warmup_steps=0)
    step = TrainStep(distilled(models, "tinybert"), models[0], config, tf.distribute.get_strategy())
    losses = []
    for _ in range(8):
        metrics = step.step(BATCH)["metrics"]
        losses.append({name: float(x[0] / x[1]) for name, x in metrics.items() if float(x[1])})
    for name in ("attention_error", "hidden_error", "soft_masked_lm_loss", "masked_lm_loss"):
        assert losses[-1][name] < losses[0][name], name
    assert all(np.array_equal(x.numpy(), before[name]) for name, x in weights.variables(models[1]).items())
    assert not any(name.startswith("teacher") for name in step.state()["weights"])


@pytest.mark.slow
def test_replicas_and_micro_batches_change_no_loss():
    results = []
    for replicas, parts in ((1, 1), (2, 2)):
        strategy = distribute.create_strategy("auto", num_logical_devices=replicas)
        config = TrainConfig(train_batch_size=4, num_accumulation_steps=parts, num_warmup_steps=0, num_train_steps=9)
        with strategy.scope():
            models = tiny.pretrainer()[0], tiny.pretrainer(TEACHER, seed=5)[0]
            step = TrainStep(distilled(models), models[0], config, strategy)
        result = step.step(BATCH)
        results.append([float(result["gradient_norm"]), *(float(x[0] / x[1]) for x in result["metrics"].values())])
    np.testing.assert_allclose(*results, rtol=2e-4)


def test_soft_targets_of_other_heads():
    batch = {name: BATCH[name] for name in ("token_ids", "segment_ids", "lengths")}
    logits = tf.constant([[0.0, 1, 5], [1, 2, 3], [0, 0, 0], [1, 1, 9.0]])
    lengths, ones = tf.constant([3, 2, 1, 3]), {"span_loss": tf.ones(4)}
    views = [distillation.View({"start_logits": x, "end_logits": x}, Probe()) for x in (logits, 2 * logits)]
    pair = distillation.Pair(*views, layers=(), temperature=1.0, weights=ones, lengths=lengths)
    values, _ = distillation.soft_targets(pair)["soft_span_loss"]
    expected = [divergence(x[:n], 2 * x[:n]) for x, n in zip(logits.numpy(), lengths.numpy(), strict=True)]
    np.testing.assert_allclose(values, expected, atol=1e-5)
    classifiers = [heads.Classifier(config, size=3) for config in (tiny.CONFIG, TEACHER)]
    task = tiny.task(objectives={"cross_entropy": distillation.Objective()})
    task.loss_weights = lambda batch: {"cross_entropy": tf.ones(4)}
    task.metrics = lambda outputs, batch: {}
    task = distilled(classifiers, "soft_targets=2,task=1", task)
    outputs = classifiers[0](batch)
    found = task.training_metrics(outputs, batch, Probe(), None)
    (values, _), expected = found["soft_cross_entropy"], classifiers[1](batch)["logits"].numpy() / 2
    student = outputs["logits"].numpy() / 2
    np.testing.assert_allclose(values, [4 * divergence(*x) for x in zip(student, expected, strict=True)], atol=1e-5)


def test_unsuitable_teachers_and_losses_are_refused(models):
    narrow = dataclasses.replace(TEACHER, hidden_size=8, num_attention_heads=2)
    other = models[0], heads.Pretrainer(narrow)
    for losses, message in (
        ("hidden_cosine", "the same hidden_size, which is 16 here and 8 in the teacher"),
        ("attention_error", "the same num_attention_heads, which is 4 here and 2"),
        ("softness=1", "distillation is 'softness=1'; expected distilbert, tinybert, minilm, or factors"),
        ("task=-1", "distillation is 'task=-1'"),
        ("task=much", "distillation is 'task=much'"),
    ):
        with pytest.raises(UserError, match=message):
            distilled(other, losses)
    assert distilled(other, "soft_targets=1,task=1").losses == ["soft_targets"]
    with pytest.raises(UserError, match="compares all rows"):
        distilled(models, task=tiny.task(comparison=object()))
    with pytest.raises(UserError, match="needs? one class"):
        distilled(models, task=tiny.task(head=MultiLabel("ab")))
    with pytest.raises(UserError, match="distillation_temperature is 0"):
        DistillationConfig(distillation_temperature=0)
    with pytest.raises(UserError, match="fgm_epsilon"):
        TrainStep(distilled(models), models[0], TrainConfig(fgm_epsilon=1.0), tf.distribute.get_strategy())


@pytest.mark.parametrize(("text", "expected"), [("", [2, 4]), ("1,4", [1, 4]), ("3,3", [3, 3])])
def test_student_begins_with_chosen_layers(text, expected):
    layers = weights.layer_map(text, 2, 4)
    assert layers == expected
    _, arrays = tiny.pretrainer(TEACHER)
    student = heads.Pretrainer(tiny.CONFIG)
    report = weights.assign(student, weights.select_layers(arrays, layers))
    assert not report.newly_initialized and not report.unused
    for new, old in enumerate(layers):
        name = "encoder/layers/{}/attention/project_out/kernel"
        np.testing.assert_array_equal(weights.variables(student)[name.format(new)], arrays[name.format(old - 1)])


@pytest.mark.parametrize("text", ["1", "0,4", "1,5", "1;2", "1,2,3"])
def test_impossible_layer_maps_are_refused(text):
    with pytest.raises(UserError, match=f"layer_map is '{text}'; expected 2 numbers from 1 to 4, .* such as 2,4"):
        weights.layer_map(text, 2, 4)

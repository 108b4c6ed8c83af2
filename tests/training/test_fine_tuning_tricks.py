"""Gradual unfreezing, the average of the weights, adversarial training: as their papers say, and resumed bitwise."""

import contextlib
import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from training_steps import CONFIG, ONE_LAYER, learner, weights_of

from bert_tf.config.train_config import DistillationConfig, LoraConfig, TrainConfig
from bert_tf.errors import UserError
from bert_tf.model import lora
from bert_tf.training import distribute, gradients, loop
from bert_tf.training.distillation import DistilledTask
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.run_directory import RunFolder

pytestmark = pytest.mark.eager


def values_of(ours):
    return {name: variable.numpy() for name, variable in ours.variables.items()}


def step(ours, seed):
    return ours.step(tiny.tensors(tiny.batch(seed=seed)))


def test_gradual_unfreezing_trains_one_more_layer_in_each_phase():
    ours = learner(dataclasses.replace(CONFIG, unfreeze_steps=2))
    layer, embeddings, trained = "encoder/layers/", "encoder/embeddings/", []
    for number in range(5):
        before = values_of(ours)
        ours.unfreeze(number)
        step(ours, number)
        changed = {name for name, value in values_of(ours).items() if (value != before[name]).any()}
        trained.append(tuple(any(name.startswith(part) for name in changed) for part in (layer, embeddings)))
        assert "masked_lm/output_bias" in changed and "encoder/pooler/kernel" in changed
    assert trained == [(False, False)] * 2 + [(True, False)] * 2 + [(True, True)]


def test_average_follows_its_closed_form_and_only_evaluations_see_it():
    ours = learner(dataclasses.replace(CONFIG, ema_decay=0.25))
    name = "encoder/pooler/kernel"
    expected = values_of(ours)[name].astype(np.float64)
    for count in range(1, 5):
        step(ours, count)
        decay = min(0.25, (1 + count) / (10 + count))
        expected = decay * expected + (1 - decay) * values_of(ours)[name]
    np.testing.assert_allclose(ours.average.averages[name], expected, rtol=1e-5)
    now = values_of(ours)
    with ours.average.in_model():
        np.testing.assert_allclose(ours.variables[name], expected, rtol=1e-5)
    for key, value in values_of(ours).items():
        np.testing.assert_array_equal(value, now[key])
    ours.average.put_into_model()
    np.testing.assert_array_equal(ours.variables[name], ours.average.averages[name])


def test_perturbation_of_a_text_has_the_given_norm_and_ignores_other_texts():
    gradient = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    texts = np.array([1, 1, 0, 4, 4, 4], np.int32)
    gradient[3:] *= 1e-6
    moved = gradients.perturbation(tf.constant(gradient), tf.constant(texts), 0.5).numpy()
    for text in (1, 4):
        own = gradient[texts == text]
        np.testing.assert_allclose(moved[texts == text], 0.5 * own / np.sqrt((own**2).sum()), rtol=1e-5)
    assert not moved[texts == 0].any()
    assert not gradients.perturbation(tf.zeros([2, 3]), tf.constant([1, 1]), 1.0).numpy().any()


def gradients_at(ours, batch, move=None):
    """Gradients of one row, after moving the vectors of its tokens, by moving a table of its own that holds them."""
    sums = {name: tf.reduce_sum(w) for name, w in ours.task.loss_weights(batch).items()}
    table = ours.variables["encoder/embeddings/token_table"]
    before = table.numpy()
    if move is not None:
        ids = batch["token_ids"].numpy()[0]
        moved = before.copy()
        moved[ids] += move
        table.assign(moved)
    found = type(ours)._pass(ours, batch, sums, tf.constant([1, 2]))[1]
    table.assign(before)
    return dict(zip(ours.trainable, found, strict=True))


def test_adversarial_step_adds_the_gradient_at_the_perturbed_vectors():
    """On a row without a token twice, whose vectors therefore are rows of the table."""
    batch = tiny.batch(rows=1)
    length = int(batch["lengths"][0])
    batch["token_ids"][0, :length] = np.arange(1, length + 1)
    batch = tiny.tensors(batch)
    plain = learner(dataclasses.replace(CONFIG, train_batch_size=1))
    ids = batch["token_ids"].numpy()[0, :length]
    # the table is also the output matrix of masked LM: a task of next sentences alone keeps the two apart
    plain.task.objectives = {"next_sentence_loss": plain.task.objectives["next_sentence_loss"]}
    clean = gradients_at(plain, batch)
    direction = clean["encoder/embeddings/token_table"].numpy()[ids]
    move = np.zeros((batch["token_ids"].shape[1], direction.shape[1]), np.float32)
    move[:length] = 0.3 * direction / np.sqrt((direction**2).sum())
    there = gradients_at(plain, batch, move)
    fgm = learner(dataclasses.replace(CONFIG, train_batch_size=1, fgm_epsilon=0.3))
    fgm.task.objectives = plain.task.objectives
    sums = {name: tf.reduce_sum(w) for name, w in fgm.task.loss_weights(batch).items()}
    found = dict(zip(fgm.trainable, fgm._pass(batch, sums, tf.constant([1, 2]))[1], strict=True))
    for name, gradient in found.items():
        if gradient is not None:
            np.testing.assert_allclose(gradient, clean[name] + there[name], atol=2e-6, err_msg=name)


@pytest.mark.parametrize("replicas, parts", [pytest.param(2, 1, marks=pytest.mark.slow), (1, 2)])
def test_adversarial_step_is_the_same_on_replicas_and_micro_batches(replicas, parts):
    config = dataclasses.replace(CONFIG, fgm_epsilon=1.0)
    one, many = learner(config), learner(dataclasses.replace(config, num_accumulation_steps=parts), replicas)
    norms = [float(step(each, 3)["gradient_norm"]) for each in (one, many)]
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)
    assert norms[0] != pytest.approx(float(step(learner(), 3)["gradient_norm"]), rel=1e-3)


def test_adversarial_training_needs_layers_of_bert():
    static = dataclasses.replace(tiny.CONFIG, encoder="static")
    with pytest.raises(UserError, match="fgm_epsilon requires BERT's layers, and encoder=static has none"):
        learner(dataclasses.replace(CONFIG, fgm_epsilon=1.0), 1, static)


TRAINING = TrainConfig(
    train_batch_size=4,
    eval_batch_size=4,
    num_train_steps=4,
    num_warmup_steps=0,
    save_checkpoints_steps=2,
    max_eval_steps=1,
    learning_rate=0.01,
)


def train(path, config, stops_after=0, adapter=None, teacher=None):
    """The final weights of a run, which may be stopped after a step and begun anew."""
    keras.utils.set_random_seed(5)
    strategy = distribute.create_strategy("one_device")
    with strategy.scope():
        model = tiny.pretrainer(dataclasses.replace(ONE_LAYER, hidden_dropout_prob=0.1))[0]
        if adapter:
            lora.attach(model, adapter)
    with contextlib.closing(RunFolder(str(path))) as folder:
        folder.open(name="tiny", flags={}, decisive={})
        short = dataclasses.replace(config, num_train_steps=stops_after or config.num_train_steps)
        evaluator = Evaluator(tiny.task(), model, config, strategy)
        task = tiny.task()
        if teacher:
            task = DistilledTask(task, tiny.pretrainer(seed=5)[0], model, teacher)
        training = loop.TrainingLoop(task, model, config, strategy, folder, evaluator)
        training._is_last = lambda step: step >= short.num_train_steps
        if stops_after:
            training._save = lambda step, **_: training.state.save(step)
        training.run([], lambda *_: None)
        training.close()
    return weights_of(model)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes, parts",
    [
        ({"unfreeze_steps": 1, "fgm_epsilon": 1.0}, {}),
        ({"ema_decay": 0.9}, {"teacher": DistillationConfig()}),
        ({"freeze": "encoder"}, {"adapter": LoraConfig(lora_rank=2)}),
    ],
    ids=str,
)
def test_stopped_run_resumes_bitwise(changes, parts, tmp_path):
    config = dataclasses.replace(TRAINING, **changes)
    whole = train(tmp_path / "whole", config, **parts)
    train(tmp_path / "stopped", config, stops_after=2, **parts)
    for name, value in train(tmp_path / "stopped", config, **parts).items():
        np.testing.assert_array_equal(value, whole[name], err_msg=name)

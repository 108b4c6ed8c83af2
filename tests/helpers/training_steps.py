"""A small model in training, and what its steps give."""

import contextlib
import dataclasses

import tensorflow as tf
import tiny

from bert_tf.config.train_config import TrainConfig
from bert_tf.model import weights
from bert_tf.training import distribute, loop
from bert_tf.training.run_directory import RunFolder
from bert_tf.training.train_step import TrainStep

CONFIG = TrainConfig(train_batch_size=4, learning_rate=0.05, num_train_steps=100, num_warmup_steps=0)
ONE_LAYER = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1)  # traced and compiled in less time


def learner(config=CONFIG, replicas=1, model_config=ONE_LAYER, task=None, **options):
    strategy = distribute.create_strategy("auto", num_logical_devices=replicas)
    with strategy.scope():
        model = tiny.pretrainer(model_config, **options)[0]
        return TrainStep(task or tiny.task(), model, config, strategy)


def trained(folder, config, task=None, *, replicas=1, create_model=None, **options):
    """Trains in a run folder; returns the step of the final weights, and these.

    create_model: makes the model; by default a pre-training model of one layer. options: see `loop.train`.
    """
    strategy = distribute.create_strategy("auto", num_logical_devices=replicas)
    with strategy.scope():
        model = create_model() if create_model else tiny.pretrainer(ONE_LAYER)[0]
    with contextlib.closing(RunFolder(str(folder))) as run:
        run.open(name="tiny", flags={}, decisive={})
        step = loop.train(task or tiny.task(), model, config, strategy, run, **options)
    return step, weights_of(model)


def weights_of(model):
    """{name: array}."""
    return {name: variable.numpy() for name, variable in weights.variables(model).items()}


def values_of(learner):
    """The weights of its model."""
    return weights_of(learner.model)


def passes(ours, **options):
    """A function from a batch to the gradients of a forward and backward pass."""

    def learned(batch):
        sums = {name: tf.reduce_sum(w) for name, w in ours.task.loss_weights(batch).items()}
        return TrainStep._pass(ours, batch, sums, tf.constant([1, 2]))[1]

    return tf.function(learned, autograph=False, **options)

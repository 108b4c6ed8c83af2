"""A small model in training, and what its steps give."""

import dataclasses

import tensorflow as tf
import tiny

from bert_tf.config.train_config import TrainConfig
from bert_tf.model import weights
from bert_tf.training import distribute
from bert_tf.training.train_step import TrainStep

CONFIG = TrainConfig(train_batch_size=4, learning_rate=0.05, num_train_steps=100, num_warmup_steps=0)
ONE_LAYER = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1)  # traced and compiled in less time


def learner(config=CONFIG, replicas=1, model_config=ONE_LAYER, task=None, **options):
    strategy = distribute.create_strategy("auto", num_logical_devices=replicas)
    with strategy.scope():
        model = tiny.pretrainer(model_config, **options)[0]
        return TrainStep(task or tiny.task(), model, config, strategy)


def values_of(learner):
    """{name: array} of the weights of its model."""
    return {name: variable.numpy() for name, variable in weights.variables(learner.model).items()}


def passes(ours, **options):
    """A function from a batch to the gradients of a forward and backward pass."""

    def learned(batch):
        sums = {name: tf.reduce_sum(w) for name, w in ours.task.loss_weights(batch).items()}
        return TrainStep._pass(ours, batch, sums, tf.constant([1, 2]))[1]

    return tf.function(learned, autograph=False, **options)

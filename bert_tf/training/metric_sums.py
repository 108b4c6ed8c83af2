"""Metrics as sums, which micro-batches, replicas and batches add up before anything is divided."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf.training.task import Task

Sums = dict[str, tf.Tensor]  # {metric: [sum of values * weights, sum of weights]}


def sum_metrics(metrics: Mapping[str, tuple[tf.Tensor, tf.Tensor]]) -> Sums:
    """Returns {metric: [sum of values * weights, sum of weights]} from {metric: (values, weights)}."""
    return {name: tf.stack([tf.reduce_sum(v * w), tf.reduce_sum(w)]) for name, (v, w) in metrics.items()}


def loss_of(task: Task, metrics: Sums, weight_sums: Sums) -> tf.Tensor:
    """Returns the loss: each objective's sum, divided by the global sum of its weights, times its factor."""
    terms = [
        objective.factor * metrics[name][0] / (weight_sums[name] + objective.epsilon)
        for name, objective in task.objectives.items()
    ]
    return tf.add_n(terms)


def averages(task: Task, metrics: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns {metric: mean} and "loss" of metrics summed over a whole global batch, or over many."""
    values = {name: float(total / max(weight, 1e-12)) for name, (total, weight) in metrics.items()}
    loss = sum(objective.factor * values[name] for name, objective in task.objectives.items())
    return {"loss": loss, **values}

"""Metrics as sums, added over micro-batches, replicas and batches before dividing; results of several steps."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.runtime.lazy import tf
from bert_tf.training.task import Learnable, Task

Sums = dict[str, "tf.Tensor"]  # {metric: [sum of values * weights, sum of weights]}


def sum_metrics(metrics: Mapping[str, tuple[tf.Tensor, tf.Tensor]]) -> Sums:
    """Returns {metric: [sum of values * weights, sum of weights]} from {metric: (values, weights)}."""
    return {name: tf.stack([tf.reduce_sum(v * w), tf.reduce_sum(w)]) for name, (v, w) in metrics.items()}


def loss_of(task: Learnable, metrics: Sums, weight_sums: Sums) -> tf.Tensor:
    """Returns the loss: each objective's sum, divided by the global sum of its weights, times its factor."""
    terms = [
        objective.factor * metrics[name][0] / (weight_sums[name] + objective.epsilon)
        for name, objective in task.objectives.items()
    ]
    return tf.add_n(terms)


def averages(task: Task, metrics: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns {metric: mean} and "loss" from metrics summed over one global batch or several."""
    values = {name: float(total / max(weight, 1e-12)) for name, (total, weight) in metrics.items()}
    loss = sum(objective.factor * values[name] for name, objective in task.objectives.items())
    return {"loss": loss, **values}


def flatten_result(result: Any) -> tuple[Any, tf.Tensor]:
    """Returns a nested structure's TensorSpecs, and all its numbers as one tensor, float32 [any].

    The tensors must be float32 or bool, the only types float32 represents exactly.
    """
    specs = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), result)
    return specs, tf.concat([tf.reshape(tf.cast(x, tf.float32), [-1]) for x in tf.nest.flatten(result)], 0)


def split_results(numbers: tf.Tensor, specs: Any, count: int) -> list[Any]:
    """The results of S steps, from their `flatten_result` numbers [S, any]; `numpy()` of a part waits for it."""
    fetched = functools.cache(numbers.numpy)
    parts, first = [], 0
    for spec in tf.nest.flatten(specs):
        parts.append((first, spec))
        first += math.prod(spec.shape)
    return [
        tf.nest.pack_sequence_as(specs, [Part(fetched, step, first, spec) for first, spec in parts])
        for step in range(count)
    ]


class Part:
    """A tensor of one step's result, stored in a tensor of several steps."""

    def __init__(self, fetched: Any, step: int, first: int, spec: tf.TensorSpec) -> None:
        self._fetched, self._step, self._first, self._spec = fetched, step, first, spec

    def numpy(self) -> np.ndarray:
        """Its value."""
        row = self._fetched()[self._step]
        values = row[self._first : self._first + math.prod(self._spec.shape)]
        return values.reshape(self._spec.shape).astype(self._spec.dtype.as_numpy_dtype)

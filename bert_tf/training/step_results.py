"""Results of training steps, of several steps as one tensor: a device then has nothing to wait for.

S steps.
"""

import functools
import math
from typing import Any

import numpy as np
import tensorflow as tf


def flatten(result: Any) -> tuple[Any, tf.Tensor]:
    """A nested structure of tensors -> the same of their TensorSpecs, and all numbers of it, float32 [any].

    They must be float32 or truth values, as float32 holds no others exactly.
    """
    specs = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), result)
    return specs, tf.concat([tf.reshape(tf.cast(x, tf.float32), [-1]) for x in tf.nest.flatten(result)], 0)


def split(numbers: tf.Tensor, specs: Any, count: int) -> list[Any]:
    """The results of S steps from what `flatten` returned for each, [S, any]; `numpy()` of a part waits for it."""
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
    """A tensor of a step's result that lies in a tensor of several."""

    def __init__(self, fetched: Any, step: int, first: int, spec: tf.TensorSpec) -> None:
        self._fetched, self._step, self._first, self._spec = fetched, step, first, spec

    def numpy(self) -> np.ndarray:
        """Its value."""
        row = self._fetched()[self._step]
        values = row[self._first : self._first + math.prod(self._spec.shape)]
        return values.reshape(self._spec.shape).astype(self._spec.dtype.as_numpy_dtype)

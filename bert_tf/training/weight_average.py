"""The exponential moving average of the weights: updated after every step, evaluated and exported in their place."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf


class WeightAverage:
    """After each update, average = d * average + (1 - d) * weight, starting from the initial weights.

    d is min(decay, (1 + n) / (10 + n)) after n updates, like `num_updates` of tf.train.ExponentialMovingAverage, so
    that an average over more steps than taken so far is not dominated by the start.

    Args:
        variables: {canonical name: variable} of the trained variables.
        decay: below 1; 0 disables the average.
    """

    def __init__(self, variables: Mapping[str, tf.Variable], decay: float) -> None:
        self.variables, self.decay = dict(variables) if decay else {}, decay
        self.averages = {
            name: tf.Variable(variable.read_value(), trainable=False) for name, variable in self.variables.items()
        }

    def state(self) -> dict[str, Any]:
        """Returns the variables to checkpoint."""
        return {"average": self.averages} if self.averages else {}

    def update(self, updates: tf.Tensor) -> None:
        """Adds the weights after that many updates, an integer scalar, to the average."""
        count = tf.cast(updates, tf.float32)
        rest = 1 - tf.minimum(self.decay, (1 + count) / (10 + count))
        for name, variable in self.variables.items():
            average = self.averages[name]
            average.assign_add(rest * (variable - average))

    def put_into_model(self) -> None:
        """Replaces the weights of the model by their averages."""
        for name, variable in self.variables.items():
            variable.assign(self.averages[name].read_value())

    @contextlib.contextmanager
    def in_model(self) -> Iterator[None]:
        """Puts the averages into the model within the block, and restores its weights afterwards."""
        before = {name: tf.identity(variable) for name, variable in self.variables.items()}
        self.put_into_model()
        try:
            yield
        finally:
            for name, value in before.items():
                self.variables[name].assign(value)

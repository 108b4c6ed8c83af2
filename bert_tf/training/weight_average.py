"""The exponential moving average of the weights: updated after every step, evaluated and exported in their place."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf


class WeightAverage:
    """average = d * average + (1 - d) * weight after each update, from the weights before the first.

    d is min(decay, (1 + n) / (10 + n)) after n updates, as `num_updates` of tf.train.ExponentialMovingAverage makes it,
    so that an average over more steps than there were does not hold on to the start.

    Args:
        variables: {canonical name: variable} of those that are trained.
        decay: below 1; 0: there is no average, and nothing happens.
    """

    def __init__(self, variables: Mapping[str, tf.Variable], decay: float) -> None:
        self.variables, self.decay = dict(variables) if decay else {}, decay
        self.averages = {
            name: tf.Variable(variable.read_value(), trainable=False) for name, variable in self.variables.items()
        }

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint must contain."""
        return {"average": self.averages} if self.averages else {}

    def update(self, updates: tf.Tensor) -> None:
        """Takes the weights after so many updates, an integer scalar, into the average."""
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
        """The model has the averages within, and the same weights as before afterwards."""
        before = {name: tf.identity(variable) for name, variable in self.variables.items()}
        self.put_into_model()
        try:
            yield
        finally:
            for name, value in before.items():
                self.variables[name].assign(value)

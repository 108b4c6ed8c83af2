"""Optimizers on plain variables, as plugins: each module in this folder or in another package is an optimizer.

A module has `create(variables, schedule, *, weight_decay, factors)`, which returns an `Optimizer`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from bert_tf.runtime import plugins
from bert_tf.training.learning_rates import Schedule


class Optimizer(Protocol):
    """Interface of optimizers.

    Attributes:
        step: int64 variable, the number of steps so far; incremented by the training step.
    """

    step: tf.Variable

    def state(self) -> dict[str, Any]:
        """Returns the variables to checkpoint, by name."""

    def learning_rate(self) -> tf.Tensor:
        """Returns the learning rate of the next update."""

    def apply(self, gradients: Sequence[tf.Tensor | None], norm: tf.Tensor) -> None:
        """Updates every variable by its (global) gradient; variables without one stay unchanged.

        norm: the global norm of the gradients, float32. If it is not finite, this is not called, or under XLA its
        changes to the variables and to `state` are discarded. The training step increments `step` afterwards.
        """


def create(name: str, variables: Mapping[str, tf.Variable], schedule: Schedule, **options: Any) -> Optimizer:
    """Creates an optimizer by name, such as "adamw", or by the name of a module in another package, "my_lab.lion".

    variables: {canonical name: variable}. schedule: function from the step to the learning rate.
    options: weight_decay; factors, {canonical name: factor of the learning rate}.
    """
    return plugins.load(__name__, name, kind="optimizer").create(variables, schedule, **options)

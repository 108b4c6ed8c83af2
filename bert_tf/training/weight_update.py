"""Applies the update of the weights; skips gradients that are not finite."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf.training.loss_scale import LossScale
from bert_tf.training.micro_batches import Gradients
from bert_tf.training.optimizers import Optimizer
from bert_tf.training.weight_average import WeightAverage


class WeightUpdate:
    """Updates weights where the gradients are finite. After training has diverged it leaves all as it is.

    Attributes:
        diverged: bool variable, from then on nothing is updated.

    Args:
        trainable: {canonical name: variable}, the weights in the order of the gradients.
        optimizer: of these weights.
        loss_scale: by which the loss was multiplied.
        average: of the weights.
        is_compiled: whether XLA compiles the call.
    """

    def __init__(
        self,
        trainable: Mapping[str, tf.Variable],
        optimizer: Optimizer,
        loss_scale: LossScale,
        average: WeightAverage,
        *,
        is_compiled: bool,
    ) -> None:
        self.trainable, self.optimizer, self.loss_scale, self.average = trainable, optimizer, loss_scale, average
        self.is_compiled = is_compiled
        self.diverged = tf.Variable(False, trainable=False)

    def __call__(self, gradients: Gradients) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the global norm of the gradients, NaN after training has diverged, and whether it has diverged."""
        gradients = self.loss_scale.unscale(gradients)
        norm = tf.linalg.global_norm([gradient for gradient in gradients if gradient is not None])
        norm = tf.where(self.diverged, np.nan, norm)
        if self.is_compiled:
            self._select(gradients, norm)
        else:
            tf.cond(tf.math.is_finite(norm), lambda: self.optimizer.apply(gradients, norm), lambda: None)
        self.optimizer.step.assign_add(tf.where(self.diverged, tf.constant(0, tf.int64), 1))
        self.average.update(self.optimizer.step)
        diverged = self.loss_scale.update(norm)
        self.diverged.assign(diverged)
        return norm, diverged

    def _select(self, gradients: Gradients, norm: tf.Tensor) -> None:
        """Updates without a branch: keeps the numbers from before the update where the norm is not finite.

        XLA computes and selects a number in the same pass. At a branch the host would have to wait for the norm.
        """
        variables = [*self.trainable.values(), *tf.nest.flatten(self.optimizer.state())]
        before = [variable.read_value() for variable in variables]
        self.optimizer.apply(gradients, norm)
        for variable, value in zip(variables, before, strict=True):
            variable.assign(tf.where(tf.math.is_finite(norm), variable.read_value(), value))

"""Gradients of a step: sums of micro-batches, adversarial perturbations, loss scaling and the weight update."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.training.metric_sums import Sums
from bert_tf.training.optimizers import Optimizer
from bert_tf.training.task import Batch
from bert_tf.training.weight_average import WeightAverage

Gradients = list[tf.Tensor | None]  # None if the loss does not depend on a weight


def to_dense(gradient: Any) -> tf.Tensor | None:
    """Returns a possibly sparse gradient as a dense tensor, None as None."""
    return None if gradient is None else tf.convert_to_tensor(gradient)


def split_batch(batch: Batch, seed: tf.Tensor, parts: int) -> Callable[[Any], tuple[Batch, tf.Tensor]]:
    """A function from the index of a micro-batch to its rows and its dropout seed."""
    if parts == 1:
        return lambda number: (batch, seed)
    split = {name: tf.reshape(x, [parts, x.shape[0] // parts, *x.shape[1:]]) for name, x in batch.items()}
    fold_in = tf.random.experimental.stateless_fold_in
    return lambda number: ({name: x[number] for name, x in split.items()}, fold_in(seed, number))


def sum_over_parts(parts: int, on_part: Callable[[Any], tuple[Sums, Gradients]]) -> tuple[Sums, Gradients]:
    """The summed results of all micro-batches, computed one after the other."""
    metrics, gradients = on_part(0)
    dense = [gradient for gradient in gradients if gradient is not None]

    def add(number: tf.Tensor, metrics: Sums, dense: Gradients) -> tuple[Any, ...]:
        more_metrics, more = on_part(number)
        more = [gradient for gradient in more if gradient is not None]
        return number + 1, *tf.nest.map_structure(tf.add, (metrics, dense), (more_metrics, more))

    if parts > 1:
        _, metrics, dense = tf.while_loop(lambda number, *_: number < parts, add, (1, metrics, dense))
    return metrics, fill_in(dense, gradients)


def fill_in(dense: Sequence[tf.Tensor], gradients: Gradients) -> Gradients:
    """The dense gradients, with None inserted where `gradients` has None."""
    remaining = iter(dense)
    return [None if gradient is None else next(remaining) for gradient in gradients]


def perturbation(gradient: tf.Tensor, texts: tf.Tensor, epsilon: float) -> tf.Tensor:
    """The gradient of each text scaled to norm epsilon: float32 [N, E], 0 for padding and for zero gradients.

    A text's perturbation does not depend on others, so neither on micro-batches nor on replicas.

    Args:
        gradient: gradient of the loss, [N, E].
        texts: int32 [N], the number of each token's text, at most N; 0 on padding.
        epsilon: the norm of a text's perturbation.
    """
    gradient = tf.where(texts[:, None] > 0, tf.cast(gradient, tf.float32), 0.0)
    squares = tf.math.unsorted_segment_sum(tf.reduce_sum(tf.square(gradient), -1), texts, tf.size(texts) + 1)
    norms = tf.sqrt(tf.gather(squares, texts))[:, None]
    return epsilon * tf.math.divide_no_nan(gradient, norms)


FLOAT16_SCALE = 2.0**15  # initial factor
FLOAT16_PATIENCE = 2000  # steps without overflow before it doubles


class LossScale(tf.Module):
    """Dynamic loss scaling for float16 (Micikevicius et al. 2018): the factor halves on overflow and doubles later."""

    def __init__(self, *, enabled: bool) -> None:
        super().__init__()
        self.enabled = enabled
        self.factor = tf.Variable(FLOAT16_SCALE if enabled else 1.0, trainable=False)
        self.good_steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    def state(self) -> dict[str, tf.Variable]:
        """Returns the variables to checkpoint."""
        return {"factor": self.factor, "good_steps": self.good_steps}

    def scale(self, loss: tf.Tensor) -> tf.Tensor:
        """Multiplies the loss by the factor."""
        return loss * self.factor if self.enabled else loss

    def unscale(self, gradients: list[tf.Tensor | None]) -> list[tf.Tensor | None]:
        """Divides the gradients by the factor."""
        if not self.enabled:
            return gradients
        return [None if gradient is None else gradient / self.factor for gradient in gradients]

    def update(self, norm: tf.Tensor) -> tf.Tensor:
        """Adapts the factor to the norm of a step's gradients.

        Returns whether training has diverged: the norm is not finite, and a smaller factor will not help.
        """
        is_finite = tf.math.is_finite(norm)
        if not self.enabled:
            return ~is_finite
        diverged = ~is_finite & (self.factor <= 1.0)
        should_grow = self.good_steps + 1 >= FLOAT16_PATIENCE
        grown = tf.where(should_grow, self.factor * 2, self.factor)
        self.factor.assign(tf.where(is_finite, grown, tf.maximum(self.factor / 2, 1.0)))
        self.good_steps.assign(tf.where(is_finite & ~should_grow, self.good_steps + 1, 0))
        return diverged


class WeightUpdate:
    """Updates weights if the gradients are finite. After training has diverged, nothing changes any more.

    Attributes:
        diverged: bool variable; once true, nothing is updated.

    Args:
        trainable: {canonical name: variable}, the weights in the order of the gradients.
        optimizer: the optimizer of these weights.
        loss_scale: the scale applied to the loss.
        average: the average of the weights.
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
        """Updates without a branch: keeps the values from before the update if the norm is not finite.

        XLA computes and selects a value in the same pass. For a branch the host would have to wait for the norm.
        """
        variables = [*self.trainable.values(), *tf.nest.flatten(self.optimizer.state())]
        before = [variable.read_value() for variable in variables]
        self.optimizer.apply(gradients, norm)
        for variable, value in zip(variables, before, strict=True):
            variable.assign(tf.where(tf.math.is_finite(norm), variable.read_value(), value))

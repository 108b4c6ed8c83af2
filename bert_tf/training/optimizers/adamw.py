"""Adam with decoupled weight decay, as in google-research/bert `optimization.py`: without bias correction."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.model import xla_rowwise
from bert_tf.training.learning_rates import Schedule

EPSILON = 1e-6  # as in google-research/bert, outside the root
NO_DECAY = re.compile(r"norm/|bias")  # "LayerNorm|layer_norm|bias" there, in canonical names


class Slot(NamedTuple):
    """A weight with its canonical name and its two moments."""

    name: str
    weight: tf.Variable
    m: tf.Variable
    v: tf.Variable


@dataclasses.dataclass(frozen=True)
class Rates:
    """Scalars of one step.

    Attributes:
        scale_m: bias correction of m.
        scale_v: bias correction of v.
        epsilon: epsilon for the root of the uncorrected v.
        learning: {factor: learning rate}.
        adam: {factor: learning rate with both corrections}.
        decay: {factor: learning rate times weight decay}.
        betas: decay rates of m and v.
        complements: 1 - beta for each.
        zero: passed to TensorFlow's kernel as the powers of the betas, so that it applies no bias correction.
    """

    scale_m: tf.Tensor
    scale_v: tf.Tensor
    epsilon: tf.Tensor
    learning: dict[float, tf.Tensor]
    adam: dict[float, tf.Tensor]
    decay: dict[float, tf.Tensor]
    betas: tuple[tf.Tensor, ...]
    complements: tuple[tf.Tensor, ...]
    zero: tf.Tensor


class AdamWeightDecay(tf.Module):
    """Adam of google-research/bert: epsilon outside the root, decoupled weight decay, optional bias correction.

    Weight decay excludes LayerNorm and biases, by name. Gradients are clipped by their global norm. The moments m and v
    start at 0; `step` counts updates.

    Args:
        variables: {canonical name: variable}.
        schedule: function from the step to the learning rate.
        weight_decay: multiplied by the learning rate and the weight.
        bias_correction: whether m and v are divided by 1 - beta^(step + 1) (Kingma and Ba 2015, section 3).
        clip_norm: largest global norm of the gradients.
        beta_1: decay rate of m.
        beta_2: decay rate of v.
        factors: {canonical name: factor of the learning rate}.
    """

    def __init__(
        self,
        variables: Mapping[str, tf.Variable],
        schedule: Schedule,
        *,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
        clip_norm: float = 1.0,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.factors = factors or {}
        self.targets, self.schedule, self.weight_decay = dict(variables), schedule, weight_decay
        self.bias_correction, self.clip_norm, self.betas = bias_correction, clip_norm, (beta_1, beta_2)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self.m = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in self.targets.values()]
        self.v = [
            tf.Variable(tf.zeros(v.shape if self._uses_v(name, v) else ()), trainable=False)
            for name, v in self.targets.items()
        ]

    def _uses_v(self, name: str, weight: tf.Variable) -> bool:
        """Returns whether a weight needs the second moment; if not, its v is a scalar, 0."""
        return True

    def state(self) -> dict[str, Any]:
        """Returns the variables to checkpoint."""
        return {"step": self.step, "m": self.m, "v": self.v}

    def learning_rate(self) -> tf.Tensor:
        """Returns the learning rate of the next update."""
        return self.schedule(self.step)

    def apply(self, gradients: Sequence[tf.Tensor | None], norm: tf.Tensor) -> None:
        """Updates every variable that has a gradient. norm: the finite global norm, before clipping."""
        rates, scale = self._rates(), self.clip_norm / tf.maximum(norm, self.clip_norm)
        slots = map(Slot, self.targets, self.targets.values(), self.m, self.v)
        for slot, gradient in zip(slots, gradients, strict=True):
            if gradient is not None:
                self._update(slot, gradient, scale, rates)

    def _rates(self) -> Rates:
        """The scalars shared by all weights, computed once."""
        rate, scale_m, scale_v = self.learning_rate(), tf.constant(1.0), tf.constant(1.0)
        if self.bias_correction:
            count = tf.cast(self.step + 1, tf.float32)
            scale_m, scale_v = (1 / (1 - tf.pow(tf.constant(beta, tf.float32), count)) for beta in self.betas)
        factors = {factor: factor * rate for factor in {self.factors.get(name, 1.0) for name in self.targets}}
        root = tf.sqrt(scale_v)
        return Rates(
            scale_m=scale_m,
            scale_v=scale_v,
            epsilon=EPSILON / root,
            learning=factors,
            adam={factor: rate * scale_m / root for factor, rate in factors.items()},
            decay={factor: rate * self.weight_decay for factor, rate in factors.items()},
            betas=tuple(tf.constant(beta, tf.float32) for beta in self.betas),
            complements=tuple(tf.constant(1 - beta, tf.float32) for beta in self.betas),
            zero=tf.constant(0.0),
        )

    def _update(self, slot: Slot, gradient: tf.Tensor, scale: tf.Tensor, rates: Rates) -> None:
        """W - rate * (m / (sqrt(v) + epsilon) + decay * w), for the gradient times `scale`.

        Large matrices are updated in one compiled pass, small ones by TensorFlow's kernel. The kernel corrects the bias
        by `beta_power`s and adds epsilon to the root of the corrected v; for equal results, rate and epsilon include
        the correction here.
        """
        name, weight, m, v = slot
        factor = self.factors.get(name, 1.0)
        decays = self.weight_decay and not NO_DECAY.search(name)
        if xla_rowwise.should_compile_weight(weight.shape):
            decay = rates.decay[factor] if decays else rates.zero
            numbers = [scale, rates.adam[factor], decay, rates.epsilon, *rates.betas]
            xla_rowwise.jit(_adam)([weight.handle, m.handle, v.handle], gradient, numbers)
            return
        if decays:
            weight.assign_sub(rates.decay[factor] * weight)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=m.handle,
            v=v.handle,
            beta1_power=rates.zero,
            beta2_power=rates.zero,
            lr=rates.adam[factor],
            beta1=rates.betas[0],
            beta2=rates.betas[1],
            epsilon=rates.epsilon,
            grad=gradient * scale,
        )


def _adam(handles: Sequence[tf.Tensor], gradient: tf.Tensor, numbers: Sequence[tf.Tensor]) -> None:
    """Adam's in-place update of a weight, its m and its v, whose resources are `handles`."""
    weight, m, v = (tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) for handle in handles)
    scale, rate, decay, epsilon, beta_1, beta_2 = numbers
    gradient = gradient * scale
    m = beta_1 * m + (1 - beta_1) * gradient
    v = beta_2 * v + (1 - beta_2) * tf.square(gradient)
    weight -= decay * weight + rate * m / (tf.sqrt(v) + epsilon)
    for handle, value in zip(handles, (weight, m, v), strict=True):
        tf.raw_ops.AssignVariableOp(resource=handle, value=value)


create = AdamWeightDecay

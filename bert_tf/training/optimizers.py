"""BERT's optimizer and its kin, on plain variables: warm-up and decay, clipping, AdamWeightDecay, LAMB."""

import dataclasses
import re

import tensorflow as tf

from bert_tf.config.bert_config import expect_layers
from bert_tf.errors import UserError
from bert_tf.model import xla_rowwise

EPSILON = 1e-6  # the original's, outside the root
NO_DECAY = re.compile(r"norm/|bias")  # the original's "LayerNorm|layer_norm|bias", in our names
LAYER = re.compile(r"encoder/layers/(\d+)/")
EMBEDDINGS = ("encoder/embeddings/", "encoder/token_embeddings")
FUSED = "query_key_value/kernel"  # three matrices side by side; LAMB treats each by itself, as the original would


def linear_schedule(learning_rate, num_train_steps, num_warmup_steps=0, *, continuous=False):
    """The learning rate of a step (counted from 0), as a function of a float tensor.

    The original's (google-research/bert `optimization.py`): decay is linear from step 0 to `num_train_steps`, and
    warm-up replaces it while step < `num_warmup_steps`, so that the rate falls by a jump where warm-up ends.
    `continuous=True` decays from the end of warm-up instead: no jump, and the requested rate is reached.
    """

    def rate(step):
        step = tf.cast(step, tf.float32)
        start = num_warmup_steps if continuous else 0
        left = (num_train_steps - step) / max(num_train_steps - start, 1)
        decayed = learning_rate * tf.clip_by_value(left, 0.0, 1.0)
        warming = learning_rate * step / max(num_warmup_steps, 1)
        return tf.where(step < num_warmup_steps, warming, decayed)

    return rate


def layer_factors(names, decay):
    """{canonical name: what the learning rate is multiplied by}: less near the input, where common knowledge is.

    Of L layers, counted from 0: layer i has decay^(L - i), the embeddings decay^(L + 1); pooler and heads have 1.
    It is the discriminative fine-tuning of ULMFiT (Howard and Ruder 2018, section 3.1); google-research/electra
    (`model/optimization.py: _get_layer_lrs`) gives layers and embeddings one power more.
    """
    top = number_of_layers(names)
    return {name: decay ** (top + 1 - _depth(name, top)) for name in names}


def trained(variables, num_frozen_layers):
    """Those of {canonical name: variable} that are trained if the embeddings and the first N layers are not; 0: all.

    Raises UserError if the model has fewer layers.
    """
    expect_layers(num_frozen_layers, number_of_layers(variables))
    if not num_frozen_layers:
        return dict(variables)
    top = number_of_layers(variables)
    return {name: value for name, value in variables.items() if _depth(name, top) > num_frozen_layers}


def number_of_layers(names):
    """How many layers the encoder has whose canonical names these are."""
    return max((int(match[1]) + 1 for name in names if (match := LAYER.match(name))), default=0)


def _depth(name, num_hidden_layers):
    """0 for the embeddings, i + 1 for layer i, L + 1 for pooler and heads."""
    match = LAYER.match(name)
    if match:
        return int(match[1]) + 1
    return 0 if name.startswith(EMBEDDINGS) else num_hidden_layers + 1


@dataclasses.dataclass(frozen=True)
class Rates:
    """Scalars of one step: corrections of m and v, epsilon beside the root of v alone, and {factor: rate}s."""

    scale_m: tf.Tensor
    scale_v: tf.Tensor
    epsilon: tf.Tensor
    learning: dict
    adam: dict
    decay: dict


class AdamWeightDecay(tf.Module):
    """The original's Adam: no bias correction unless asked for, epsilon outside the root, decoupled weight decay.

    `variables` is {canonical name: tf.Variable}; weight decay leaves out LayerNorm and biases, by name. Gradients are
    clipped together, by their global norm. Slots start at 0; `step` counts the updates. `factors` {name: number}
    multiply the learning rate of some variables.
    """

    def __init__(
        self,
        variables,
        schedule,
        *,
        weight_decay=0.01,
        bias_correction=False,
        clip_norm=1.0,
        beta_1=0.9,
        beta_2=0.999,
        factors=None,
    ):
        super().__init__()
        self.factors = factors or {}
        self.targets, self.schedule, self.weight_decay = dict(variables), schedule, weight_decay
        self.bias_correction, self.clip_norm, self.betas = bias_correction, clip_norm, (beta_1, beta_2)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self.m = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in self.targets.values()]
        self.v = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in self.targets.values()]

    def state(self):
        """What a checkpoint must hold."""
        return {"step": self.step, "m": self.m, "v": self.v}

    def learning_rate(self):
        """The rate of the update to come."""
        return self.schedule(self.step)

    def apply(self, gradients):
        """Updates every variable by its (true, global) gradient; returns the gradients' norm before clipping.

        A variable whose gradient is None is left alone. If the norm is not finite only the step is counted.
        """
        norm = tf.linalg.global_norm([gradient for gradient in gradients if gradient is not None])
        scale = self.clip_norm / tf.maximum(norm, self.clip_norm)
        slots = zip(self.targets.items(), gradients, self.m, self.v, strict=True)
        known = [(name, weight, g, m, v) for (name, weight), g, m, v in slots if g is not None]

        def update():
            rates = self._rates()
            for name, weight, gradient, m, v in known:
                self._update(name, weight, gradient, scale, m, v, rates)
            return True

        tf.cond(tf.math.is_finite(norm), update, lambda: False)
        self.step.assign_add(1)
        return norm

    def _rates(self):
        """What the update of every weight shares: scalars, so that they are computed once."""
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
        )

    def _update(self, name, weight, gradient, scale, m, v, rates):
        """W - rate * (m / (sqrt(v) + epsilon) + decay * w), for the gradient times `scale`.

        Large matrices are gone over once, small ones by TensorFlow's kernel. That corrects the bias by `beta_power`s,
        and has epsilon beside the root of the corrected v: to be the same, rate and epsilon carry the correction.
        """
        factor = self.factors.get(name, 1.0)
        decays = self.weight_decay and not NO_DECAY.search(name)
        if xla_rowwise.should_compile_weight(weight.shape):
            numbers = [scale, rates.adam[factor], rates.decay[factor] if decays else tf.constant(0.0), rates.epsilon]
            numbers += [tf.constant(beta, tf.float32) for beta in self.betas]
            xla_rowwise.jit(_adam)([weight.handle, m.handle, v.handle], gradient, numbers)
            return
        if decays:
            weight.assign_sub(rates.decay[factor] * weight)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=m.handle,
            v=v.handle,
            beta1_power=0.0,
            beta2_power=0.0,
            lr=rates.adam[factor],
            beta1=self.betas[0],
            beta2=self.betas[1],
            epsilon=rates.epsilon,
            grad=gradient * scale,
        )


def _adam(handles, gradient, numbers):
    """Adam's update with decay of a weight, its m and its v: handles, as what is written to them stays in its place."""
    weight, m, v = (tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) for handle in handles)
    scale, rate, decay, epsilon, beta_1, beta_2 = numbers
    gradient = gradient * scale
    m = beta_1 * m + (1 - beta_1) * gradient
    v = beta_2 * v + (1 - beta_2) * tf.square(gradient)
    weight -= decay * weight + rate * m / (tf.sqrt(v) + epsilon)
    for handle, value in zip(handles, (weight, m, v), strict=True):
        tf.raw_ops.AssignVariableOp(resource=handle, value=value)


class Lamb(AdamWeightDecay):
    """LAMB (You et al. 2019): each layer's update is scaled to the norm of its weights, for large batches."""

    def __init__(self, variables, schedule, *, bias_correction=True, **options):
        super().__init__(variables, schedule, bias_correction=bias_correction, **options)

    def _update(self, name, weight, gradient, scale, m, v, rates):
        gradient = gradient * scale
        m.assign(self.betas[0] * m + (1 - self.betas[0]) * gradient)
        v.assign(self.betas[1] * v + (1 - self.betas[1]) * tf.square(gradient))
        update = m * rates.scale_m / (tf.sqrt(v * rates.scale_v) + EPSILON)
        if self.weight_decay and not NO_DECAY.search(name):
            update += self.weight_decay * weight
        rate = rates.learning[self.factors.get(name, 1.0)]
        weight.assign_sub(rate * _trust_ratio(name, weight, update) * update)


def _trust_ratio(name, weight, update):
    """What LAMB multiplies an update by: of each matrix, the norm of the weights divided by that of the update."""
    if NO_DECAY.search(name):  # as in the authors' code: the same exclusions as for weight decay
        return 1.0
    parts = 3 if name.endswith(FUSED) else 1
    shape = [weight.shape[0], parts, -1] if len(weight.shape) == 2 else [1, 1, -1]
    lengths = [tf.norm(tf.reshape(x, shape), axis=[0, 2], keepdims=True) for x in (weight, update)]  # [1, parts, 1]
    ratio = tf.where((lengths[0] > 0) & (lengths[1] > 0), lengths[0] / lengths[1], 1.0)
    return tf.reshape(tf.broadcast_to(ratio, tf.shape(tf.reshape(weight, shape))), weight.shape)


OPTIMIZERS = {
    "adamw": lambda *args, **options: AdamWeightDecay(*args, bias_correction=False, **options),
    "adamw_corrected": lambda *args, **options: AdamWeightDecay(*args, bias_correction=True, **options),
    "lamb": Lamb,
}


def create(name, variables, schedule, **options):
    """The optimizer of that name: "adamw" (the original's), "adamw_corrected" (with bias correction) or "lamb"."""
    if name not in OPTIMIZERS:
        raise UserError(f"There is no optimizer {name!r}. Known: {', '.join(OPTIMIZERS)}.")
    return OPTIMIZERS[name](variables, schedule, **options)

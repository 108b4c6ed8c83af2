"""LAMB (You et al. 2019): each layer's update is scaled to the norm of its weights, for large batches."""

import functools

import tensorflow as tf

from bert_tf.training.optimizers.adamw import EPSILON, NO_DECAY, AdamWeightDecay, Rates, Slot

FUSED = "query_key_value/kernel"  # three matrices side by side, each with its own trust ratio, as in BERT


class Lamb(AdamWeightDecay):
    """AdamWeightDecay whose updates are multiplied by a trust ratio: weight norm / update norm."""

    def _update(self, slot: Slot, gradient: tf.Tensor, scale: tf.Tensor, rates: Rates) -> None:
        name, weight, m, v = slot
        gradient = gradient * scale
        new_m = rates.betas[0] * m + rates.complements[0] * gradient
        new_v = rates.betas[1] * v + rates.complements[1] * tf.square(gradient)
        m.assign(new_m)
        v.assign(new_v)
        update = new_m * rates.scale_m / (tf.sqrt(new_v * rates.scale_v) + EPSILON)
        if self.weight_decay and not NO_DECAY.search(name):
            update += self.weight_decay * weight
        rate = rates.learning[self.factors.get(name, 1.0)]
        weight.assign_sub(rate * _trust_ratio(name, weight, update) * update)


def _trust_ratio(name: str, weight: tf.Variable, update: tf.Tensor) -> tf.Tensor | float:
    if NO_DECAY.search(name):  # as in the authors' code: the same exclusions as for weight decay
        return 1.0
    parts = 3 if name.endswith(FUSED) else 1
    rows = weight.shape[0] if len(weight.shape) == 2 else 1
    shape = [rows, parts, weight.shape.num_elements() // (rows * parts)]
    norms = [tf.norm(tf.reshape(x, shape), axis=[0, 2], keepdims=True) for x in (weight, update)]  # [1, parts, 1]
    ratio = tf.where((norms[0] > 0) & (norms[1] > 0), norms[0] / norms[1], 1.0)
    return tf.reshape(tf.broadcast_to(ratio, shape), weight.shape) if parts > 1 else tf.squeeze(ratio)


create = functools.partial(Lamb, bias_correction=True)

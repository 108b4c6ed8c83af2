"""LAMB (You et al. 2019): each layer's update is scaled to the norm of its weights, for large batches."""

import functools

import tensorflow as tf

from bert_tf.training.optimizers.adamw import EPSILON, NO_DECAY, AdamWeightDecay, Rates

FUSED = "query_key_value/kernel"  # three matrices side by side; each has its own trust ratio, as in the original


class Lamb(AdamWeightDecay):
    """AdamWeightDecay whose updates are multiplied by a trust ratio, norm of the weights / norm of the update."""

    def _update(
        self,
        name: str,
        weight: tf.Variable,
        gradient: tf.Tensor,
        scale: tf.Tensor,
        m: tf.Variable,
        v: tf.Variable,
        rates: Rates,
    ) -> None:
        gradient = gradient * scale
        m.assign(self.betas[0] * m + (1 - self.betas[0]) * gradient)
        v.assign(self.betas[1] * v + (1 - self.betas[1]) * tf.square(gradient))
        update = m * rates.scale_m / (tf.sqrt(v * rates.scale_v) + EPSILON)
        if self.weight_decay and not NO_DECAY.search(name):
            update += self.weight_decay * weight
        rate = rates.learning[self.factors.get(name, 1.0)]
        weight.assign_sub(rate * _trust_ratio(name, weight, update) * update)


def _trust_ratio(name: str, weight: tf.Variable, update: tf.Tensor) -> tf.Tensor | float:
    if NO_DECAY.search(name):  # as in the authors' code: the same exclusions as for weight decay
        return 1.0
    parts = 3 if name.endswith(FUSED) else 1
    shape = [weight.shape[0], parts, -1] if len(weight.shape) == 2 else [1, 1, -1]
    norms = [tf.norm(tf.reshape(x, shape), axis=[0, 2], keepdims=True) for x in (weight, update)]  # [1, parts, 1]
    ratio = tf.where((norms[0] > 0) & (norms[1] > 0), norms[0] / norms[1], 1.0)
    return tf.reshape(tf.broadcast_to(ratio, tf.shape(tf.reshape(weight, shape))), weight.shape)


create = functools.partial(Lamb, bias_correction=True)

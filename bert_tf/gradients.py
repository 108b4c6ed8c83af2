"""Functions with gradients that are written out: they keep less for the backward pass than what TensorFlow derives, and
go over the numbers fewer times.

N tokens, D their width.
"""

import math

import tensorflow as tf

TANH_SCALE, TANH_CUBE = math.sqrt(2 / math.pi), 0.044715  # of the approximation: Hendrycks & Gimpel 2016


def layer_norm(x, gamma, beta, eps):  # [N, D], [D], [D] -> [N, D]
    """Normalises each token, in float32 whatever the kind of `x`; gamma and beta are float32."""

    @tf.custom_gradient
    def normalised(x, gamma, beta):
        wide = tf.cast(x, tf.float32)
        mean, variance = tf.nn.moments(wide, -1, keepdims=True)  # [N, 1]
        scale = tf.math.rsqrt(variance + eps)  # [N, 1]

        def backward(upstream):
            upstream = tf.cast(upstream, tf.float32)
            unit = (tf.cast(x, tf.float32) - mean) * scale  # [N, D]
            along = upstream * unit
            means = [tf.linalg.matvec(part, gamma)[:, None] / x.shape[-1] for part in (upstream, along)]  # [N, 1]
            inner = (upstream * gamma - means[0] - unit * means[1]) * scale
            return tf.cast(inner, x.dtype), tf.reduce_sum(along, 0), tf.reduce_sum(upstream, 0)

        return tf.cast((wide - mean) * (scale * gamma) + beta, x.dtype), backward

    return normalised(x, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta))


@tf.custom_gradient
def gelu_erf(x):
    """x * P(a standard normal number is below x); as 0.5 * (1 + erf): TensorFlow's erfc is slow, in bfloat16 most."""
    share, root, density = (tf.cast(number, x.dtype) for number in (0.5, math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)))

    def below():
        return share + share * tf.math.erf(x * root)

    def backward(upstream):
        return upstream * (below() + x * (density * tf.exp(-share * tf.square(x))))

    return x * below(), backward


@tf.custom_gradient
def gelu_tanh(x):
    """The approximation with tanh of the original code."""
    share, one, scale, cube = (tf.cast(number, x.dtype) for number in (0.5, 1.0, TANH_SCALE, TANH_CUBE))

    def bent():
        return tf.tanh(x * (scale + scale * cube * tf.square(x)))

    def backward(upstream):
        tangent = bent()
        slope = scale + tf.cast(3.0, x.dtype) * scale * cube * tf.square(x)
        return upstream * (share * (one + tangent) + share * x * (one - tf.square(tangent)) * slope)

    return x * (share + share * bent()), backward


GELUS = {"gelu_erf": gelu_erf, "gelu_tanh": gelu_tanh}

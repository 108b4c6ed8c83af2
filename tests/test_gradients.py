"""Gradients that are written out are those that TensorFlow derives, in float32 and within the noise of bfloat16."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import gradients

DRAWS = np.random.default_rng(0)
X, UPSTREAM = (DRAWS.normal(size=(64, 24)).astype(np.float32) * size for size in (2, 1))
GAMMA, BETA = (DRAWS.normal(size=24).astype(np.float32) for _ in range(2))
NOISE = {"float32": 3e-6, "bfloat16": 0.03}  # as a share of the largest number


def plain_norm(x, gamma, beta):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * (tf.math.rsqrt(variance + 1e-6) * gamma) + beta


def value_and_gradients(function, arguments):
    """In a graph, as in training."""

    @tf.function
    def run(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = function(*arguments)
        return value, *tape.gradient(value, arguments, tf.cast(UPSTREAM, value.dtype))

    return run(*arguments)


def assert_near(found, expected, kind):
    for one, other in zip(found, expected, strict=True):
        one, other = (tf.cast(tensor, tf.float32).numpy() for tensor in (one, other))
        np.testing.assert_allclose(one, other, atol=NOISE[kind] * np.abs(other).max())


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("name", gradients.GELUS)
def test_the_gelus_and_their_gradients_are_tensorflows(name, kind):
    rounded = tf.cast(tf.constant(X), kind)
    expected = value_and_gradients(
        lambda x: tf.nn.gelu(x, approximate=name == "gelu_tanh"), [tf.cast(rounded, tf.float32)]
    )
    found = value_and_gradients(gradients.GELUS[name], [rounded])
    assert {tensor.dtype for tensor in found} == {rounded.dtype}
    assert_near(found, expected, kind)


@pytest.mark.parametrize("kind", NOISE)
def test_a_normalised_token_and_its_gradients_are_tensorflows(kind):
    rounded = tf.cast(tf.constant(X), kind)
    weights = [tf.constant(GAMMA), tf.constant(BETA)]
    expected = value_and_gradients(plain_norm, [tf.cast(rounded, tf.float32), *weights])
    found = value_and_gradients(lambda *given: gradients.layer_norm(*given, 1e-6), [rounded, *weights])
    assert [tensor.dtype.name for tensor in found] == [kind, kind, "float32", "float32"]
    assert_near(found, expected, kind)


@pytest.mark.parametrize("name", gradients.GELUS)
def test_a_gelu_far_from_zero_is_the_number_or_nothing(name):
    value, slope = value_and_gradients(
        lambda x: tf.broadcast_to(gradients.GELUS[name](x), UPSTREAM.shape), [tf.constant([[-40.0] * 12 + [40.0] * 12])]
    )
    np.testing.assert_array_equal(value[0], [0.0] * 12 + [40.0] * 12)
    np.testing.assert_allclose(slope[0], np.where(np.arange(24) < 12, 0, UPSTREAM.sum(0)), rtol=1e-5)

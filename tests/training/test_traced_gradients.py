"""Weights of a run that has ended are freed."""

import gc
import weakref

import tensorflow as tf

from bert_tf.training import traced_gradients


@tf.custom_gradient
def double(x):
    return 2 * x, lambda change: 2 * change


def gradient_of_a_traced_function():
    """The gradient, and a reference to what the function captures."""
    weight = tf.Variable(3.0)

    @tf.function
    def gradient():
        with tf.GradientTape() as tape:
            y = double(weight * weight)
        return tape.gradient(y, weight)

    return float(gradient()), weakref.ref(gradient.get_concrete_function().graph)


def test_graphs_are_freed_after_the_block_alone():
    known = set(traced_gradients.ops.gradient_registry.list())
    with traced_gradients.forgotten():
        value, graph = gradient_of_a_traced_function()
        gc.collect()
        assert value == 12 and graph() is not None, "TensorFlow keeps it"
    gc.collect()
    assert graph() is None
    assert set(traced_gradients.ops.gradient_registry.list()) == known

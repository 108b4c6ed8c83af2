"""Gradients that are written out are those that TensorFlow derives, in float32 and within the noise of bfloat16.

Narrow rows and wide ones: these are compiled, and filled up to a number of rows that is often seen.
"""

import os
import pathlib
import subprocess
import sys

import device_graphs
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model import fused_ops, xla_rowwise
from bert_tf.runtime import backend

pytestmark = pytest.mark.optimized_graphs

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRAWS = np.random.default_rng(0)
WIDTHS = (24, 400)
X, UPSTREAM = (DRAWS.normal(size=(65, 400)).astype(np.float32) * size for size in (2, 1))
GAMMA, BETA = (DRAWS.normal(size=400).astype(np.float32) for _ in range(2))
NOISE = {"float32": 5e-6, "bfloat16": 0.03}  # as a share of the largest number


def plain_norm(x, gamma, beta):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * (tf.math.rsqrt(variance + 1e-6) * gamma) + beta


def value_and_gradients(function, arguments):
    """In a graph that does not know how many rows there will be, as in training."""
    specs = [tf.TensorSpec([None, *x.shape[1:]] if len(x.shape) > 1 else x.shape, x.dtype) for x in arguments]

    @tf.function(input_signature=specs)
    def run(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = function(*arguments)
        return value, *tape.gradient(value, arguments, tf.cast(UPSTREAM[:, : value.shape[-1]], value.dtype))

    return run(*arguments)


def assert_near(actual, expected, kind):
    for one, other in zip(actual, expected, strict=True):
        one, other = (tf.cast(tensor, tf.float32).numpy() for tensor in (one, other))
        np.testing.assert_allclose(one, other, atol=NOISE[kind] * np.abs(other).max())


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", fused_ops.GELUS)
def test_gelu_and_gradients_match_tensorflow(name, width, kind):
    rounded = tf.cast(tf.constant(X[:, :width]), kind)
    expected = value_and_gradients(
        lambda x: tf.nn.gelu(x, approximate=name == "gelu_tanh"), [tf.cast(rounded, tf.float32)]
    )
    actual = value_and_gradients(fused_ops.GELUS[name], [rounded])
    assert {tensor.dtype for tensor in actual} == {rounded.dtype}
    assert_near(actual, expected, kind)


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("width", WIDTHS)
def test_layer_norm_and_gradients_match_tensorflow(width, kind):
    rounded = tf.cast(tf.constant(X[:, :width]), kind)
    weights = [tf.constant(GAMMA[:width]), tf.constant(BETA[:width])]
    expected = value_and_gradients(plain_norm, [tf.cast(rounded, tf.float32), *weights])
    actual = value_and_gradients(lambda *arguments: fused_ops.layer_norm(*arguments, 1e-6), [rounded, *weights])
    assert [tensor.dtype.name for tensor in actual] == [kind, kind, "float32", "float32"]
    assert_near(actual, expected, kind)


@pytest.mark.parametrize("name", fused_ops.GELUS)
def test_gelu_far_from_zero_is_identity_or_zero(name):
    value, slope = value_and_gradients(
        lambda x: tf.broadcast_to(fused_ops.GELUS[name](x), [65, 24]), [tf.constant([[-40.0] * 12 + [40.0] * 12])]
    )
    np.testing.assert_array_equal(value[0], [0.0] * 12 + [40.0] * 12)
    np.testing.assert_allclose(slope[0], np.where(np.arange(24) < 12, 0, UPSTREAM[:, :24].sum(0)), rtol=1e-5)


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("width", WIDTHS)
def test_dropped_values_have_no_gradient_and_kept_ones_are_scaled(width, kind):
    rounded, onto = (tf.cast(tf.constant(x[:, :width]), kind) for x in (X, GAMMA * X))
    lanes = tf.constant(DRAWS.integers(0, fused_ops.LANE, [65, width]), tf.uint16)
    factor = (lanes.numpy() >= 0.25 * fused_ops.LANE) / 0.75
    expected = value_and_gradients(lambda x, onto: x * factor + onto, [tf.cast(x, tf.float32) for x in (rounded, onto)])
    actual = value_and_gradients(lambda x, onto: fused_ops.dropout(x, lanes, 0.25, onto, width=width), [rounded, onto])
    assert_near(actual, expected, kind)
    alone = fused_ops.dropout(rounded, lanes, 0.25, width=width)
    assert_near([alone], [tf.cast(rounded, tf.float32) * factor], kind)
    assert not np.any(tf.cast(alone, tf.float32).numpy()[factor == 0])


@pytest.mark.parametrize("kind", NOISE)
def test_bias_gradient_matches_tensorflow(kind):
    arguments = [tf.cast(tf.constant(x), kind) for x in (X, BETA)]
    expected = value_and_gradients(tf.nn.bias_add, [tf.cast(x, tf.float32) for x in arguments])
    assert_near(value_and_gradients(fused_ops.bias_add, arguments), expected, kind)


@pytest.mark.parametrize("has_onednn", [True, False])
@pytest.mark.parametrize("kind", NOISE)
def test_layer_norm_of_static_shape_is_the_same(kind, has_onednn, as_platform):
    as_platform(onednn=has_onednn)
    weights = [tf.constant(GAMMA), tf.constant(BETA)]
    x = tf.cast(tf.constant(X), kind)
    any_number = tf.function(
        lambda x: fused_ops.normalize(x, *weights, 1e-6), input_signature=[tf.TensorSpec([None, 400], kind)]
    )
    assert_near([any_number(x)], [fused_ops.normalize(x, *weights, 1e-6)], kind)
    assert any_number(x[:0]).shape == (0, 400)


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("width", WIDTHS)
def test_layer_norm_and_gradients_are_the_same_on_any_device(width, kind):
    x = tf.cast(tf.constant(X[:, :width]), kind)
    arguments = [x, tf.constant(GAMMA[:width]), tf.constant(BETA[:width])]
    expected = value_and_gradients(lambda *x: fused_ops.layer_norm(*x, 1e-6), arguments)
    with backend.for_any_device():
        actual = value_and_gradients(lambda *x: fused_ops.layer_norm(*x, 1e-6), arguments)
    assert_near(actual, [tf.cast(x, tf.float32) for x in expected], kind)


def normalized_graph(normalize, eps=1e-6):
    """The GraphDef of a LayerNorm."""
    with tf.Graph().as_default() as graph:
        shapes = ([None, 400], [400], [400])
        tf.identity(normalize(*(tf.compat.v1.placeholder(tf.float32, shape) for shape in shapes), eps), "output")
    return graph.as_graph_def()


def test_layer_norm_is_chosen_per_device():
    graph = normalized_graph(fused_ops._normalize_where_it_runs)
    on_cpu = device_graphs.operations(device_graphs.optimized(graph, ["output"], "CPU"))
    assert on_cpu & {"FusedBatchNormV3", "_MklLayerNorm"} and "Mean" not in on_cpu
    device_graphs.assert_runs_on_a_gpu(graph, ["output"])
    assert "Mean" in device_graphs.operations(device_graphs.optimized(graph, ["output"], "GPU"))
    with pytest.raises(AssertionError):
        device_graphs.assert_runs_on_a_gpu(normalized_graph(fused_ops._normalize_as_batch), ["output"])


def test_layer_norms_of_other_types_widths_and_epsilons_are_distinguished():
    names = set()
    for dtype, width, eps in ((tf.float32, 8, 1e-6), (tf.bfloat16, 8, 1e-6), (tf.float32, 9, 1e-6), (tf.float32, 8, 1)):
        functions = [each.get_concrete_function() for each in fused_ops._implementations(dtype, width, eps)]
        (name,) = {each.function_def.attr["api_implements"].s for each in functions}
        names.add(name)
    assert len(names) == 4


ONEDNN = """
import tensorflow as tf
from tensorflow.python.eager import context
import device_graphs
from bert_tf.model import fused_ops
from bert_tf.runtime import backend

tokens, vector, kernel = tf.ones([65, 400]), tf.ones([400]), tf.ones([400, 400])
specs = [tf.TensorSpec([None, 400]), tf.TensorSpec([400]), tf.TensorSpec([400]), tf.TensorSpec([400, 400])]

def layer(x, gamma, beta, kernel):
    x = fused_ops.normalize(x, gamma, beta, 1e-6)
    return x + tf.nn.bias_add(tf.matmul(x, kernel), beta)

def operations():
    with context.collect_graphs(optimized=True) as graphs:
        tf.function(layer, input_signature=specs)(tokens, vector, vector, kernel)
    return {node.op for graph in graphs for node in graph.node}

with backend.for_any_device():
    anywhere = operations()
    with tf.Graph().as_default() as graph:
        inputs = [tf.compat.v1.placeholder(tf.float32, spec.shape) for spec in specs[:3]]
        tf.identity(fused_ops.normalize(*inputs, 1e-6), "output")
here = operations()
print("_MklLayerNorm" in here, "AddV2" in here, "AddV2" in anywhere)
print("_MklLayerNorm" in device_graphs.operations(device_graphs.optimized(graph.as_graph_def(), ["output"], "CPU")))
"""


@pytest.mark.slow
def test_onednn_fuses_layer_norm_and_residual_matmul():
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "helpers")])
    onednn = {"TF_ENABLE_ONEDNN_OPTS": "1", "PYTHONPATH": path}  # not every CPU has it by itself
    command = [sys.executable, "-c", ONEDNN]
    done = subprocess.run(command, env={**os.environ, **onednn}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False", "True"]  # a new TensorFlow may not find the patterns


def test_row_padding_is_at_most_an_eighth():
    for rows in (*range(8, 200), 1000, 4097):
        (_, more), *_ = xla_rowwise._paddings(tf.constant([rows, 3]))[0].numpy()
        assert 0 <= more <= rows / 8


def operations_of_layer_norm():
    specs = [tf.TensorSpec([None, 400]), tf.TensorSpec([400]), tf.TensorSpec([400])]
    traced = tf.function(lambda *x: fused_ops.layer_norm(*x, 1e-6), input_signature=specs).get_concrete_function()
    return {operation.type for operation in traced.graph.get_operations()}


def test_no_cpu_only_operation_is_used_where_a_gpu_is_visible(as_platform):
    as_platform(onednn=True)
    assert "FusedBatchNormV3" in operations_of_layer_norm()
    as_platform("gpu")
    assert "FusedBatchNormV3" not in operations_of_layer_norm()
    assert_near(
        value_and_gradients(lambda *x: fused_ops.layer_norm(*x, 1e-6), [tf.constant(x) for x in (X, GAMMA, BETA)]),
        value_and_gradients(plain_norm, [tf.constant(x) for x in (X, GAMMA, BETA)]),
        "float32",
    )


@pytest.mark.parametrize("kind", NOISE)
def test_softmax_matches_tensorflow(kind):
    arguments = [tf.cast(tf.constant(X), kind)]
    expected = value_and_gradients(tf.nn.softmax, [tf.cast(x, tf.float32) for x in arguments])
    assert_near(value_and_gradients(fused_ops.softmax, arguments), expected, kind)


@pytest.mark.parametrize("kind", NOISE)
def test_gather_within_rows_matches_gather(kind):
    x = tf.cast(tf.constant(X), kind)
    indices = tf.constant(DRAWS.integers(0, 13, [5, 13]) + 13 * np.arange(5)[:, None], tf.int32)  # of five rows
    expected = value_and_gradients(lambda x: tf.gather(1.0 * x, tf.reshape(indices, [-1])), [tf.cast(x, tf.float32)])
    assert_near(value_and_gradients(lambda x: fused_ops.gather_within_rows(x, indices), [x]), expected, kind)

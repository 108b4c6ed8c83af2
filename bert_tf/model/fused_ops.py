"""LayerNorm, GELU, dropout, bias and a gather, with hand-written gradients.

They store less for the backward pass than TensorFlow's automatic gradients and traverse the data fewer times. They
compute in float32 whatever the dtype of their arguments.

N tokens, D hidden size.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.model import xla_rowwise
from bert_tf.runtime import backend

LANE = 2**16  # values of a random uint16: a rate of 0.1 becomes 6554 of them, 0.100006
TANH_SCALE, TANH_CUBE = math.sqrt(2 / math.pi), 0.044715  # the tanh approximation of Hendrycks & Gimpel 2016


def with_gradient(function: Callable[..., tuple[Any, Callable]]) -> Callable[..., Any]:
    """`tf.custom_gradient`; only the value in exports and in `backend.only_values`, which need no gradient."""
    differentiable = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(*arguments: tf.Tensor) -> Any:
        return differentiable(*arguments) if backend.needs_gradients() else function(*arguments)[0]

    return call


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, eps: float) -> tf.Tensor:  # [N, D], [D], [D] -> [N, D]
    """Layer normalization of each token (Ba et al. 2016); gamma and beta are float32."""

    @with_gradient
    def normalized(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            (inner,), outer = xla_rowwise.jit_rowwise(_layer_norm_slopes, [x, upstream], [gamma, tf.constant(eps)])
            return inner, *outer

        return normalize(x, gamma, beta, eps), backward

    return normalized(x, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta))


def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, eps: float) -> tf.Tensor:  # [N, D], [D], [D] -> [N, D]
    """The forward pass of `layer_norm`, chosen for the device.

    With a dynamic number of tokens on a CPU with oneDNN it is a batch normalization over tokens; with static shapes
    constant folding would hide the pattern that oneDNN looks for.
    """
    if x.shape[0] is None:
        platform = backend.platform()
        if platform == "any":
            return _normalize_where_it_runs(x, gamma, beta, eps)
        if platform == "cpu" and backend.has_onednn():
            return _normalize_as_batch(x, gamma, beta, eps)
    return _normalize_by_moments(x, gamma, beta, eps)


def _normalize_by_moments(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, eps: float) -> tf.Tensor:
    """`normalize` for any device."""
    wide = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(wide, -1, keepdims=True)
    return tf.cast((wide - mean) * (tf.math.rsqrt(variance + eps) * gamma) + beta, x.dtype)


def _normalize_as_batch(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, eps: float) -> tf.Tensor:
    """`normalize` for CPUs with oneDNN.

    TensorFlow fuses exactly this pattern into one oneDNN operation, several times as fast as any other formulation;
    also in graphs that run on a GPU, which lacks that operation. Without oneDNN it takes five times as long as the
    plain formulation.
    """
    tokens, width, empty = tf.shape(x)[0], x.shape[-1], tf.constant([], tf.float32)
    unit = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, [1, tokens, width, 1]),
        scale=tf.fill([tokens], 1.0),
        offset=tf.fill([tokens], 0.0),
        mean=empty,
        variance=empty,
        epsilon=eps,
        data_format="NCHW",
        is_training=True,
    )
    return tf.reshape(unit.y, [tokens, width]) * tf.cast(gamma, x.dtype) + tf.cast(beta, x.dtype)


def _normalize_where_it_runs(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, eps: float) -> tf.Tensor:
    """`normalize` in a graph with both implementations, one of which TensorFlow selects at run time.

    The graph calls the implementation for any device. If the call is placed on a CPU, Grappler's implementation
    selector replaces it with the other one, which has the same `api_implements` attribute.
    """
    by_moments, as_batch = _implementations(x.dtype, x.shape[-1], eps)
    as_batch.get_concrete_function().add_to_graph(tf.compat.v1.get_default_graph())
    return tf.reshape(by_moments(x, gamma, beta), tf.shape(x))  # tells TensorFlow that x and this can be added


@functools.cache
def _implementations(
    dtype: tf.DType, width: int, eps: float
) -> tuple[tf.types.experimental.PolymorphicFunction, tf.types.experimental.PolymorphicFunction]:
    """Both implementations of `normalize` as functions of x, gamma, beta: for any device, and for CPUs."""
    specs = [tf.TensorSpec([None, width], dtype), tf.TensorSpec([width]), tf.TensorSpec([width])]

    def implementation(normalize: Callable, device: str) -> tf.types.experimental.PolymorphicFunction:
        # TensorFlow treats functions of one name as interchangeable, so it includes all values that are not arguments.
        attributes = {"api_implements": f"layer_norm_{dtype.name}_{width}_{eps}", "api_preferred_device": device}

        @tf.function(input_signature=specs, autograph=False, experimental_attributes=attributes)
        def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
            return normalize(x, gamma, beta, eps)

        return layer_norm

    return implementation(_normalize_by_moments, "GPU"), implementation(_normalize_as_batch, "CPU")


def _layer_norm_slopes(
    tensors: Sequence[tf.Tensor], weights: Sequence[tf.Tensor]
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    (x, upstream), (gamma, eps) = tensors, weights
    kind, x, upstream = x.dtype, tf.cast(x, tf.float32), tf.cast(upstream, tf.float32)
    mean, variance = tf.nn.moments(x, -1, keepdims=True)  # [N, 1]
    scale = tf.math.rsqrt(variance + eps)  # [N, 1]
    unit = (x - mean) * scale  # [N, D]
    along = upstream * unit
    means = [tf.reduce_mean(part * gamma, -1, keepdims=True) for part in (upstream, along)]  # [N, 1]
    inner = (upstream * gamma - means[0] - unit * means[1]) * scale
    return [tf.cast(inner, kind)], [tf.reduce_sum(along, 0), tf.reduce_sum(upstream, 0)]


@with_gradient
def bias_add(x: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, Callable]:  # [N, D], [D] -> [N, D]
    """Adds a bias; on CPUs its gradient is a product with ones, which is faster than the gradient of tf.nn.bias_add.

    On accelerators it is a sum: XLA would merge the products of all layers into one and keep all their operands.
    """

    def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if backend.platform() != "cpu":
            return upstream, tf.cast(tf.reduce_sum(tf.cast(upstream, tf.float32), 0), upstream.dtype)
        ones = tf.ones([1, tf.shape(upstream)[0]], upstream.dtype)
        return upstream, tf.squeeze(tf.matmul(ones, upstream), 0)

    return tf.nn.bias_add(x, bias), backward


@with_gradient
def softmax(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:  # [..., T] -> [..., T]
    """Softmax whose gradient needs only the result, in the type of `x`: XLA would keep it in float32."""
    y = tf.cast(tf.nn.softmax(tf.cast(x, tf.float32)), x.dtype)

    def backward(upstream: tf.Tensor) -> tf.Tensor:
        wide, upstream = tf.cast(y, tf.float32), tf.cast(upstream, tf.float32)
        along = tf.reduce_sum(upstream * wide, -1, keepdims=True)
        return tf.cast((upstream - along) * wide, x.dtype)

    return y, backward


def gather_within_rows(x: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:  # [N, D], int32 [B, P] -> [B * P, D]
    """Gathers from `x`, B rows of N / B tokens each; the P indices of a row refer to that row.

    Its gradient is a matrix product. The gradient of tf.gather is a scatter, which makes XLA choose column-major
    layouts on a GPU for much more than the scatter itself.
    """

    @with_gradient
    def gathered(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def backward(upstream: tf.Tensor) -> tf.Tensor:
            rows, width = tf.shape(indices)[0], tf.shape(x)[0] // tf.shape(indices)[0]
            places = tf.one_hot(indices % width, width, dtype=upstream.dtype)  # [B, P, T]
            upstream = tf.reshape(upstream, [rows, -1, x.shape[-1]])
            return tf.reshape(tf.matmul(places, upstream, transpose_a=True), tf.shape(x))

        return tf.gather(x, tf.reshape(indices, [-1])), backward

    return gathered(x)


def dropout(
    x: tf.Tensor, lanes: tf.Tensor, rate: float, residual: tf.Tensor | None = None, *, width: int
) -> tf.Tensor:  # [...], uint16 [...] -> [...]
    """Dropout with given random bits: 0 for lanes below the rate, else x / (1 - rate); then adds `residual`.

    width: decides whether it is compiled, like the row length in `xla_rowwise`.
    """
    weights = [tf.constant(round(rate * LANE), tf.uint16), tf.constant(1 / (1 - rate))]

    def apply(x: tf.Tensor, *residual: tf.Tensor) -> tf.Tensor:
        tensors = [tf.reshape(each, [-1]) for each in (x, lanes, *residual)]
        return tf.reshape(xla_rowwise.jit_rowwise(_dropped, tensors, weights, width=width)[0][0], tf.shape(x))

    @with_gradient
    def function(x: tf.Tensor, *residual: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        return apply(x, *residual), lambda upstream: (apply(upstream), *(upstream for _ in residual))

    return function(x, *([] if residual is None else [residual]))


def _dropped(tensors: Sequence[tf.Tensor], weights: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    (x, lanes, *residual), (least, factor) = tensors, weights
    y = tf.where(lanes >= least, tf.cast(x, tf.float32) * factor, 0.0)
    for other in residual:
        y += tf.cast(other, tf.float32)
    return [tf.cast(y, x.dtype)], []


def _with_slope(value: Callable, slope: Callable) -> Callable[[tf.Tensor], tf.Tensor]:
    """The elementwise function `value` on [N, D], with derivative `slope`."""

    def values(tensors: Sequence[tf.Tensor], weights: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        (x,) = tensors
        return [tf.cast(value(tf.cast(x, tf.float32)), x.dtype)], []

    def slopes(tensors: Sequence[tf.Tensor], weights: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        x, upstream = tensors
        return [tf.cast(tf.cast(upstream, tf.float32) * slope(tf.cast(x, tf.float32)), x.dtype)], []

    @with_gradient
    def function(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def backward(upstream: tf.Tensor) -> tf.Tensor:
            return xla_rowwise.jit_rowwise(slopes, [x, upstream])[0][0]

        return xla_rowwise.jit_rowwise(values, [x])[0][0], backward

    return function


def _below(x: tf.Tensor) -> tf.Tensor:
    """The standard normal cumulative distribution; computed by erf: TensorFlow's erfc is slow."""
    return 0.5 + 0.5 * tf.math.erf(x * math.sqrt(0.5))


def _erf_slope(x: tf.Tensor) -> tf.Tensor:
    return _below(x) + x * tf.exp(-0.5 * tf.square(x)) / math.sqrt(2 * math.pi)


def _bent(x: tf.Tensor) -> tf.Tensor:
    return tf.tanh(TANH_SCALE * x * (1 + TANH_CUBE * tf.square(x)))


def _tanh_slope(x: tf.Tensor) -> tf.Tensor:
    tangent = _bent(x)
    inner = TANH_SCALE * (1 + 3 * TANH_CUBE * tf.square(x))
    return 0.5 * (1 + tangent) + 0.5 * x * (1 - tf.square(tangent)) * inner


# gelu_tanh: the approximation in google-research/bert.
GELUS = {
    "gelu_erf": _with_slope(lambda x: x * _below(x), _erf_slope),
    "gelu_tanh": _with_slope(lambda x: 0.5 * x * (1 + _bent(x)), _tanh_slope),
}

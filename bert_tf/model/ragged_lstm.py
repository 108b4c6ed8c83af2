"""LSTMs over texts of different lengths that spend no time on padding.

B texts, T positions, N tokens in all texts, S steps, H units. A step processes one token of every text that is long
enough. Texts are sorted from longest to shortest, so the states of a step continue the first rows of the previous
step's. The input's part of the gates is one matrix product over all tokens, before the first step.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model import fused_ops
from bert_tf.model.layers import ConfiguredLayer


def lstm(input_size: int, units: int, dtype: Any, **options: Any) -> keras.layers.LSTM:
    """Builds a keras.layers.LSTM that returns sequences, to be run by a Recurrence: [B, T, input_size] -> [B, T, H]."""
    layer = keras.layers.LSTM(units, return_sequences=True, recurrent_initializer=_Orthogonal(), dtype=dtype, **options)
    layer.build((None, None, input_size))
    return layer


class _Orthogonal(keras.initializers.Orthogonal):
    """Draws in float32: TensorFlow has no QR decomposition in bfloat16."""

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
        return tf.cast(super().__call__(shape, "float32"), dtype or "float32")


class Recurrence:
    """Runs any number of LSTMs over texts of the same lengths."""

    def __init__(self, lengths: tf.Tensor, positions: tf.Tensor | int) -> None:
        """lengths: int32 [B]; positions: T, an int if shapes are static, as under XLA: then Keras computes."""
        self.lengths, self.positions = lengths, positions
        self.steps = None if isinstance(positions, int) else _Steps.of(lengths, positions)

    @classmethod
    def of(cls, x: tf.Tensor, lengths: tf.Tensor) -> "Recurrence":
        """For texts [B, T, ...] of `lengths` [B]."""
        return cls(lengths, tf.shape(x)[1] if x.shape[1] is None else x.shape[1])

    def __call__(self, lstm: keras.layers.LSTM, x: tf.Tensor) -> tf.Tensor:
        """Runs a keras.layers.LSTM that returns sequences: [B, T, D] -> [B, T, H], undefined after a text's end.

        With `go_backwards` it starts at the last token of each text, and outputs are at their tokens' positions.
        """
        if self.steps is None:
            outputs = lstm(x, mask=tf.sequence_mask(self.lengths, self.positions))
            return tf.reverse(outputs, [1]) if lstm.go_backwards else outputs
        indices = self.steps.backwards if lstm.go_backwards else self.steps.forwards
        dtype, weights = lstm.compute_dtype, (lstm.cell.kernel, lstm.cell.recurrent_kernel)
        kernel, recurrent = (tf.cast(weight.value, dtype) for weight in weights)
        tokens = tf.gather(tf.reshape(x, [-1, x.shape[-1]]), indices)  # [N, D], in the order of steps
        inputs = _product(tokens, kernel) + tf.cast(lstm.cell.bias.value, tf.float32)
        states = _states(inputs, recurrent, self.steps.bounds, self.steps.before)
        batch = tf.shape(self.lengths)[0]
        outputs = tf.scatter_nd(indices[:, None], tf.cast(states, dtype), [batch * self.positions, lstm.units])
        return tf.reshape(outputs, [batch, self.positions, lstm.units])


@dataclasses.dataclass(frozen=True)
class _Steps:
    """The tokens of each step.

    forwards, backwards: int32 [N], flat indices b * T + t of the tokens in step order, for either direction;
    bounds [S + 1]: the range of tokens in each step; before [N]: the index, in step order, of the same text's token in
    the previous step, -1 in the first.
    """

    forwards: tf.Tensor
    backwards: tf.Tensor
    bounds: tf.Tensor
    before: tf.Tensor

    @classmethod
    def of(cls, lengths: tf.Tensor, positions: tf.Tensor) -> "_Steps":
        """Sorts the tokens of texts of `lengths` [B], padded to `positions`, into steps."""
        texts = tf.argsort(lengths, direction="DESCENDING", stable=True)
        in_order = tf.gather(lengths, texts)
        steps = tf.reduce_max(tf.concat([lengths, [1]], 0))  # 1 for an empty batch
        is_used = tf.range(steps)[:, None] < in_order[None, :]  # [S, B]
        step, rank = tf.unstack(tf.cast(tf.where(is_used), tf.int32), axis=1)  # [N] each
        bounds = tf.concat([[0], tf.cumsum(tf.math.count_nonzero(is_used, 1, dtype=tf.int32))], 0)
        text = tf.gather(texts, rank)
        return cls(
            forwards=text * positions + step,
            backwards=text * positions + tf.gather(lengths, text) - 1 - step,
            bounds=bounds,
            before=tf.where(step > 0, tf.gather(bounds, tf.maximum(step - 1, 0)) + rank, -1),
        )


@fused_ops.with_gradient
def _states(
    inputs: tf.Tensor, kernel: tf.Tensor, bounds: tf.Tensor, before: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor | None, ...]]]:
    """Returns the states of an LSTM after each token, float32 [N, H], in step order.

    inputs: float32 [N, 4 H], the input's part of the gates (Keras's order: input, forget, candidate, output). kernel:
    [H, 4 H]; states are multiplied in its precision. The kernel's gradient is one product over all tokens.
    """
    size, steps = kernel.shape[0], tf.size(bounds) - 1

    def step(number: tf.Tensor, state: tf.Tensor, memory: tf.Tensor, outputs: tf.TensorArray) -> tuple:
        tokens = slice(bounds[number], bounds[number + 1])
        count = bounds[number + 1] - bounds[number]
        i, f, g, o = tf.split(inputs[tokens] + _product(state[:count], kernel), 4, -1)
        i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
        memory = f * memory[:count] + i * g
        state = o * tf.tanh(memory)
        return number + 1, state, memory, outputs.write(number, tf.concat([state, memory, i, f, g, o], -1))

    zeros = tf.zeros([bounds[1], size])
    outputs = _loop(lambda number, *_: number < steps, step, 0, zeros, steps, width=6 * size)  # [N, 6 H]
    states, memories, *gates = tf.split(outputs, 6, -1)

    def gradient(d_states: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
        d_inputs = _backwards(d_states, kernel, bounds, memories, _earlier(memories, before), gates)
        earlier = tf.cast(_earlier(states, before), kernel.dtype)
        return d_inputs, tf.matmul(earlier, tf.cast(d_inputs, kernel.dtype), transpose_a=True), None, None

    return states, gradient


def _backwards(
    d_states: tf.Tensor,
    kernel: tf.Tensor,
    bounds: tf.Tensor,
    memories: tf.Tensor,
    earlier: tf.Tensor,
    gates: list[tf.Tensor],
) -> tf.Tensor:
    """Returns the gradient of the inputs [N, 4 H], given the gradient of the states [N, H]."""
    steps = tf.size(bounds) - 1

    def step(number: tf.Tensor, d_state: tf.Tensor, d_memory: tf.Tensor, outputs: tf.TensorArray) -> tuple:
        tokens = slice(bounds[number], bounds[number + 1])
        ending = [
            [0, bounds[number + 1] - bounds[number] - tf.shape(d_state)[0]],
            [0, 0],
        ]  # texts ending at this step
        i, f, g, o = (gate[tokens] for gate in gates)
        activated = tf.tanh(memories[tokens])
        d_state = d_states[tokens] + tf.pad(d_state, ending)
        d_memory = d_state * o * (1 - activated * activated) + tf.pad(d_memory, ending)
        d_gates = [
            d_memory * g * i * (1 - i),
            d_memory * earlier[tokens] * f * (1 - f),
            d_memory * i * (1 - g * g),
            d_state * activated * o * (1 - o),
        ]
        d_inputs = tf.concat(d_gates, -1)
        d_state = _product(d_inputs, kernel, transpose_b=True)
        return number - 1, d_state, d_memory * f, outputs.write(number, d_inputs)

    zeros = tf.zeros([0, kernel.shape[0]])
    return _loop(lambda number, *_: number >= 0, step, steps - 1, zeros, steps, width=kernel.shape[1])


def _loop(
    condition: Callable[..., tf.Tensor],
    step: Callable[..., tuple],
    first: tf.Tensor | int,
    zeros: tf.Tensor,
    steps: tf.Tensor,
    *,
    width: int,
) -> tf.Tensor:
    """Runs the steps with a state and a memory initialized to `zeros`; returns the concatenated outputs [N, width]."""
    shape = tf.TensorShape([None, zeros.shape[1]])
    outputs = tf.TensorArray(tf.float32, steps, infer_shape=False, element_shape=[None, width])
    start = (first, zeros, zeros, outputs)
    shapes = (tf.TensorShape([]), shape, shape, tf.TensorShape(None))
    return tf.while_loop(condition, step, start, shape_invariants=shapes, parallel_iterations=1)[-1].concat()


def _product(x: tf.Tensor, kernel: tf.Tensor, **options: bool) -> tf.Tensor:
    return tf.cast(tf.matmul(tf.cast(x, kernel.dtype), kernel, **options), tf.float32)


def _earlier(x: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
    """Returns the row of the previous token of the same text for each token, 0 for the first: [N, H]."""
    return tf.where(before[:, None] >= 0, tf.gather(x, tf.maximum(before, 0)), 0.0)


class BiLstm(ConfiguredLayer):
    """Layers of bidirectional LSTMs, [B, T, size_in] -> [B, T, size]; each direction has half of `size`."""

    def __init__(self, config: BertConfig | dict, size_in: int, size: int, layers: int = 2, **options: Any):
        super().__init__(config, **options)
        sizes = [(size if layer else size_in, size // 2) for layer in range(layers)]
        self.forwards = [lstm(*each, self.dtype_policy) for each in sizes]
        self.backwards = [lstm(*each, self.dtype_policy, go_backwards=True) for each in sizes]
        self.built = True

    def call(self, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Maps [B, T, size_in] of texts of `lengths` [B] to [B, T, size]."""
        run = Recurrence.of(x, lengths)
        for forward, backward in zip(self.forwards, self.backwards, strict=True):
            x = tf.concat([run(forward, x), run(backward, x)], -1)
        return x


def final_states(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:  # [B, T, D], [B] -> [B, D]
    """The states after a whole text: the forward LSTM's at the last token, the backward LSTM's at the first."""
    forward, backward = tf.split(x, 2, axis=-1)
    last = tf.gather(forward, tf.maximum(lengths - 1, 0), batch_dims=1)
    return tf.concat([last, backward[:, 0]], -1)

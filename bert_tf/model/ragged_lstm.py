"""LSTMs over texts of different lengths, in which padding costs nothing.

B texts, T slots, N tokens of all texts, S steps, H numbers of a state. A step goes over one token of every text that
has so many left; texts lie in it from the longest to the shortest, so that the states of a step are the first rows of
those of the step before. What the inputs do to a state is one product over all tokens, before the first step.
"""

import dataclasses

import keras
import tensorflow as tf


def lstm(size_in, size, dtype, **options):
    """A built keras.layers.LSTM that returns sequences, for a Recurrence: [B, T, size_in] -> [B, T, size]."""
    made = keras.layers.LSTM(size, return_sequences=True, recurrent_initializer=_Orthogonal(), dtype=dtype, **options)
    made.build((None, None, size_in))
    return made


class _Orthogonal(keras.initializers.Orthogonal):
    """Drawn in float32: TensorFlow has no QR decomposition of bfloat16."""

    def __call__(self, shape, dtype=None):
        return tf.cast(super().__call__(shape, "float32"), dtype or "float32")


class Recurrence:
    """What LSTMs make of texts of these lengths, for as many LSTMs as there are."""

    def __init__(self, lengths, slots):
        """lengths: int32 [B]; slots: T, a number where shapes are known beforehand, as for XLA: then Keras computes."""
        self.lengths, self.slots = lengths, slots
        self.steps = None if isinstance(slots, int) else _Steps.of(lengths, slots)

    @classmethod
    def of(cls, x, lengths):
        """For texts [B, T, ...]."""
        return cls(lengths, tf.shape(x)[1] if x.shape[1] is None else x.shape[1])

    def __call__(self, lstm, x):
        """What a keras.layers.LSTM that returns sequences makes of x [B, T, D]: [B, T, H]; anything behind a text.

        One that goes backwards begins with the last token of each text; what it makes of a token stands at the token.
        """
        if self.steps is None:
            made = lstm(x, mask=tf.sequence_mask(self.lengths, self.slots))
            return tf.reverse(made, [1]) if lstm.go_backwards else made
        places = self.steps.backwards if lstm.go_backwards else self.steps.forwards
        dtype, weights = lstm.compute_dtype, (lstm.cell.kernel, lstm.cell.recurrent_kernel)
        kernel, recurrent = (tf.cast(weight.value, dtype) for weight in weights)
        tokens = tf.gather(tf.reshape(x, [-1, x.shape[-1]]), places)  # [N, D], in the order of steps
        inputs = _product(tokens, kernel) + tf.cast(lstm.cell.bias.value, tf.float32)
        states = _states(inputs, recurrent, self.steps.bounds, self.steps.before)
        batch = tf.shape(self.lengths)[0]
        made = tf.scatter_nd(places[:, None], tf.cast(states, dtype), [batch * self.slots, lstm.units])
        return tf.reshape(made, [batch, self.slots, lstm.units])


@dataclasses.dataclass(frozen=True)
class _Steps:
    """Where the tokens of each step stand.

    forwards, backwards: slots b * T + t of the tokens in the order of steps, int32 [N], for either direction; bounds
    [S + 1]: the tokens of each step; before [N]: the place in that order of the same text's token one step before, -1
    at first.
    """

    forwards: tf.Tensor
    backwards: tf.Tensor
    bounds: tf.Tensor
    before: tf.Tensor

    @classmethod
    def of(cls, lengths, slots):
        texts = tf.argsort(lengths, direction="DESCENDING", stable=True)
        in_order = tf.gather(lengths, texts)
        steps = tf.reduce_max(tf.concat([lengths, [1]], 0))  # of no text at all: 1
        is_used = tf.range(steps)[:, None] < in_order[None, :]  # [S, B]
        step, rank = tf.unstack(tf.cast(tf.where(is_used), tf.int32), axis=1)  # [N] each
        bounds = tf.concat([[0], tf.cumsum(tf.math.count_nonzero(is_used, 1, dtype=tf.int32))], 0)
        text = tf.gather(texts, rank)
        return cls(
            forwards=text * slots + step,
            backwards=text * slots + tf.gather(lengths, text) - 1 - step,
            bounds=bounds,
            before=tf.where(step > 0, tf.gather(bounds, tf.maximum(step - 1, 0)) + rank, -1),
        )


@tf.custom_gradient
def _states(inputs, kernel, bounds, before):
    """The states of an LSTM after each token, float32 [N, H], in the order of steps.

    inputs: float32 [N, 4 H], what the tokens do to the gates (Keras's order: input, forget, candidate, output); kernel
    [H, 4 H], in whose precision states are multiplied. The gradient multiplies the kernel's part once for all tokens.
    """
    size, steps = kernel.shape[0], tf.size(bounds) - 1

    def step(number, state, memory, kept):
        here = slice(bounds[number], bounds[number + 1])
        count = bounds[number + 1] - bounds[number]
        i, f, g, o = _activated(inputs[here] + _product(state[:count], kernel))
        memory = f * memory[:count] + i * g
        state = o * tf.tanh(memory)
        return number + 1, state, memory, kept.write(number, tf.concat([state, memory, i, f, g, o], -1))

    nothing = tf.zeros([bounds[1], size])
    kept = _loop(lambda number, *_: number < steps, step, 0, nothing, steps, width=6 * size)  # [N, 6 H]
    states, memories, *gates = tf.split(kept, 6, -1)

    def gradient(d_states):
        d_inputs = _backwards(d_states, kernel, bounds, memories, _earlier(memories, before), gates)
        earlier = tf.cast(_earlier(states, before), kernel.dtype)
        return d_inputs, tf.matmul(earlier, tf.cast(d_inputs, kernel.dtype), transpose_a=True), None, None

    return states, gradient


def _backwards(d_states, kernel, bounds, memories, earlier, gates):
    """The gradient of the inputs [N, 4 H], of that of the states [N, H]."""
    steps = tf.size(bounds) - 1

    def step(number, d_state, d_memory, kept):
        here = slice(bounds[number], bounds[number + 1])
        more = [[0, bounds[number + 1] - bounds[number] - tf.shape(d_state)[0]], [0, 0]]  # texts that end here
        i, f, g, o = (gate[here] for gate in gates)
        shown = tf.tanh(memories[here])
        d_state = d_states[here] + tf.pad(d_state, more)
        d_memory = d_state * o * (1 - shown * shown) + tf.pad(d_memory, more)
        of_gates = [
            d_memory * g * i * (1 - i),
            d_memory * earlier[here] * f * (1 - f),
            d_memory * i * (1 - g * g),
            d_state * shown * o * (1 - o),
        ]
        made = tf.concat(of_gates, -1)
        return number - 1, _product(made, kernel, transpose_b=True), d_memory * f, kept.write(number, made)

    nothing = tf.zeros([0, kernel.shape[0]])
    return _loop(lambda number, *_: number >= 0, step, steps - 1, nothing, steps, width=kernel.shape[1])


def _loop(goes_on, step, first, nothing, steps, *, width):
    """Goes through the steps with a state and a memory, `nothing` at first; what each has kept, [N, width]."""
    shape = tf.TensorShape([None, nothing.shape[1]])
    kept = tf.TensorArray(tf.float32, steps, infer_shape=False, element_shape=[None, width])
    start = (first, nothing, nothing, kept)
    shapes = (tf.TensorShape([]), shape, shape, tf.TensorShape(None))
    return tf.while_loop(goes_on, step, start, shape_invariants=shapes, parallel_iterations=1)[-1].concat()


def _activated(gates):
    i, f, g, o = tf.split(gates, 4, -1)
    return tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)


def _product(x, kernel, **options):
    return tf.cast(tf.matmul(tf.cast(x, kernel.dtype), kernel, **options), tf.float32)


def _earlier(x, before):
    """Of each token what stood at the token before in its text, 0 at first: [N, H]."""
    return tf.where(before[:, None] >= 0, tf.gather(x, tf.maximum(before, 0)), 0.0)

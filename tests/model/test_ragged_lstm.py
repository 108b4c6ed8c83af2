"""LSTMs that go over tokens alone: the states and the gradients of Keras's own, forwards and backwards."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.model.ragged_lstm import BiLstm, Recurrence

LENGTHS = ([3, 7, 1, 7, 0, 4], [1], [0, 0], [5, 5, 5])


def made_by(slots, lstm, x, lengths):
    """The states of used slots and the gradients of x and of the weights, of slots known beforehand or not."""
    weights = [variable.value for variable in lstm.trainable_variables]
    used = tf.cast(tf.sequence_mask(lengths, x.shape[1]), tf.float32)[:, :, None]

    @tf.function(input_signature=[tf.TensorSpec([None, slots, x.shape[2]])], autograph=False)
    def made(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            states = tf.cast(Recurrence.of(x, tf.constant(lengths))(lstm, x), tf.float32) * used
            loss = tf.reduce_sum(tf.sin(states) * tf.range(1.0, 1.0 + lstm.units))
        return [states, *tape.gradient(loss, [x, *weights])]

    return [value.numpy() for value in made(tf.constant(x))]


def lstm_of(size_in, *, backwards, dtype="float32"):
    keras.utils.set_random_seed(1)
    lstm = keras.layers.LSTM(6, return_sequences=True, go_backwards=backwards, dtype=dtype)
    lstm.build((None, None, size_in))
    return lstm


@pytest.mark.parametrize("backwards", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_states_and_gradients_match_keras(lengths, backwards):
    lstm = lstm_of(5, backwards=backwards)
    x = np.random.default_rng(0).normal(size=(len(lengths), 8, 5)).astype(np.float32)
    plain, ours = (made_by(slots, lstm, x, np.array(lengths, np.int32)) for slots in (8, None))
    assert len(ours) == 5
    for expected, actual in zip(plain, ours, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_bfloat16_states_are_close_to_float32():
    x = np.random.default_rng(0).normal(size=(4, 8, 5)).astype(np.float32)
    lengths = np.array([8, 2, 5, 8], np.int32)
    exact, rough = (
        made_by(None, lstm_of(5, backwards=True, dtype=dtype), x, lengths) for dtype in ("float32", "mixed_bfloat16")
    )
    np.testing.assert_allclose(rough[0], exact[0], atol=0.02)
    assert np.abs(rough[0] - exact[0]).max() > 1e-5
    for expected, actual in zip(exact[2:], rough[2:], strict=True):
        np.testing.assert_allclose(actual, expected, atol=0.03 * np.abs(expected).max())


@pytest.mark.slow
def test_mixed_precision_layers_are_close_to_float32():
    x = np.random.default_rng(0).normal(size=(4, 8, 5)).astype(np.float32)
    actual = []
    for dtype in ("float32", "mixed_bfloat16"):
        keras.utils.set_random_seed(1)
        layer = BiLstm(tiny.CONFIG, 5, 6, dtype=dtype)
        compiled = tf.function(layer, input_signature=[tf.TensorSpec([None, None, 5]), tf.TensorSpec([None], tf.int32)])
        actual.append(compiled(tf.constant(x), tf.constant([8, 2, 5, 8])))
    assert [states.dtype for states in actual] == [tf.float32, tf.bfloat16]
    np.testing.assert_allclose(tf.cast(actual[1], tf.float32), actual[0], atol=0.02)


def test_layers_can_be_created_in_bfloat16():
    keras.utils.set_random_seed(1)
    rough = BiLstm(tiny.CONFIG, 5, 6, dtype="bfloat16").forwards[0].cell.recurrent_kernel
    keras.utils.set_random_seed(1)
    exact = BiLstm(tiny.CONFIG, 5, 6).forwards[0].cell.recurrent_kernel
    assert rough.dtype == "bfloat16"
    np.testing.assert_allclose(tf.cast(rough.value, tf.float32), exact, atol=0.01)


def test_empty_batch_has_no_states():
    lstm = lstm_of(5, backwards=False)
    compiled = tf.function(lambda x, lengths: Recurrence.of(x, lengths)(lstm, x), autograph=False)
    compiled = compiled.get_concrete_function(tf.TensorSpec([None, None, 5]), tf.TensorSpec([None], tf.int32))
    assert compiled(tf.zeros([0, 3, 5]), tf.zeros([0], tf.int32)).shape == (0, 3, 6)
    assert compiled(tf.zeros([2, 0, 5]), tf.zeros([2], tf.int32)).shape == (2, 0, 6)

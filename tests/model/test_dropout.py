"""Dropout: its masks are functions of the seed and of the layer's name, and are the same when they are drawn again."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.model import attention, functional_bert, heads, weights
from bert_tf.model.layers import Dropout, random_lanes

DROPPING = dataclasses.replace(tiny.CONFIG, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)


def dropouts(layer):
    """All Dropout layers inside a layer or model."""
    return [part for part in layer._flatten_layers() if isinstance(part, Dropout)]


@pytest.mark.parametrize("encoder", ["bert", "lstm"])
def test_every_dropout_layer_has_its_own_stream(encoder):
    config = dataclasses.replace(DROPPING, num_hidden_layers=24, encoder=encoder)
    layers = dropouts(heads.TokenClassifier(config, 3))
    assert len(layers) == (2 + 3 * 24 if encoder == "bert" else 2 + 24)
    assert len({layer.stream_id for layer in layers}) == len(layers)
    ones, seed = tf.ones([64]), tf.constant([1, 2])
    assert len({layer(ones, seed=seed).numpy().tobytes() for layer in layers}) == len(layers)


def test_stream_is_the_same_in_every_process():
    assert Dropout(0.5, "layers/0/attention").stream_id == 88261052
    dropped = Dropout(0.5, "layers/0/attention")(tf.ones([8]), seed=tf.constant([1, 2])).numpy()
    assert dropped.tolist() == [0.0] * 4 + [2.0] * 4


def test_recomputed_layers_drop_the_same_values():
    model, _ = tiny.pretrainer(DROPPING)
    variables, batch = weights.variables(model), tiny.tensors(tiny.batch())

    @tf.function
    def gradients(seed):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.log_softmax(model(batch, seed=seed)["masked_lm_logits"])[..., 7])
        grads = tape.gradient(loss, list(variables.values()), unconnected_gradients="zero")
        return dict(zip(variables, map(tf.convert_to_tensor, grads), strict=True))

    expected, other = gradients(tf.constant([1, 2])), gradients(tf.constant([1, 3]))
    model.encoder.gradient_checkpointing = True
    gradients = tf.function(gradients.python_function)
    actual = gradients(tf.constant([1, 2]))
    for name, gradient in expected.items():
        np.testing.assert_allclose(actual[name], gradient, atol=1e-5, err_msg=name)
    name = "encoder/layers/0/feed_forward/expand/kernel"
    assert np.abs(other[name] - expected[name]).max() > 1e-3


def test_dropout_is_where_the_original_has_it_and_gradients_drop_the_same_values(monkeypatch):
    """Against the textbook form with the same random bits: place, amount and gradient of every dropout."""
    config = dataclasses.replace(tiny.CONFIG, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2)
    model, seed, batch = heads.TokenClassifier(config, 3), tf.constant([1, 2]), tiny.tensors(tiny.batch())
    arrays = tiny.random_weights(model)
    weights.assign(model, arrays)

    def gradients_of(params, outputs):
        with tf.GradientTape() as tape:
            tape.watch(params)
            loss = tf.reduce_sum(tf.sequence_mask(batch["lengths"], 12, tf.float32) * tf.tanh(outputs()[..., 0]))
        gradients = tape.gradient(loss, params, unconnected_gradients="zero")
        return {name: tf.convert_to_tensor(gradient) for name, gradient in gradients.items()}

    actual = gradients_of(weights.variables(model), lambda: model(batch, seed=seed)["logits"])

    def dropped(x, stream, rate=0.1):
        lanes = random_lanes(x, seed ^ tf.constant([Dropout(rate, stream).stream_id, 0]))
        return tf.where(lanes >= round(rate * 2**16), x / (1 - rate), 0.0)

    numbers, dense, norm = iter("01"), functional_bert.dense, functional_bert.layer_norm
    before = {"classifier": "head"}  # {layer: the dropout of its input}, and of its output
    after = {"project_out": "attention", "contract": "feed_forward"}

    def dense_with_dropout(x, params, name):
        *path, layer = name.split("/")
        x = dense(dropped(x, before[layer]) if layer in before else x, params, name)
        return dropped(x, f"layers/{path[2]}/{after[layer]}") if layer in after else x

    def norm_with_dropout(x, params, name, config):
        x = norm(x, params, name, config)
        return dropped(x, "embeddings") if "embeddings" in name else x

    def attention_with_dropout(*tensors, **options):
        stream = f"layers/{next(numbers)}/attention/probabilities"
        return attend(*tensors, **options, dropout=lambda x: dropped(x, stream, rate=0.2))

    attend = attention.dot_product_attention
    monkeypatch.setattr(functional_bert, "dense", dense_with_dropout)
    monkeypatch.setattr(functional_bert, "layer_norm", norm_with_dropout)
    monkeypatch.setattr(attention, "dot_product_attention", attention_with_dropout)
    params = {name: tf.constant(array) for name, array in functional_bert.parameters(arrays).items()}
    apply = functional_bert.HEADS["tags"].apply
    expected = gradients_of(params, lambda: apply(params, config, batch)["logits"])
    for name, gradient in functional_bert.parameters(actual).items():
        np.testing.assert_allclose(gradient, expected[name], atol=2e-5, err_msg=name)


def test_dropout_depends_on_its_seed_and_is_off_without():
    model, _ = tiny.pretrainer(
        dataclasses.replace(tiny.CONFIG, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    )
    batch = tiny.tensors(tiny.batch())
    logits = [model(batch, seed=seed)["next_sentence_logits"].numpy() for seed in ([1, 2], [1, 2], [1, 3], None, None)]
    np.testing.assert_array_equal(logits[0], logits[1])
    np.testing.assert_array_equal(logits[3], logits[4])
    assert np.abs(logits[0] - logits[2]).max() > 1e-3 and np.abs(logits[0] - logits[3]).max() > 1e-3


def test_dropout_keeps_the_mean_and_differs_between_layers():
    config = dataclasses.replace(tiny.CONFIG, hidden_dropout_prob=0.25, hidden_size=64, num_attention_heads=4)
    model, _ = tiny.pretrainer(config)
    layer = model.encoder.layers[0]
    ones = tf.ones([480, 64])
    first, second = layer.attention_dropout(ones, seed=[3, 4]), layer.feed_forward_dropout(ones, seed=[3, 4])
    assert abs(float(tf.reduce_mean(first)) - 1) < 0.02
    assert abs(float(tf.reduce_mean(tf.cast(first == 0, tf.float32))) - 0.25) < 0.01
    assert float(tf.reduce_mean(tf.cast((first == 0) & (second == 0), tf.float32))) == pytest.approx(0.0625, abs=0.01)


def test_both_lanes_of_random_bits_are_uniform_and_independent():
    drawn = random_lanes(tf.zeros([401, 501]), tf.constant([1, 2])).numpy()
    assert drawn.dtype == np.uint16 and drawn.shape == (401, 501)
    pairs = drawn.reshape(-1)[: 2 * (drawn.size // 2)].reshape(-1, 2) / 65535
    np.testing.assert_allclose(pairs.mean(0), 0.5, atol=0.005)
    np.testing.assert_allclose(pairs.std(0), 12**-0.5, atol=0.005)
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.01
    inside = tf.function(lambda x: random_lanes(x, tf.constant([1, 2])), input_signature=[tf.TensorSpec([None, 501])])
    np.testing.assert_array_equal(inside(tf.zeros([401, 501])), drawn)

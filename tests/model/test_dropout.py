"""Dropout: its masks are functions of the seed and of the layer's name, and are the same when they are drawn again."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.model import attention, functional_bert, heads, random_bits, weights
from bert_tf.model.layers import Dropout

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


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_dropout_is_where_the_original_has_it_and_gradients_drop_the_same_values(platform, as_platform, monkeypatch):
    """Against the textbook form with the same random bits: place, amount and gradient of every dropout."""
    as_platform(platform)
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
        lanes = random_bits.lanes(x, seed ^ tf.constant([Dropout(rate, stream).stream_id, 0]))
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
    for owner, function, with_dropout in (
        (functional_bert, "dense", dense_with_dropout),
        (functional_bert, "layer_norm", norm_with_dropout),
        (attention, "dot_product_attention", attention_with_dropout),
    ):
        monkeypatch.setattr(owner, function, with_dropout)
    params = {name: tf.constant(array) for name, array in functional_bert.parameters(arrays).items()}
    apply = functional_bert.TOKENS.apply
    expected = gradients_of(params, lambda: apply(params, config, batch)["logits"])
    for name, gradient in functional_bert.parameters(actual).items():
        np.testing.assert_allclose(gradient, expected[name], atol=2e-5, err_msg=name)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_random_bits_are_uniform_and_independent(platform, as_platform):
    as_platform(platform)
    seeds = [[1, 2], [1, 3], [2, 2], [-5, 2]]
    drawn = [random_bits.lanes(tf.zeros([401, 501]), tf.constant(seed)).numpy() for seed in seeds]
    assert drawn[0].dtype == np.uint16 and drawn[0].shape == (401, 501)
    flat = np.stack([each.reshape(-1)[: 401 * 500] for each in drawn]) / 65535
    np.testing.assert_allclose(flat.mean(1), 0.5, atol=0.005)
    np.testing.assert_allclose(flat.std(1), 12**-0.5, atol=0.005)
    neighbours = [flat[0, :-distance] for distance in (1, 2, 501, 4096)], [flat[0, d:] for d in (1, 2, 501, 4096)]
    pairs = [*zip(*neighbours, strict=True), *((flat[0], other) for other in flat[1:])]
    assert max(abs(np.corrcoef(*pair)[0, 1]) for pair in pairs) < 0.01
    dropped = np.stack([each < 0.1 for each in flat]).reshape(4, -1, 20).sum(2)  # of 20 in a row
    expected = [math.comb(20, k) * 0.1**k * 0.9 ** (20 - k) for k in range(5)]
    counts = np.stack([np.mean(dropped == k, 1) for k in range(5)], 1)
    np.testing.assert_allclose(counts, [expected] * 4, atol=0.015)


def test_random_bits_do_not_depend_on_whether_shapes_are_known():
    drawn = random_bits.lanes(tf.zeros([41, 51]), tf.constant([1, 2])).numpy()
    specification = [tf.TensorSpec([None, 51])]
    inside = tf.function(lambda x: random_bits.lanes(x, tf.constant([1, 2])), input_signature=specification)
    np.testing.assert_array_equal(inside(tf.zeros([41, 51])), drawn)


def test_accelerators_hash_positions_of_known_shapes(as_platform):
    as_platform("tpu")
    shape, seed = [3, 2, 1000], np.array([-77, 2**31 - 5], np.int32)
    actual = random_bits.lanes(tf.zeros(shape), tf.constant(seed)).numpy()
    first, second = (int(each) for each in seed.view(np.uint32))
    second ^= first * 0x9E3779B9 % 2**32

    def mix(x):
        x = (x ^ x >> np.uint64(16)) * np.uint64(0x7FEB352D) % np.uint64(2**32)
        x = (x ^ x >> np.uint64(15)) * np.uint64(0x846CA68B) % np.uint64(2**32)
        return x ^ x >> np.uint64(16)

    places = (np.arange(6000, dtype=np.uint64) + np.uint64(first)) % np.uint64(2**32)
    expected = mix((mix(places) + np.uint64(second)) % np.uint64(2**32)) >> np.uint64(16)
    np.testing.assert_array_equal(actual, expected.reshape(shape))
    compiled = tf.function(random_bits.lanes, jit_compile=True)(tf.zeros(shape), tf.constant(seed))
    np.testing.assert_array_equal(compiled, actual)
    dynamic = tf.function(random_bits.lanes, input_signature=[tf.TensorSpec([None]), tf.TensorSpec([2], tf.int32)])
    operations = {operation.type for operation in dynamic.get_concrete_function().graph.get_operations()}
    assert "StatelessRandomUniformFullIntV2" in operations, "each operation of the hash would be a pass of its own"

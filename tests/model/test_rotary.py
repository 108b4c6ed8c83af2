"""Rotary positions and attention in blocks against the plain formulas."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.checkpoints.huggingface_layouts import LAYOUTS
from bert_tf.errors import UserError
from bert_tf.model import attention, base_encoder, rotary, weights
from bert_tf.model.packing import PackingSpec
from bert_tf.runtime.settings import Settings

CONFIG = dataclasses.replace(
    tiny.CONFIG, encoder="modern_bert", num_hidden_layers=4, max_position_embeddings=64, settings={"local_attention": 4}
)


def numbers(*lengths):
    """Texts of these lengths in a row."""
    return np.repeat(np.arange(1, 1 + len(lengths)), lengths)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(rotary, "QUERIES_AT_ONCE", 4)


@pytest.mark.parametrize("reach", [2, None])
def test_attention_in_blocks_is_that_of_whole_rows_with_its_gradient(reach, small_blocks):
    texts = tf.constant([numbers(9, 4, 1), [*numbers(11, 1), 0, 0]], tf.int32)
    positions = tf.constant([[*range(9), *range(4), 0], [*range(11), 0, 0, 0]])
    query, key, value = (tf.random.stateless_normal([2, 3, 14, 4], [1, n]) for n in range(3))
    mask = attention.packing_mask(texts, 14)
    mask = mask if reach is None else mask + rotary.window_mask(positions, reach, "float32")

    def in_blocks(*x):
        if reach is None:
            return rotary.blockwise_attention(*x, texts, scale=0.5)
        return rotary.windowed_attention(*x, texts, positions, reach=reach, scale=0.5, training=True)

    def whole(*x):
        return attention.dot_product_attention(*x, mask, scale=0.5)[0]

    used = tf.cast(texts > 0, tf.float32)[:, None, :, None]
    results = []
    for function in (in_blocks, whole, tf.function(in_blocks, autograph=False)):
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            context = function(query, key, value) * used
            loss = tf.reduce_sum(tf.sin(context))
        results.append([context, *tape.gradient(loss, [query, key, value])])
    for others in (results[1], results[2]):
        for actual, expected in zip(results[0], others, strict=True):
            np.testing.assert_allclose(actual, expected, atol=2e-6)


@pytest.mark.parametrize("encoder", ["modern_bert", "nomic_bert"])
def test_packed_long_and_recomputed_texts_have_the_same_outputs_and_gradients(encoder, small_blocks):
    settings = CONFIG.settings if encoder == "modern_bert" else {}
    config = dataclasses.replace(CONFIG, encoder=encoder, settings=settings, num_hidden_layers=2)
    layer = tiny.randomized(base_encoder.create_encoder(config))
    lengths = tf.constant([17, 7, 12, 3])
    inputs = {"token_ids": tf.random.stateless_uniform([4, 24], [1, 2], 5, 12, tf.int32), "lengths": lengths}
    used = tf.sequence_mask(lengths, 17, tf.float32)[:, :, None]

    def run(packing, seed=None):
        with tf.GradientTape() as tape:
            tokens = layer(inputs, packing=packing, seed=seed)["tokens"][:, :17] * used
            loss = tf.reduce_sum(tf.sin(tokens))
        gradients = tape.gradient(loss, list(weights.variables(layer).values()))
        return [tokens, *(tf.convert_to_tensor(each) for each in gradients if each is not None)]

    plain = run(None)
    layer.gradient_checkpointing = True
    cases = [run(PackingSpec()), run(None, tf.constant([1, 2]))]
    cases.append(tf.function(lambda: run(PackingSpec(), tf.constant([1, 2])), autograph=False)())
    shown = layer(inputs, return_attention=True)
    assert shown["attention_probabilities"][1].shape == [4, tiny.CONFIG.num_attention_heads, 24, 24]
    cases.append([shown["tokens"][:, :17] * used])
    for case in cases:
        for actual, expected in zip(case, plain, strict=False):
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


def config_of(encoder, values):
    return LAYOUTS[encoder].config(encoder, Settings({"vocab_size": 40, **values}, "config.json"))


def test_own_settings_of_an_encoder_are_checked_and_return():
    assert CONFIG.settings["local_attention"] == 4 and CONFIG.settings["global_attn_every_n_layers"] == 3
    assert type(CONFIG).from_dict(CONFIG.to_dict()) == CONFIG and CONFIG.to_dict()["local_attention"] == 4
    with pytest.raises(UserError, match="The encoder modern_bert has no setting theta"):
        dataclasses.replace(CONFIG, settings={"theta": 1.0})
    with pytest.raises(UserError, match="classifier_pooling is 'max'.*; expected one of cls, mean"):
        dataclasses.replace(CONFIG, settings={"classifier_pooling": "max"})
    with pytest.raises(UserError, match="local_attention is 1.*; expected 2 or more"):
        base_encoder.create_encoder(dataclasses.replace(CONFIG, settings={"local_attention": 1}))


@pytest.mark.parametrize(
    "encoder, values, message",
    [
        ("modern_bert", {"layer_types": ["sliding_attention", "full_attention"]}, "layer_types is"),
        ("modern_bert", {"rope_scaling": {"type": "linear"}}, "rope_scaling is"),
        ("modern_bert", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type is 'yarn'"),
        ("modern_bert", {"classifier_activation": "relu"}, "classifier_activation is 'relu'"),
        ("modern_bert", {"rope_parameters": [1]}, "rope_parameters is .1.; expected an object"),
        ("xlnet", {"n_head": "4"}, "n_head is '4'; expected a whole number"),
        ("nomic_bert", {"activation_function": "gelu"}, "activation_function is 'gelu'"),
        ("nomic_bert", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5"),
    ],
)
def test_what_would_give_other_outputs_is_refused_by_name(encoder, values, message):
    with pytest.raises(UserError, match=message):
        config_of(encoder, {**values})


def test_older_and_newer_names_of_a_configuration_are_one():
    older = {"global_attn_every_n_layers": 2, "local_rope_theta": 5000.0, "num_hidden_layers": 4}
    kinds = ["full_attention", "sliding_attention"]
    newer = {"layer_types": kinds * 2, "rope_parameters": {kinds[1]: {"rope_theta": 5000.0}}, "num_hidden_layers": 4}
    configs = [config_of("modern_bert", {**values}) for values in (older, newer)]
    assert configs[0] == configs[1] and configs[0].settings["local_rope_theta"] == 5000.0
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_inner": 16, "n_positions": 32, "rotary_emb_base": 10000}
    config = config_of("nomic_bert", {**sizes})
    assert (config.hidden_size, config.max_position_embeddings, config.settings["rotary_emb_base"]) == (8, 32, 10000)
    rotation = config_of("nomic_bert", {"rope_theta": 50.0})
    assert rotation.settings["rotary_emb_base"] == 50.0


@pytest.mark.parametrize("encoder", ["modern_bert", "xlnet", "distilbert"])
def test_names_that_the_class_has_another_word_for_are_ignored(encoder):
    plain, other = (
        config_of(encoder, {"hidden_size": 32, "num_attention_heads": 4, **values})
        for values in ({}, {"hidden_act": "relu", "hidden_dropout_prob": 0.3})
    )
    assert plain == other and plain.hidden_act == "gelu_erf" and plain.hidden_size == 32

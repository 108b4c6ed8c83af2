"""XLNet's rows in both orders and every form, and what its files may say."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.checkpoints.huggingface_layouts import LAYOUTS
from bert_tf.errors import UserError
from bert_tf.model import functional_bert, heads, weights
from bert_tf.model.packing import PackingSpec
from bert_tf.runtime.settings import Settings

CLS, SEP, PAD = 3, 4, 5
ROWS = [[CLS, 9, 8, 7, SEP, 6, SEP], [CLS, 9, SEP], [CLS, CLS, 7, SEP]]  # the last: of a text that begins with <cls>
SEGMENTS = [[0, 0, 0, 0, 0, 1, 1], [0] * 3, [0] * 4]
LENGTHS = [len(row) for row in ROWS]


def padded(rows, value, *, left=False):
    return tf.constant([[value] * ((7 - len(r)) * left) + r + [value] * ((7 - len(r)) * (not left)) for r in rows])


@pytest.fixture(scope="module")
def model():
    config = dataclasses.replace(
        tiny.CONFIG, encoder="xlnet", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    made = heads.BertModel(config)
    weights.assign(made, tiny.random_weights(made))
    return made


def ours():
    return {"token_ids": padded(ROWS, PAD), "segment_ids": padded(SEGMENTS, 0), "lengths": tf.constant(LENGTHS)}


def test_rows_without_segments_have_the_vectors_of_transformers_without_segments(model):
    config = dataclasses.replace(model.config, settings={**model.config.settings, "cls_has_segment": False})
    other = heads.BertModel(config)
    weights.assign(other, {name: value.numpy() for name, value in weights.variables(model).items()})
    rows = {**ours(), "segment_ids": padded([[0] * length for length in LENGTHS], 0)}
    theirs = {
        "input_ids": padded([[*row[1:], CLS] for row in ROWS], PAD, left=True),
        "attention_mask": padded([[1] * length for length in LENGTHS], 0, left=True),
    }
    found, expected = other.encoder(rows)["pooled"], model.encoder(theirs)["pooled"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found - model.encoder(rows)["pooled"]).max() > 1e-3


def test_rows_of_transformers_padded_on_the_left_have_the_same_vectors(model):
    outputs = model.encoder(ours(), return_hidden_states=True, return_attention=True)
    theirs = {
        "input_ids": padded([[*row[1:], CLS] for row in ROWS], PAD, left=True),
        "attention_mask": padded([[1] * length for length in LENGTHS], 0, left=True),
        "token_type_ids": padded([[*row[1:], 2] for row in SEGMENTS], 1, left=True),
    }
    config = dataclasses.replace(model.config, type_vocab_size=4)
    other = heads.BertModel(config)
    weights.assign(other, {name: value.numpy() for name, value in weights.variables(model).items()})
    found = other.encoder(theirs, return_hidden_states=True, return_attention=True)
    np.testing.assert_allclose(outputs["pooled"], found["pooled"], atol=1e-5)
    for row, size in enumerate(LENGTHS):
        for name in ("hidden_states", "attention_probabilities"):
            for a, b in zip(outputs[name], found[name], strict=True):
                a, b = (x.numpy()[row] for x in (a, b))
                if name == "hidden_states":
                    a, b = a[:size], np.roll(b[7 - size :], 1, 0)
                else:
                    a, b = a[:, :size, :size], np.roll(b[:, 7 - size :, 7 - size :], 1, (1, 2))
                np.testing.assert_allclose(a, b, atol=1e-5)


def test_packed_recomputed_and_textbook_forms_are_the_same_function(model):
    used = tf.sequence_mask(LENGTHS, 7, tf.float32)[:, :, None]

    def run(compute):
        with tf.GradientTape() as tape:
            tokens = compute() * used
            loss = tf.reduce_sum(tf.sin(tokens))
        gradients = tape.gradient(loss, list(weights.variables(model.encoder).values()))
        return [tokens, *(tf.convert_to_tensor(each) for each in gradients if each is not None)]

    plain = run(lambda: model(ours())["tokens"])
    packed = tf.function(lambda: run(lambda: model(ours(), packing=PackingSpec())["tokens"]))()
    model.encoder.gradient_checkpointing = True
    recomputed = run(lambda: model.encoder(ours(), seed=tf.constant([1, 2]))["tokens"])
    for others in (packed, recomputed):
        for actual, expected in zip(others, plain, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)
    params = functional_bert.parameters({n: v.value for n, v in weights.variables_by_name(model).items()})
    for inputs in (ours(), ours() | tiny.in_one_row(LENGTHS, 7)):
        np.testing.assert_allclose(functional_bert.encode(params, model.config, inputs) * used, plain[0], atol=1e-4)
    places = tf.constant([[0, 5], [1, 2], [3, 0]])
    chosen = model.encoder(ours(), positions=places)
    np.testing.assert_allclose(chosen["tokens_at"], tf.gather(plain[0], places, batch_dims=1), atol=1e-5)
    with pytest.raises(ValueError, match="text_numbers is not supported"):
        model.encoder({"token_ids": ours()["token_ids"], "text_numbers": ours()["segment_ids"]})


@pytest.mark.parametrize(
    "values, message",
    [
        ({"clamp_len": 8}, "clamp_len is 8"),
        ({"summary_activation": None}, "summary_activation is None"),
        ({"d_head": 3}, "d_head is 3"),
    ],
)
def test_what_would_give_other_outputs_is_refused_by_name(values, message):
    assert (
        LAYOUTS["xlnet"].config("xlnet", Settings({"vocab_size": 40, "mem_len": 9}, "config.json")).num_hidden_layers
        == 24
    )
    with pytest.raises(UserError, match=f"{message}, which is not supported"):
        LAYOUTS["xlnet"].config("xlnet", Settings({"vocab_size": 40, **values}, "config.json"))


@pytest.mark.parametrize("pooling", ["cls", "mean+last", "weighted_mean"])
def test_poolings_that_count_from_the_ends_of_rows_are_refused(model, pooling):
    model.config.check_pooling("mean+max")
    with pytest.raises(UserError, match=f"pooling is {pooling.replace('+', '.')}, which counts tokens"):
        model.config.check_pooling(pooling)

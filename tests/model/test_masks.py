"""Masks with zeros anywhere: in the middle of texts, and before them as where rows are padded on the left."""

import dataclasses

import numpy as np
import oracle
import pytest
import tensorflow as tf
import tiny

from bert_tf.model import heads, weights
from bert_tf.model.packing import PackingSpec
from bert_tf.model.sentence_encoder import SentenceEncoder, pool_tokens

RANDOM = np.random.default_rng(1)
IDS = RANDOM.integers(5, tiny.CONFIG.vocab_size, (4, 8))
SEGMENTS = RANDOM.integers(0, 2, (4, 8))
MASK = np.array(
    [[0, 0, 0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0, 1, 0]]
)
INPUTS = {"input_ids": IDS, "token_type_ids": SEGMENTS, "attention_mask": MASK}
UP_TO_LAST = np.arange(8) < (MASK * np.arange(1, 9)).max(1)[:, None]  # the positions that packing keeps
WAYS = {
    "padded": lambda model: model,
    "packed": lambda model: lambda inputs: model(inputs, packing=PackingSpec()),
    "graph": lambda model: tf.function(lambda inputs: model(inputs, packing=PackingSpec()), autograph=False),
    "compiled": lambda model: tf.function(model, jit_compile=True, autograph=False),
}


def config_of(encoder, **changes):
    return dataclasses.replace(tiny.CONFIG, encoder=encoder, **changes)


@pytest.mark.parametrize("way", WAYS)
def test_tokens_and_pooled_are_those_of_the_mask(way):
    model = heads.BertModel(tiny.CONFIG)
    arrays = {name: variable.numpy() for name, variable in weights.variables_by_name(model).items()}
    right = oracle.encode(arrays, tiny.CONFIG, IDS, SEGMENTS, MASK)
    outputs = WAYS[way](model)({name: tf.constant(values) for name, values in INPUTS.items()})
    np.testing.assert_allclose(outputs["pooled"], right["pooled"], atol=1e-5)
    width = outputs["tokens"].shape[1]
    used = UP_TO_LAST[:, :width]
    np.testing.assert_allclose(outputs["tokens"].numpy()[used], right["tokens"][:, :width][used], atol=1e-5)


@pytest.mark.parametrize("head", ["classes", "span", "tags", "choice", "masks"])
def test_heads_take_masks(head):
    makes = {
        "classes": lambda: heads.Classifier(tiny.CONFIG, 3),
        "span": lambda: heads.SpanFinder(tiny.CONFIG),
        "tags": lambda: heads.TokenClassifier(tiny.CONFIG, 3),
        "choice": lambda: heads.MultipleChoice(tiny.CONFIG),
        "masks": lambda: heads.Pretrainer(tiny.CONFIG),
    }
    model, inputs = makes[head](), INPUTS
    if head == "choice":
        inputs = {name: values.reshape(2, 2, 8) for name, values in INPUTS.items()}
    outputs = model(inputs)
    other = IDS.copy()
    other[MASK == 0] = 7  # what nobody sees changes nothing
    changed = model({**inputs, "input_ids": other.reshape(inputs["input_ids"].shape)})
    for name, values in outputs.items():
        compared = [values, changed[name]]
        if name in ("start_logits", "end_logits", "logits", "masked_lm_logits") and values.shape[:2] == (4, 8):
            compared = [each.numpy()[MASK == 1] for each in compared]
        elif name in ("logits", "next_sentence_logits") and head != "choice":
            compared = [each.numpy()[MASK[:, 0] == 1] for each in compared]
        if head != "choice":
            np.testing.assert_allclose(*compared, atol=1e-5)
    all_seen = model({**inputs, "attention_mask": np.ones_like(inputs["attention_mask"])})
    assert max(np.abs(values - outputs[name]).max() for name, values in all_seen.items()) > 1e-6
    packed = model(inputs, packing=PackingSpec())
    for name, values in outputs.items():
        width = packed[name].shape[1]
        pairs = (packed[name], values[:, :width])
        if values.shape[:2] == (4, 8):
            pairs = tuple(np.asarray(each)[UP_TO_LAST[:, :width]] for each in pairs)
        np.testing.assert_allclose(*pairs, atol=1e-5)


@pytest.mark.parametrize("way", ["padded", "packed"])
def test_roberta_numbers_its_tokens_and_not_its_padding(way):
    model = heads.BertModel(config_of("roberta", type_vocab_size=1))
    left, right = np.full([2, 6], 1), np.full([2, 6], 1)
    for row, size in enumerate((3, 5)):
        left[row, -size:] = right[row, :size] = IDS[row, :size]
    call = WAYS[way](model)
    padded_right = call({"input_ids": right, "attention_mask": right != 1})["tokens"]
    padded_left = call({"input_ids": left, "attention_mask": left != 1})["tokens"]
    for row, size in enumerate((3, 5)):
        np.testing.assert_allclose(padded_left[row, -size:], padded_right[row, :size], atol=1e-5)
    plain = call({"token_ids": right, "lengths": np.array([3, 5])})["tokens"]
    for row, size in enumerate((3, 5)):
        np.testing.assert_allclose(plain[row, :size], padded_right[row, :size], atol=1e-6)


def test_static_vectors_average_what_the_mask_shows():
    model = heads.BertModel(config_of("static"))
    tokens = model.encoder.token_table.numpy()[IDS]
    mean = (tokens * MASK[:, :, None]).sum(1) / MASK.sum(1, keepdims=True)
    np.testing.assert_allclose(model(INPUTS)["pooled"], model.encoder.pooler(tf.constant(mean, tf.float32)), atol=1e-5)


@pytest.mark.parametrize("encoder", ["lstm", "bilstm_on_top"])
def test_encoders_that_cannot_leave_tokens_out_refuse_gaps(encoder):
    model = heads.BertModel(config_of(encoder))
    model({**INPUTS, "attention_mask": np.sort(MASK)[:, ::-1]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="padding before a token"):
        model(INPUTS)


@pytest.mark.parametrize("pooling", ["cls", "last", "max", "mean", "mean_sqrt_len", "weighted_mean"])
def test_pooling_leaves_masked_tokens_out(pooling):
    tokens = tf.constant(RANDOM.normal(size=(4, 8, 3)), tf.float32)
    mask = np.sort(MASK)  # padding on the left
    pooled = pool_tokens(tokens, tf.fill([4], 8), pooling, tf.constant(mask, tf.int32))
    for row, size in enumerate(mask.sum(1)):
        alone = pool_tokens(tokens[row : row + 1, 8 - size :], tf.constant([size], tf.int32), pooling)
        np.testing.assert_allclose(pooled[row], alone[0], atol=1e-6)


@pytest.mark.parametrize("packing", [None, PackingSpec()])
def test_sentence_encoder_takes_masks(packing):
    model = SentenceEncoder(tiny.CONFIG, "mean", normalize=False)
    inputs = {name: values.reshape(2, 2, 8) for name, values in INPUTS.items()}
    vectors = model(inputs, packing=packing)["vectors"]
    tokens = model.encoder(INPUTS)["tokens"].numpy()
    mean = (tokens * MASK[:, :, None]).sum(1) / MASK.sum(1, keepdims=True)
    np.testing.assert_allclose(np.reshape(vectors, [4, -1]), mean, atol=1e-5)


def test_lengths_and_a_mask_count_both():
    model = heads.BertModel(tiny.CONFIG)
    both = model({**INPUTS, "lengths": np.full(4, 7)})["pooled"]
    shorter = MASK * (np.arange(8) < 7)
    np.testing.assert_allclose(both, model({**INPUTS, "attention_mask": shorter})["pooled"], atol=1e-6)


LONG = np.ones((1, 1 + tiny.CONFIG.max_position_embeddings), int)


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({"input_ids": np.where(MASK, 5, -1)}, "token_ids contains -1; expected whole numbers from 0 to "),
        (
            {"input_ids": np.where(MASK, 5, 2**40 + 5)},
            f"token_ids contains {2**40 + 5}; expected whole numbers from 0 to ",
        ),
        ({"token_type_ids": np.where(MASK, 0, 2)}, "segment_ids contains 2; expected whole numbers from 0 to 1"),
        ({"segment_ids": np.where(MASK, 0, -1)}, "segment_ids contains -1; expected whole numbers from 0 to 1"),
        ({"attention_mask": (MASK - 1) * 1e4}, "attention_mask contains -10000.0; expected whole numbers from 0 to 1"),
        ({"attention_mask": MASK * 0.5}, "attention_mask contains 0.5; expected"),
        ({"attention_mask": MASK * np.nan}, "attention_mask contains nan; expected"),
        ({"attention_mask": MASK.astype(str)}, "attention_mask is of the type .*; expected numbers"),
        ({"attention_mask": np.ones((4, 8, 8))}, r"text_mask has the shape \(4, 8, 8\); expected .* \(4, 8\)"),
        ({"token_type_ids": MASK[:, :3]}, r"segment_ids has the shape \(4, 3\); expected that of token_ids"),
        ({"input_ids": IDS[0], "attention_mask": MASK[0]}, r"the shape \(8,\); expected rows of one token or more"),
        ({"input_ids": IDS[:, :0]}, r"the shape \(4, 0\); expected rows of one token or more"),
        ({"input_ids": LONG}, r"The rows have \d+ tokens; the model has \d+ positions"),
        ({"position_ids": IDS}, "The input position_ids is not supported"),
    ],
)
def test_inputs_that_a_model_cannot_take_are_refused(inputs, message):
    for call in (heads.BertModel(tiny.CONFIG), heads.BertModel(tiny.CONFIG).encoder):
        with pytest.raises(ValueError, match=message):
            call({"input_ids": IDS, **inputs})

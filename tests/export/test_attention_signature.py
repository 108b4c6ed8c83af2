"""The attention signature of an export: the shares that the oracle computes, whatever else is asked for with them."""

import dataclasses

import device_graphs
import numpy as np
import oracle
import pytest
import tensorflow as tf
import tiny
from mask_filling_cases import WORDS

from bert_tf.errors import UserError
from bert_tf.export import attention_signature
from bert_tf.export.saved_model import export

pytestmark = pytest.mark.slow

PIECES = [*tiny.SPECIAL, *WORDS]


class Words(tiny.Words):
    def ids_to_tokens(self, ids):
        return tf.gather(tf.constant(self.vocabulary), ids)


@tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
def length(text):
    return {"length": tf.strings.length(text)}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The weights of a model that fills masks, and the signatures of its export."""
    model, arrays = tiny.pretrainer()
    task = tiny.task(signatures=lambda model, tokenizer: {"serving_default": length})
    examples = {"serving_default": {"text": ["the [MASK] ran"]}}
    folder = str(tmp_path_factory.mktemp("attention") / "export")
    export(task, model, Words(WORDS), folder, examples=examples, with_attention=True)
    device_graphs.assert_runs_anywhere(folder)
    return arrays, tf.saved_model.load(folder).signatures


def looked(signatures, *texts):
    return {name: x.numpy() for name, x in signatures["attention"](text=tf.constant(texts, tf.string)).items()}


@pytest.mark.parametrize(
    "text, seen, second",
    [
        ("the fox ##s zebra .", "[CLS] the fox ##s [UNK] . [SEP]", 7),
        ("the [MASK] ran", "[CLS] the [MASK] ran [SEP]", 5),
        ("the fox ||| it ran", "[CLS] the fox [SEP] it ran [SEP]", 4),
        ("a " * 30, "[CLS]" + " a" * 10 + " [SEP]", 12),  # as long as the model has positions
        ("", "[CLS] [SEP]", 2),
    ],
)
def test_attention_matches_reference_alone_and_in_padded_batches(exported, text, seen, second):
    arrays, signatures = exported
    tokens = seen.split()
    inputs = {
        "token_ids": np.array([[PIECES.index(piece) for piece in tokens]]),
        "segment_ids": (np.arange(len(tokens)) >= second).astype(int)[None],
        "lengths": np.array([len(tokens)]),
    }
    expected = oracle.encode(arrays, tiny.CONFIG, **inputs)["attention_probabilities"]  # L times [1, H, T, T]
    expected = np.concatenate(expected)  # [L, H, T, T]
    for texts in ([text], [text, "a " * 30, "the"]):
        outputs = looked(signatures, *texts)
        size = len(tokens)
        assert [piece.decode() for piece in outputs["tokens"][0] if piece] == tokens and outputs["lengths"][0] == size
        np.testing.assert_allclose(outputs["attention"][0, :, :, :size, :size], expected, atol=1e-5)
        assert not outputs["attention"][0, :, :, size:].any() and not outputs["attention"][0, ..., size:].any()


def test_default_signature_is_kept_and_empty_text_is_answered(exported):
    assert set(exported[1]) == {"serving_default", "tf_example", "attention", "attribution"}
    assert looked(exported[1])["attention"].shape == (0, 2, 4, 1, 1)


def test_exported_attributions_sum_to_the_difference_of_logits(exported):
    texts = ["the fox [MASK] a mat", "[MASK] ran ||| he sat on it", "the dog ran"]
    found = {name: x.numpy() for name, x in exported[1]["attribution"](text=tf.constant(texts)).items()}
    difference = found["outputs"] - found["baseline_outputs"]
    np.testing.assert_allclose(found["attributions"].sum(1), difference, atol=3e-3, rtol=3e-3)
    assert (abs(difference) > 0.01).all() and found["lengths"].tolist() == [7, 9, 5]
    assert [token.decode() for token in found["tokens"][2]] == ["[CLS]", "the", "dog", "ran", "[SEP]", *[""] * 4]
    assert not found["attributions"][2, 5:].any() and not found["attributions"][:, 0].any()


@pytest.mark.parametrize("layers, heads, expected", [(12, 12, 64), (2, 2, 128), (24, 16, 39)])
def test_output_size_is_bounded(layers, heads, expected):
    sizes = {"num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": 64 * heads}
    config = dataclasses.replace(tiny.CONFIG, max_position_embeddings=512, **sizes)
    assert attention_signature.max_tokens(config) == expected


def test_encoder_without_attention_is_refused():
    with pytest.raises(UserError, match="attention .* encoder=bert; static has none"):
        dataclasses.replace(tiny.CONFIG, encoder="static").check_attention()

"""`bert_tf.load`: any checkpoint as the model that it is of."""

import dataclasses

import numpy as np
import pytest
import tiny
from checkpoint_cases import checkpoint
from head_cases import HEADS

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.model import heads
from bert_tf.tasks.embeddings.bilstm_tagger import BiLstmTagger
from bert_tf.text.tokenizer import pack

OTHERS = {"pretraining": (lambda: heads.Pretrainer(tiny.CONFIG), None)}


@pytest.mark.parametrize("kind", [*HEADS, "pretraining"])
def test_a_checkpoint_becomes_the_model_of_its_head_with_its_weights(kind, tmp_path):
    make, labels = {**HEADS, **OTHERS}[kind]
    arrays = tiny.random_weights(make())
    given = dataclasses.replace(checkpoint(), weights=arrays, labels=labels, kind=kind if kind in HEADS else None)
    formats.write(given, str(tmp_path / "model"), "native")
    found = bert_tf.load(tmp_path / "model")
    assert type(found.model) is type(make()) and found.labels == labels
    assert (len(found.report.loaded), found.report.newly_initialized, found.report.unused) == (len(arrays), [], [])
    assert found.tokenizer.vocabulary == given.vocabulary and found.tokenizer.lower_case == given.lower_case
    np.testing.assert_array_equal(found.model.encoder.pooler.kernel, arrays["encoder/pooler/kernel"])


def test_an_encoder_alone_can_be_asked_for_its_vectors(tmp_path):
    given = checkpoint()
    arrays = {name: value for name, value in given.weights.items() if name.startswith("encoder/")}
    formats.write(dataclasses.replace(given, weights=arrays), str(tmp_path / "model"), "huggingface")
    found = bert_tf.load(str(tmp_path / "model"))
    encoded = found.model.encoder(pack(found.tokenizer, [["a b"]], 8), return_hidden_states=True)
    assert type(found.model) is heads.BertModel and found.report.newly_initialized == []
    assert encoded["tokens"].shape == (1, 8, given.config.hidden_size)
    assert len(encoded["hidden_states"]) == given.config.num_hidden_layers + 1


def test_of_a_tagger_on_frozen_vectors_the_encoder_is_loaded(tmp_path):
    arrays = tiny.random_weights(BiLstmTagger(tiny.CONFIG, 3, features="last", count=1, lstm_size=8))
    given = dataclasses.replace(checkpoint(), weights=arrays, labels=["O", "B-X", "I-X"], kind="tags")
    formats.write(given, str(tmp_path / "model"), "native")
    found = bert_tf.load(tmp_path / "model")
    assert type(found.model) is heads.BertModel and found.report.shape_mismatch == []
    assert {name.split("/")[0] for name in found.report.unused} == {"lstm", "classifier"}

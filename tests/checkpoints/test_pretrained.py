"""`bert_tf.load`: any checkpoint as the model that it is of."""

import dataclasses

import numpy as np
import pytest
import tiny
from checkpoint_cases import checkpoint
from head_cases import HEADS

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.extras.paper.bilstm_tagger import BiLstmTagger
from bert_tf.model import heads
from bert_tf.text.tokenizer import pack

OTHERS = {"pretraining": (lambda: heads.Pretrainer(tiny.CONFIG), None)}


@pytest.mark.parametrize("kind", [*HEADS, "pretraining"])
def test_checkpoint_loads_with_the_model_of_its_head(kind, tmp_path):
    make, labels = {**HEADS, **OTHERS}[kind]
    arrays = tiny.random_weights(make())
    source = dataclasses.replace(checkpoint(), weights=arrays, labels=labels, kind=kind if kind in HEADS else None)
    formats.write(source, str(tmp_path / "model"), "native")
    result = bert_tf.load(tmp_path / "model")
    assert type(result.model) is type(make()) and result.labels == labels
    assert (len(result.report.loaded), result.report.newly_initialized, result.report.unused) == (len(arrays), [], [])
    assert result.tokenizer.vocabulary == source.vocabulary and result.tokenizer.lower_case == source.lower_case
    np.testing.assert_array_equal(result.model.encoder.pooler.kernel, arrays["encoder/pooler/kernel"])


def test_encoder_without_head_returns_embeddings(tmp_path):
    source = checkpoint()
    arrays = {name: value for name, value in source.weights.items() if name.startswith("encoder/")}
    formats.write(dataclasses.replace(source, weights=arrays), str(tmp_path / "model"), "huggingface")
    result = bert_tf.load(str(tmp_path / "model"))
    encoded = result.model.encoder(pack(result.tokenizer, [["a b"]], 8), return_hidden_states=True)
    assert type(result.model) is heads.BertModel and result.report.newly_initialized == []
    assert encoded["tokens"].shape == (1, 8, source.config.hidden_size)
    assert len(encoded["hidden_states"]) == source.config.num_hidden_layers + 1


def test_encoder_of_a_feature_based_tagger_is_loaded(tmp_path):
    arrays = tiny.random_weights(BiLstmTagger(tiny.CONFIG, 3, features="last", count=1, lstm_size=8))
    source = dataclasses.replace(checkpoint(), weights=arrays, labels=["O", "B-X", "I-X"], kind="tags")
    formats.write(source, str(tmp_path / "model"), "native")
    result = bert_tf.load(tmp_path / "model")
    assert type(result.model) is heads.BertModel and result.report.shape_mismatch == []
    assert {name.split("/")[0] for name in result.report.unused} == {"lstm", "classifier"}

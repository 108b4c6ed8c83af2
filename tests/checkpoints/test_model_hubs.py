"""What comes from and goes to other libraries and their hubs: KerasHub presets, its names, hf:// handles."""

import dataclasses
import json
import shutil
import sys

import keras_hub
import numpy as np
import pytest
import tensorflow as tf
import tiny
from checkpoint_cases import PIECES

from bert_tf.checkpoints import formats, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.export import checkpoint_predictor
from bert_tf.model import heads, weights

HANDLE = "kaggle://keras/bert/keras/bert_tiny_en_uncased/3"


def checkpoint(vocabulary=PIECES, lower_case=True, **changes):
    config = dataclasses.replace(tiny.CONFIG, **changes)
    return Checkpoint(config=config, weights=tiny.pretrainer(config)[1], vocabulary=vocabulary, lower_case=lower_case)


def theirs(**changes):
    """A backbone of KerasHub with random weights."""
    keras_hub_config = {"vocabulary_size": 30, "num_layers": 2, "num_heads": 4, "hidden_dim": 16}
    backbone = keras_hub.models.BertBackbone(
        **{**keras_hub_config, "intermediate_dim": 24, "max_sequence_length": 12, "dropout": 0.0, **changes}
    )
    for number, weight in enumerate(backbone.weights):
        weight.assign(np.random.default_rng(number).normal(0, 0.3, weight.shape))
    return backbone


def assert_same_answers(backbone, model):
    """Our encoder's tokens and pooled vector are those of a backbone, if there are tokens."""
    batch = tiny.tensors(tiny.batch())
    used = np.arange(12) < batch["lengths"].numpy()[:, None]
    source = backbone(
        {
            "token_ids": batch["token_ids"],
            "segment_ids": batch["segment_ids"],
            "padding_mask": tf.constant(used, tf.int32),
        }
    )
    expected = model.encoder(batch)
    np.testing.assert_allclose(source["sequence_output"].numpy()[used], expected["tokens"].numpy()[used], atol=2e-5)
    np.testing.assert_allclose(source["pooled_output"], expected["pooled"], atol=2e-5)


def test_written_preset_gives_the_same_outputs_in_keras_hub(tmp_path):
    formats.write(checkpoint(), str(tmp_path / "preset"), "keras_hub")
    assert_same_answers(keras_hub.models.BertBackbone.from_preset(str(tmp_path / "preset")), tiny.pretrainer()[0])
    tokenizer = keras_hub.models.BertTokenizer.from_preset(str(tmp_path / "preset"))
    assert np.asarray(tokenizer("A é b")).tolist() == [5, 9, 6]  # lower-cased, accents stripped: a, e, b
    masked_lm = keras_hub.models.BertMaskedLM.from_preset(str(tmp_path / "preset"))
    head = {weight.path: weight.numpy() for weight in masked_lm.masked_lm_head.weights}
    np.testing.assert_array_equal(head["mlm_head/output_bias"], checkpoint().weights["masked_lm/output_bias"])


@pytest.mark.parametrize(
    ("changes", "is_close"),
    [
        ({"hidden_act": "gelu_tanh"}, False),
        ({"hidden_act": "gelu_erf"}, True),
        ({"hidden_act": "gelu_tanh", "layer_norm_eps": 1e-7}, True),
    ],
)
def test_another_activation_or_epsilon_than_that_of_keras_hub_gives_a_warning(changes, is_close, tmp_path, caplog):
    formats.write(checkpoint(**changes), str(tmp_path / "preset"), "keras_hub")
    assert any(line.startswith("KerasHub computes with the tanh") for line in caplog.messages) == is_close
    assert any("KerasHub computes the masked LM head" in line for line in caplog.messages)


def test_keras_hub_preset_gives_the_same_outputs_here(tmp_path):
    backbone = theirs()
    backbone.save_to_preset(str(tmp_path / "preset"))
    keras_hub.models.BertTokenizer(PIECES, lowercase=False).save_to_preset(str(tmp_path / "preset"))
    loaded = formats.read(str(tmp_path / "preset"))
    assert (loaded.vocabulary, loaded.lower_case) == (PIECES, False)
    assert loaded.config == dataclasses.replace(tiny.CONFIG, hidden_act="gelu_tanh")
    model = heads.Pretrainer(loaded.config)
    report = weights.assign(model, loaded.weights)
    assert {name.split("/")[0] for name in report.newly_initialized} == {
        "masked_lm",
        "next_sentence",
    } and not report.unused
    assert_same_answers(backbone, model)


def test_preset_of_another_architecture_is_refused(tmp_path):
    theirs().save_to_preset(str(tmp_path / "preset"))
    (tmp_path / "preset" / "config.json").write_text('{"registered_name": "keras_hub>GPT2Backbone"}')
    with pytest.raises(UserError, match="preset contains a 'GPT2Backbone', .* backbones: AlbertBackbone, Bert"):
        formats.read(str(tmp_path / "preset"))


def test_weights_that_keras_hub_cannot_hold_are_refused_or_reported(tmp_path, caplog):
    with pytest.raises(UserError, match="hidden_act relu"):
        formats.write(checkpoint(hidden_act="relu"), str(tmp_path / "relu"), "keras_hub")
    headless = checkpoint()
    del headless.weights["encoder/pooler/bias"]
    with pytest.raises(UserError, match="Bert requires encoder/pooler/bias"):
        formats.write(headless, str(tmp_path / "headless"), "keras_hub")
    assert list(tmp_path.iterdir()) == []
    formats.write(checkpoint(hidden_act="gelu_erf"), str(tmp_path / "erf"), "keras_hub")
    assert "computes with the tanh GELU" in caplog.text


def test_preset_without_casing_has_vocabulary_but_no_tokenizer(tmp_path):
    formats.write(checkpoint(lower_case=None), str(tmp_path / "preset"), "keras_hub")
    loaded = formats.read(str(tmp_path / "preset"))
    assert (loaded.vocabulary, loaded.lower_case) == (PIECES, None)
    assert not (tmp_path / "preset" / "tokenizer.json").exists()


@pytest.mark.parametrize("name", ["bert_tiny_en_uncased", HANDLE])
def test_preset_name_is_downloaded_whole(name, tmp_path, hub):
    hub[HANDLE.removeprefix("kaggle://")] = tmp_path / "preset"
    formats.write(checkpoint(), str(tmp_path / "preset"), "keras_hub")
    loaded = formats.read(name)
    assert (loaded.vocabulary, loaded.lower_case) == (PIECES, True)
    for part in ("encoder/pooler/kernel", "masked_lm/output_bias"):
        np.testing.assert_array_equal(loaded.weights[part], checkpoint().weights[part])


def test_preset_without_network_is_one_sentence(hub):
    with pytest.raises(UserError, match="bert_tiny_en_uncased could not be fetched .* pass its folder"):
        formats.read("bert_tiny_en_uncased")


def test_unknown_preset_error_lists_known_presets():
    with pytest.raises(
        UserError, match="bert_base_en_uncasd is neither a folder nor a KerasHub preset .* bert_base_en_uncased"
    ):
        formats.read("bert_base_en_uncasd")


def test_missing_keras_hub_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(
        UserError, match=r"needs KerasHub, which cannot be imported .* pip install 'bert-tf\[keras-hub\]'"
    ):
        formats.read("bert_base_en_uncased")


@pytest.mark.parametrize("name", ["google_tf", "huggingface", "keras_hub"])
def test_hub_handle_is_read_in_any_format(name, tmp_path, hub):
    hub["me/bert"] = tmp_path / "fetched"
    formats.write(checkpoint(), str(tmp_path / "fetched"), name)
    assert formats.read("hf://me/bert").config == tiny.CONFIG


def test_torch_weights_are_fetched_only_if_there_are_no_others(tmp_path, hub):
    formats.write(checkpoint(), str(tmp_path / "whole"), "huggingface")
    folder, requested = tmp_path / "cache", []
    folder.mkdir()

    def fetched(allow_patterns):
        requested.append("pytorch_model.bin" in allow_patterns)
        if requested == [False, True]:
            shutil.copytree(tmp_path / "whole", folder, dirs_exist_ok=True)
        return str(folder)

    hub["me/bert"] = fetched
    assert formats.read("hf://me/bert").config == tiny.CONFIG
    assert requested == [False, True]


def test_vocabulary_and_casing_are_read_from_tokenizer_json(tmp_path):
    bare = dataclasses.replace(checkpoint(), vocabulary=None, lower_case=None)
    formats.write(bare, str(tmp_path / "model"), "huggingface")
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    values = {"model": {"type": "WordPiece", "vocab": vocabulary}, "normalizer": {"type": "BertNormalizer"}}
    values["normalizer"]["lowercase"] = False
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match="default without .* in normalizer.lowercase"):
        formats.read(str(tmp_path / "model"))
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    loaded = formats.read(str(tmp_path / "model"))
    assert (loaded.vocabulary, loaded.lower_case) == (PIECES, False)
    vocabulary["z"] = 40
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match="tokenizer.json are not 0 to 30, each once"):
        formats.read(str(tmp_path / "model"))


def test_failed_download_is_one_sentence(hub):
    with pytest.raises(UserError, match=r"^hf://me/bert could not be fetched \(no network\)\. Check [^\n]*$") as raised:
        formats.read("hf://me/bert")
    assert "`hf download me/bert --local-dir FOLDER` on another machine" in str(raised.value)


@pytest.mark.parametrize(
    "size, activation, kind", [(3, None, "classes"), (2, "sigmoid", "multi_label"), (1, None, "regression")]
)
def test_head_of_a_classifier_preset_is_read(tmp_path, size, activation, kind):
    classifier = keras_hub.models.BertTextClassifier(theirs(), num_classes=size, activation=activation)
    for number, weight in enumerate(classifier.output_dense.weights):
        weight.assign(np.random.default_rng(number).normal(0, 0.3, weight.shape))
    classifier.save_to_preset(str(tmp_path / "preset"))
    loaded = formats.read(str(tmp_path / "preset"))
    assert loaded.kind == kind and loaded.labels is None
    batch = tiny.tensors(tiny.batch())
    used = np.arange(12) < batch["lengths"].numpy()[:, None]
    inputs = {"token_ids": batch["token_ids"], "segment_ids": batch["segment_ids"], "padding_mask": tf.constant(used)}
    ours = pretrained.load(str(tmp_path / "preset")).model(batch)
    logits = next(iter(ours.values())).numpy().reshape(-1, size)
    expected = np.asarray(classifier(inputs))
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)) if activation else logits, expected, atol=2e-5)


def test_preset_in_shards_is_read(tmp_path):
    backbone = theirs()
    backbone.save_to_preset(str(tmp_path / "p"), max_shard_size=4e-6)
    shards = sorted(path.name for path in (tmp_path / "p").glob("model_*.weights.h5"))
    assert len(shards) > 2 and not (tmp_path / "p" / "model.weights.h5").exists()
    found = formats.read(str(tmp_path / "p"))
    model = heads.BertModel(found.config)
    weights.assign(model, found.weights)
    assert_same_answers(backbone, model)
    index = tmp_path / "p" / "model.weights.json"
    content = index.read_text()
    for damaged in ("../other.h5", ["a/b.h5"], {"a": 1}, [[]], None):
        index.write_text(json.dumps({"weight_map": {"/layers/a/vars": damaged}}))
        with pytest.raises(UserError, match=r"weights.json has no weight_map from names to files in its folder"):
            formats.read(str(tmp_path / "p"))
    index.write_text(content)
    (tmp_path / "p" / shards[1]).unlink()
    with pytest.raises(UserError, match=f"names {len(shards)} files, and .*{shards[1]} is missing"):
        formats.read(str(tmp_path / "p"))


def test_head_of_another_task_is_named(tmp_path, caplog):
    theirs().save_to_preset(str(tmp_path / "p"))
    (tmp_path / "p" / "task.json").write_text('{"registered_name": "keras_hub>BertTextToImage"}')
    with pytest.raises(
        UserError, match="p has no head for predictions .*head of keras_hub>BertTextToImage is not supported"
    ):
        checkpoint_predictor.load(str(tmp_path / "p"))
    assert "BertTextToImage is not supported and was not read" in caplog.text


def test_classifier_with_another_activation_is_refused(tmp_path):
    keras_hub.models.BertTextClassifier(theirs(), num_classes=2, activation="tanh").save_to_preset(str(tmp_path / "p"))
    with pytest.raises(UserError, match="activation of the classifier is 'tanh'; expected one of linear, softmax"):
        formats.read(str(tmp_path / "p"))


@pytest.mark.parametrize(
    "layers, message", [(10**9, "num_hidden_layers is 1000000000"), (9999, "describes a model of")]
)
def test_preset_of_more_layers_than_its_weights_is_refused_at_once(tmp_path, layers, message):
    theirs(hidden_dim=64, intermediate_dim=128).save_to_preset(str(tmp_path / "preset"))
    file = tmp_path / "preset" / "config.json"
    content = json.loads(file.read_text())
    content["config"]["num_layers"] = layers
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match=message):
        formats.read(str(tmp_path / "preset"))

"""Folders of sentence-transformers say how vectors of texts are made: kept by convert, done by extract."""

import dataclasses
import json
import os
import re
from collections import Counter

import numpy as np
import pytest
import tiny

from bert_tf.checkpoints import formats, sentence_transformers
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import main
from bert_tf.config.sentence_vectors import SentenceVectors, VectorLayer
from bert_tf.errors import UserError

CHECKPOINT = Checkpoint(
    config=tiny.CONFIG,
    weights=tiny.pretrainer()[1],
    vocabulary=[*tiny.SPECIAL, *(f"{i:x}" for i in range(tiny.CONFIG.vocab_size - 5))],
    lower_case=True,
    sentence_vectors=SentenceVectors("max", normalize=True),
)


def folder_of(path, kinds, pooling):
    """The two files of a folder of sentence-transformers."""
    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": paths.get(kind, f"1_{kind}")} for kind in kinds]
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return path


DENSE = VectorLayer(
    "dense",
    activation="tanh",
    arrays={"kernel": np.linspace(-1, 1, 8 * tiny.CONFIG.hidden_size, dtype=np.float32).reshape(-1, 8)},
)
ALL_SETTINGS = SentenceVectors(
    "mean+max",
    normalize=True,
    layers=(
        VectorLayer("normalize"),
        VectorLayer("layer_norm", arrays=dict.fromkeys(("gamma", "beta"), np.ones(2 * tiny.CONFIG.hidden_size, "f4"))),
    ),
    max_seq_length=9,
    prompts={"query": "query: ", "document": ""},
    default_prompt_name="query",
    include_prompt=False,
    truncate_dim=5,
    similarity="dot",
)


@pytest.mark.parametrize("format_name", ["huggingface", "native"])
@pytest.mark.parametrize(
    "vectors", [SentenceVectors("max", True), SentenceVectors("cls", False, (DENSE,)), ALL_SETTINGS, None]
)
def test_converted_model_describes_its_vectors(vectors, format_name, tmp_path):
    source = Checkpoint(**{**vars(CHECKPOINT), "sentence_vectors": vectors})
    formats.write(source, tmp_path / "written", format_name)
    read = formats.read(tmp_path / "written").sentence_vectors
    if vectors is not None and format_name == "huggingface" and vectors.max_seq_length is None:
        vectors = dataclasses.replace(vectors, max_seq_length=tiny.CONFIG.max_position_embeddings)
    assert read == vectors
    for written, original in zip(read.layers if read else (), vectors.layers if vectors else (), strict=True):
        assert {name: array.tolist() for name, array in written.arrays.items()} == {
            name: array.tolist() for name, array in original.arrays.items()
        }


@pytest.mark.parametrize(
    "kinds, pooling, expected",
    [
        (["Transformer", "Pooling"], {"pooling_mode_mean_tokens": True}, SentenceVectors("mean", False)),
        (["Transformer", "Pooling", "Normalize"], {"pooling_mode_lasttoken": True}, SentenceVectors("last", True)),
        (["Transformer", "Pooling"], {"pooling_mode": "weightedmean"}, SentenceVectors("weighted_mean", False)),
        (["Transformer", "Pooling", "Dropout"], {"pooling_mode": ["mean", "cls"]}, SentenceVectors("mean+cls", False)),
        (
            ["Transformer", "Pooling"],
            {"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True, "include_prompt": False},
            SentenceVectors("cls+max", False, include_prompt=False),
        ),
        (["Transformer", "Pooling"], {"embedding_dimension": 4}, SentenceVectors("mean")),
        (
            ["Transformer", "Pooling", "Normalize", "Normalize"],
            {"pooling_mode": "cls"},
            SentenceVectors("cls", True, (VectorLayer("normalize"),)),
        ),
    ],
)
def test_modules_and_pooling_are_read(kinds, pooling, expected, tmp_path):
    loaded = sentence_transformers.read(folder_of(tmp_path, kinds, pooling), 64, has_length=False)
    assert loaded == expected


@pytest.mark.parametrize(
    "name, kind",
    [
        ("sentence_bert_config.json", "Transformer"),
        ("sentence_xlm-roberta_config.json", "Transformer"),
        ("sentence_bert_config.json", "BERT"),
        ("sentence_roberta_config.json", "RoBERTa"),
    ],
)
def test_older_folder_has_its_encoder_in_a_folder_of_its_own(name, kind, tmp_path):
    encoder = f"0_{kind}"
    formats.write(CHECKPOINT, tmp_path / encoder, "huggingface")
    for rest in ("modules.json", "1_Pooling", "sentence_bert_config.json"):
        file = tmp_path / encoder / rest
        if file.exists():
            file.rename(tmp_path / rest)
    modules = json.loads((tmp_path / "modules.json").read_text())
    first = {**modules[0], "path": encoder, "type": f"sentence_transformers.models.{kind}"}
    (tmp_path / "modules.json").write_text(json.dumps([first, *modules[1:2]]))
    (tmp_path / encoder / name).write_text(json.dumps({"max_seq_length": 7, "do_lower_case": True}))
    (tmp_path / encoder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    read = formats.read(tmp_path)
    assert read.weights.keys() == CHECKPOINT.weights.keys() and read.lower_case
    assert read.sentence_vectors == SentenceVectors("max", max_seq_length=7)


@pytest.mark.parametrize(
    "kinds, pooling, named",
    [
        (["Transformer", "Pooling", "WeightedLayerPooling"], {"pooling_mode_cls_token": True}, "WeightedLayerPooling"),
        (["Transformer", "CNN", "Pooling"], {"pooling_mode_cls_token": True}, "CNN"),
        (["Transformer", "Pooling", "Pooling"], {"pooling_mode_cls_token": True}, "two modules Pooling"),
        (["Transformer"], {}, "no pooling"),
        (["MLMTransformer", "SpladePooling"], {"pooling_strategy": "max"}, "MLMTransformer and SpladePooling"),
        (["Transformer", "Pooling"], {"pooling_mode": "median"}, "the pooling 'median'"),
        (["Transformer", "Pooling"], {}, "the pooling 'None'"),
    ],
)
def test_unsupported_modules_are_named(kinds, pooling, named, tmp_path):
    loaded = sentence_transformers.read(folder_of(tmp_path, kinds, pooling), 64)
    with pytest.raises(UserError, match=f"my_model uses .*{named}.* is not supported"):
        loaded.check_supported("my_model")


def test_module_of_another_package_is_unsupported(tmp_path):
    folder = folder_of(tmp_path, ["Transformer", "Pooling"], {"pooling_mode": "cls"})
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "custom_st.Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    assert sentence_transformers.read(folder, 64).unsupported == "custom_st.Transformer"


@pytest.mark.parametrize("path", ["../1_Pooling", "/etc", "a/../../b", "C:\\x", "..\\b"])
def test_paths_of_modules_stay_in_the_folder(path, tmp_path):
    folder_of(tmp_path, ["Transformer", "Pooling"], {"pooling_mode": "cls"})
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[1]["path"] = path
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match=r"modules.json has the path .*, which leaves the folder"):
        sentence_transformers.read(tmp_path, 64)


def test_each_file_is_read_once(tmp_path, monkeypatch):
    formats.write(CHECKPOINT, tmp_path / "a", "huggingface")
    (tmp_path / "a" / "sentence_bert_config.json").write_text('{"max_seq_length": 8, "do_lower_case": true}')
    (tmp_path / "a" / "config_sentence_transformers.json").write_text('{"similarity_fn_name": "dot"}')
    counts, opened = Counter(), open

    def counting(file, *args, **options):
        counts[os.path.basename(str(file))] += str(file).endswith(".json")
        return opened(file, *args, **options)

    monkeypatch.setattr("builtins.open", counting)
    vectors = formats.load("huggingface").read(str(tmp_path / "a")).sentence_vectors
    assert (vectors.similarity, vectors.max_seq_length) == ("dot", 8)
    assert counts["modules.json"] == counts["sentence_bert_config.json"] == counts["tokenizer_config.json"] == 1
    assert counts["config_sentence_transformers.json"] == 1 and counts["config.json"] == 2  # its own, and the pooling's


@pytest.mark.parametrize(
    "name, content, field, expected",
    [
        ("sentence_bert_config.json", {"max_seq_length": 20, "do_lower_case": True}, "max_seq_length", 20),
        ("sentence_bert_config.json", {"max_seq_length": 999}, "max_seq_length", 64),
        ("sentence_roberta_config.json", {"max_seq_length": 21}, "max_seq_length", 21),
        ("sentence_bert_config.json", {"tokenizer_args": {"model_max_length": 22}}, "max_seq_length", 22),
        ("tokenizer_config.json", {"model_max_length": 23}, "max_seq_length", 23),
        ("tokenizer_config.json", {"model_max_length": 10**30}, "max_seq_length", 64),
        ("config_sentence_transformers.json", {"prompts": {"a": None, "b": "B "}}, "prompts", {"a": "", "b": "B "}),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "default_prompt_name", "query"),
        ("config_sentence_transformers.json", {"similarity_fn_name": "dot"}, "similarity", "dot"),
        ("config_sentence_transformers.json", {"truncate_dim": 3}, "truncate_dim", 3),
        ("sentence_bert_config.json", {"max_seq_length": 2}, "unsupported", "a max_seq_length of 2"),
        ("sentence_bert_config.json", {"transformer_task": "x"}, "unsupported", "transformer_task 'x' in sentence_b.*"),
        ("sentence_bert_config.json", {"query_length": 32}, "unsupported", "query_length 32 in .*"),
        ("sentence_bert_config.json", {"model_args": {"x": 1}}, "unsupported", "model_args {'x': 1} in .*"),
        ("tokenizer_config.json", {"truncation_side": "left"}, "unsupported", "truncation_side 'left'"),
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "unsupported", "the model_type .*"),
    ],
)
def test_settings_are_read(name, content, field, expected, tmp_path):
    folder_of(tmp_path, ["Transformer", "Pooling"], {"pooling_mode": "cls"})
    (tmp_path / name).write_text(json.dumps(content))
    found = getattr(sentence_transformers.read(tmp_path, 64), field)
    assert re.fullmatch(expected, found) if field == "unsupported" else found == expected


@pytest.mark.parametrize(
    "name, content",
    [
        ("sentence_bert_config.json", {"max_seq_length": "x"}),
        ("sentence_bert_config.json", {"max_seq_length": -1}),
        ("config_sentence_transformers.json", {"prompts": {"a": 3}}),
        ("config_sentence_transformers.json", {"prompts": []}),
        ("config_sentence_transformers.json", {"default_prompt_name": "x"}),
        ("config_sentence_transformers.json", {"truncate_dim": 0}),
        ("config_sentence_transformers.json", {"truncate_dim": 1.5}),
        ("1_Pooling/config.json", {"pooling_mode": "cls", "include_prompt": 3}),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", 3]}),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": "no"}),
    ],
)
def test_damaged_settings_are_reported(name, content, tmp_path):
    folder_of(tmp_path, ["Transformer", "Pooling"], {"pooling_mode": "cls"})
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(UserError, match=os.path.basename(name)):
        sentence_transformers.read(tmp_path, 64)


@pytest.mark.parametrize(
    "text", ["{", "{}", "[]", "[1]", '[{"type": 1}]', "null", "[" * 100_000, '[{"type": "a.Pooling", "path": 5}]']
)
def test_damaged_modules_json_is_reported(text, tmp_path):
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(UserError, match=r"modules.json(.* list of modules|: modules.*; expected)"):
        sentence_transformers.read(tmp_path, 64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sentences")
    formats.write(CHECKPOINT, folder / "model", "huggingface")
    (folder / "texts.txt").write_text("1 2 3\n4\n")
    return folder


def vectors(folder, *flags):
    output = folder / "vectors.npz"
    source = ["--file", str(folder / "texts.txt"), "--output", str(output), "--overwrite", "--max_seq_length=12"]
    assert main.main(["extract", str(folder / "model"), *source, *flags]) == 0
    return np.load(output)["vectors"]


@pytest.mark.slow
def test_vectors_are_as_the_folder_says_unless_flags_are_given(folder, capsys):
    requested = vectors(folder, "--unit=sentence", "--pooling=max", "--normalize")
    np.testing.assert_allclose(vectors(folder, "--unit=sentence"), requested, atol=1e-6)
    assert "model: max, normalized, texts truncated at 12 tokens." in capsys.readouterr().err
    plain = vectors(folder, "--unit=sentence", "--no-normalize")
    assert abs(np.linalg.norm(plain, axis=1) - 1).min() > 0.01
    np.testing.assert_allclose(plain / np.linalg.norm(plain, axis=1, keepdims=True), requested, atol=1e-6)
    mean = vectors(folder, "--unit=sentence", "--pooling=mean")
    np.testing.assert_allclose(np.linalg.norm(mean, axis=1), 1, atol=1e-6)
    capsys.readouterr()
    assert abs(np.linalg.norm(vectors(folder), axis=1) - 1).min() > 0.01  # tokens stay as they are
    assert "specified by" not in capsys.readouterr().err


def test_export_pools_as_the_folder_specifies(folder, monkeypatch):
    abouts = []
    monkeypatch.setattr("bert_tf.export.saved_model.export", lambda *_, about, **__: abouts.append(about))
    assert main.main(["extract", str(folder / "model"), f"--export={folder / 'out'}", "--max_seq_length=12"]) == 0
    assert (abouts[0]["pooling"], abouts[0]["normalize"]) == ("max", True)


def test_unsupported_module_is_refused_also_with_a_pooling(folder, tmp_path, capsys):
    formats.write(Checkpoint(**{**vars(CHECKPOINT), "sentence_vectors": None}), tmp_path / "model", "huggingface")
    folder_of(tmp_path / "model", ["Transformer", "Pooling", "LSTM"], {"pooling_mode_cls_token": True})
    command = ["extract", str(tmp_path / "model"), "--text=1 2", "--unit=sentence"]
    for more in ([], ["--pooling=cls"]):
        assert main.main([*command, *more]) == 2
        assert "uses the module LSTM for embeddings, which is not supported" in capsys.readouterr().err
    assert main.main(command[:-1]) == 0  # of tokens

"""Folders of sentence-transformers say how vectors of texts are made: kept by convert, done by extract."""

import json

import numpy as np
import pytest
import tiny

from bert_tf.checkpoints import formats, sentence_transformers
from bert_tf.checkpoints.checkpoint import Checkpoint, SentenceVectors
from bert_tf.cli import main
from bert_tf.errors import UserError

CHECKPOINT = Checkpoint(
    config=tiny.CONFIG,
    weights=tiny.pretrainer()[1],
    vocabulary=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"{i:x}" for i in range(tiny.CONFIG.vocab_size - 5))],
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


@pytest.mark.parametrize("format_name", ["huggingface", "native"])
@pytest.mark.parametrize("vectors", [SentenceVectors("max", True), SentenceVectors("cls", False), None])
def test_converted_model_describes_its_pooling(vectors, format_name, tmp_path):
    source = Checkpoint(**{**vars(CHECKPOINT), "sentence_vectors": vectors})
    formats.write(source, tmp_path / "written", format_name)
    assert formats.read(tmp_path / "written").sentence_vectors == vectors


@pytest.mark.parametrize(
    "kinds, pooling, expected",
    [
        (["Transformer", "Pooling"], {"pooling_mode_mean_tokens": True}, SentenceVectors("mean", False)),
        (["Transformer", "Pooling", "Normalize"], {"pooling_mode_lasttoken": True}, SentenceVectors("last", True)),
        (["Transformer", "Pooling"], {"pooling_mode": "weightedmean"}, SentenceVectors("weighted_mean", False)),
    ],
)
def test_modules_and_pooling_are_read(kinds, pooling, expected, tmp_path):
    loaded = sentence_transformers.read(folder_of(tmp_path, kinds, pooling))
    assert loaded == expected and loaded.is_known


@pytest.mark.parametrize(
    "kinds, pooling, named",
    [
        (["Transformer", "Pooling", "Dense"], {"pooling_mode_cls_token": True}, "Dense"),
        (["Transformer"], {}, "no pooling"),
        (["Transformer", "Pooling"], {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}, "cls and max"),
        (["Transformer", "Pooling"], {}, "None"),
    ],
)
def test_unsupported_modules_are_named(kinds, pooling, named, tmp_path):
    loaded = sentence_transformers.read(folder_of(tmp_path, kinds, pooling))
    assert loaded.pooling == named and not loaded.is_known


@pytest.mark.parametrize(
    "text", ["{", "{}", "[]", "[1]", '[{"type": 1}]', "null", "[" * 100_000, '[{"type": "a.Pooling", "path": 5}]']
)
def test_damaged_modules_json_is_reported(text, tmp_path):
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(UserError, match=r"modules.json .* list of modules.* fetch it again, or remove it"):
        sentence_transformers.read(tmp_path)


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
def test_pooling_of_the_folder_is_used_unless_flags_are_given(folder, capsys):
    requested = vectors(folder, "--unit=sentence", "--pooling=max", "--normalize")
    assert "specified by" not in capsys.readouterr().err
    np.testing.assert_array_equal(vectors(folder, "--unit=sentence"), requested)
    assert "model: max, normalized." in capsys.readouterr().err
    plain = vectors(folder, "--unit=sentence", "--pooling=max")
    assert abs(np.linalg.norm(plain, axis=1) - 1).min() > 0.01
    mean = vectors(folder, "--unit=sentence", "--no-normalize")
    np.testing.assert_array_equal(mean, vectors(folder, "--unit=sentence", "--pooling=mean"))
    capsys.readouterr()
    assert abs(np.linalg.norm(vectors(folder), axis=1) - 1).min() > 0.01  # tokens stay as they are
    assert "specified by" not in capsys.readouterr().err


def test_export_pools_as_the_folder_specifies(folder, monkeypatch):
    abouts = []
    monkeypatch.setattr("bert_tf.export.saved_model.export", lambda *_, about, **__: abouts.append(about))
    assert main.main(["extract", str(folder / "model"), f"--export={folder / 'out'}", "--max_seq_length=12"]) == 0
    assert (abouts[0]["pooling"], abouts[0]["normalize"]) == ("max", True)


def test_unsupported_pooling_must_be_chosen_by_flag(folder, tmp_path, capsys):
    formats.write(Checkpoint(**{**vars(CHECKPOINT), "sentence_vectors": None}), tmp_path / "model", "huggingface")
    folder_of(tmp_path / "model", ["Transformer", "Pooling", "Dense"], {"pooling_mode_cls_token": True})
    command = ["extract", str(tmp_path / "model"), "--text=1 2", "--unit=sentence", "--max_seq_length=12"]
    assert main.main(command) == 2
    assert "specifies the pooling Dense, which is not supported: give --pooling." in capsys.readouterr().err
    assert main.main([*command, "--pooling=cls"]) == 0

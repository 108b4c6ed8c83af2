"""--segments: each command reads a checkpoint with the segments that it names, and refuses it for models of our own."""

import itertools
import json

import numpy as np
import pytest
import tiny
from checkpoint_cases import CONFIG, PIECES

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.extras.search.index import Index
from bert_tf.model import heads
from bert_tf.recipes import initialization
from bert_tf.recipes.finetune import Flags

PAIRS = [(f"{a} {b}", f"{b} {c} {a}") for a, b, c in itertools.permutations("abcde", 3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoints") / "pairs"
    weights = tiny.random_weights(heads.Classifier(CONFIG, 2))
    source = Checkpoint(config=CONFIG, weights=weights, vocabulary=PIECES, lower_case=True, kind="classes")
    native = path.with_name("native")
    formats.write(source, native, "native")
    shares = [each.probabilities["LABEL_1"] for each in bert_tf.load(native, segments="one").predict(PAIRS)]
    weights["classifier/bias"] -= np.array([0, np.median(np.log(shares) - np.log1p(-np.array(shares)))], np.float32)
    formats.write(source, path, "huggingface")  # half of the pairs have each label
    return str(path)


@pytest.fixture(scope="module")
def expected(folder):
    """{segments: labels of PAIRS}."""
    return {
        segments: [each.label for each in bert_tf.load(folder, segments=segments).predict(PAIRS)]
        for segments in ("one", "two")
    }


def labels(model, path, *flags):
    output = path.with_suffix(".jsonl")
    columns = "--text_columns=text_a,text_b"
    assert main.main(["predict", model, f"--file={path}", f"--output={output}", columns, *flags]) == 0
    return [json.loads(line)["label"] for line in output.read_text().splitlines()]


def test_models_answer_with_the_segments_of_the_flag(folder, expected, tmp_path, capsys):
    assert expected["one"] != expected["two"]
    rows = tmp_path / "rows.csv"
    lines = ["text_a,text_b", *(",".join(pair) for pair in PAIRS)]
    rows.write_text("\n".join(lines) + "\n")
    assert labels(folder, rows) == expected["two"]
    assert labels(folder, rows, "--segments=one") == expected["one"]
    for segments in ("one", "two"):
        path = tmp_path / f"labelled_{segments}.csv"
        given = zip(["label", *expected["one"]], lines, strict=True)
        path.write_text("\n".join(f"{line},{label}" for label, line in given) + "\n")
        capsys.readouterr()
        columns = ["--text_columns=text_a,text_b", "--label_column=label"]
        assert main.main(["evaluate", folder, f"--file={path}", f"--segments={segments}", "--json", *columns]) == 0
        assert (json.loads(capsys.readouterr().out)["scores"]["accuracy"] == 1) == (segments == "one")
    export = str(tmp_path / "export")
    assert main.main(["export", folder, export, "--segments=one", "--num_texts=2", "--engine=none"]) == 0
    assert labels(export, rows) == expected["one"]
    capsys.readouterr()
    assert main.main(["predict", export, f"--file={rows}", "--segments=two"]) == 2
    assert "--segments=two has no effect on" in capsys.readouterr().err


def test_an_index_keeps_the_segments_of_its_model(folder, tmp_path):
    texts, index = tmp_path / "texts.txt", tmp_path / "index"
    texts.write_text("a b\nc d\n")
    assert main.main(["index", str(texts), str(index), f"--model={folder}", "--segments=one"]) == 0
    assert Index(str(index)).about["segments"] == "one"


def test_training_starts_from_a_checkpoint_with_the_segments_of_the_flag(folder):
    options = Flags().replace(init_checkpoint=folder, max_seq_length=8)
    for segments in ("", "one"):
        start = initialization.resolve(options.replace(segments=segments))
        assert start.vocabulary.settings.one_segment == (segments == "one")
    with pytest.raises(UserError, match="segments requires init_checkpoint: remove it"):
        initialization.resolve(options.replace(init_checkpoint="", segments="one"))


def test_a_server_reads_checkpoints_with_the_flag():
    arguments = main.parser().parse_args(["serve", "folder", "--segments=one"])
    assert arguments.segments == "one"

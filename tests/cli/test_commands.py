"""The console script: quick help, conversions, and one clear line with exit code 2 for a mistake."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tiny
from checkpoint_cases import PIECES

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import main
from bert_tf.model import heads
from bert_tf.text import vocabulary

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKPOINT = Checkpoint(config=tiny.CONFIG, weights=tiny.pretrainer()[1], vocabulary=PIECES, lower_case=True)


def bert_tf(*arguments):
    """`bert-tf` in a process of its own."""
    command = [sys.executable, "-m", "bert_tf", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.fixture
def source(tmp_path):
    """The folder of a TF1 checkpoint."""
    formats.write(CHECKPOINT, str(tmp_path / "source"), "google_tf")
    return tmp_path / "source"


def test_help_lists_commands_quickly():
    seconds = []
    for _ in range(3):
        start = os.times()
        done = bert_tf("--help")
        end = os.times()  # of work, as others may be at work on this machine
        seconds.append(end.children_user + end.children_system - start.children_user - start.children_system)
    assert (done.returncode, done.stderr) == (0, "") and "convert   Converts a checkpoint" in done.stdout
    assert min(seconds) < 0.5


@pytest.mark.slow
def test_tensorflow_says_nothing_where_a_command_starts_it(tmp_path):
    (tmp_path / "run.json").write_text('{"flags": {}}')
    done = bert_tf("export", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == f"bert-tf: The run in {tmp_path} has no checkpoint with its bert_config.json: train first.\n"


def test_convert_help_lists_every_format(capsys):
    with pytest.raises(SystemExit) as ended:
        main.main(["convert", "--help"])
    assert ended.value.code == 0
    assert "--format {google_tf,huggingface,keras_hub,native,litert,onnx,openvino}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["google_tf", "huggingface", "keras_hub", "native"])
def test_convert_writes_and_reports_weights_config_and_vocabulary(name, source, tmp_path, capsys):
    assert main.main(["convert", str(source), str(tmp_path / "to"), f"--format={name}"]) == 0
    actual = formats.read(str(tmp_path / "to"))
    assert (actual.config, actual.vocabulary, actual.lower_case) == (tiny.CONFIG, PIECES, True)
    for weight, array in CHECKPOINT.weights.items():
        np.testing.assert_array_equal(actual.weights[weight], array)
    stdout = capsys.readouterr().out
    assert "38 weights loaded, 0 newly initialized, 0 unused, 0 mismatched" in stdout
    assert f"Wrote 38 weights to {tmp_path / 'to'} as {name}." in stdout


def test_convert_reports_new_unused_and_left_out_weights(source, tmp_path, capsys):
    weights = {name: array for name, array in CHECKPOINT.weights.items() if not name.startswith("next_sentence/")}
    weights["adapter/kernel"] = np.zeros(3, np.float32)
    formats.write(dataclasses.replace(CHECKPOINT, weights=weights), str(tmp_path / "from"), "native")
    assert main.main(["convert", str(tmp_path / "from"), str(tmp_path / "to"), "--format=huggingface"]) == 0
    stdout = capsys.readouterr().out
    assert "36 weights loaded, 2 newly initialized, 1 unused, 0 mismatched" in stdout
    assert "  newly initialized  next_sentence/kernel\n" in stdout and "  unused             adapter/kernel\n" in stdout
    assert "  dropped adapter/kernel, which the format huggingface cannot store\n" in stdout
    assert json.loads((tmp_path / "to" / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]


def test_convert_json_has_the_same_content(source, tmp_path, capsys):
    assert main.main(["convert", str(source), str(tmp_path / "to"), "--format=huggingface", "--json"]) == 0
    actual = json.loads(capsys.readouterr().out)
    assert (len(actual.pop("loaded")), actual.pop("source"), actual.pop("target")) == (
        38, str(source), str(tmp_path / "to")
    )  # fmt: skip
    assert actual == {
        "format": "huggingface", "pieces": 30, "lower_case": True, "labels": None, "kind": None,
        "newly_initialized": [], "unused": [], "shape_mismatch": [], "left_out": [],
    }  # fmt: skip


def test_vocabulary_is_learned_and_extended_atomically(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("The fox ran over the hill.\n\nIt saw a fox.\n" * 9)
    (tmp_path / "words.txt").write_text("Krill\nkrill\nfox\nsundering-flood\n")
    vocab, longer = tmp_path / "vocab.txt", tmp_path / "longer.txt"
    assert main.main(["vocabulary", str(tmp_path / "a.txt"), str(vocab), "--vocab_size=40", "--json"]) == 0
    pieces = vocabulary.read(vocab)
    told = {"vocabulary": str(vocab), "pieces": len(pieces), "lower_case": True, "kind": "wordpiece"}
    assert json.loads(capsys.readouterr().out) == told
    assert "fox" in pieces and len(pieces) <= 40
    assert main.main(["vocabulary", str(tmp_path / "words.txt"), str(longer), f"--extend={vocab}"]) == 0
    assert vocabulary.read(longer) == [*pieces, "krill"]
    assert (
        "1 added, 2 known, 1 cannot match because the tokenizer splits them: 'sundering-flood'."
        in capsys.readouterr().out
    )
    for arguments, expected in (
        (["a.txt", "vocab.txt"], ".*vocab.txt already exists"),
        (["none.txt", "new.txt"], "none.txt"),
        (["words.txt", "new.txt", f"--extend={longer}"], "words.txt has no word to add: 0 added, 3 known"),
        (["a.txt", "new.txt", "--vocab_size=5"], "vocab_size is 5; expected more than the 5 special tokens"),
    ):
        first, second, *flags = arguments
        assert main.main(["vocabulary", str(tmp_path / first), str(tmp_path / second), *flags]) == 2
        assert re.search(expected, capsys.readouterr().err) and not (tmp_path / "new.txt").exists()


def test_convert_keeps_classifier_head_and_labels(tmp_path, capsys):
    weights = tiny.random_weights(heads.Classifier(tiny.CONFIG, 2))
    checkpoint = dataclasses.replace(CHECKPOINT, weights=weights, labels=["no", "yes"], kind="classes")
    formats.write(checkpoint, str(tmp_path / "from"), "native")
    assert main.main(["convert", str(tmp_path / "from"), str(tmp_path / "to"), "--format=huggingface"]) == 0
    stdout = capsys.readouterr().out
    assert "33 weights loaded, 0 newly initialized, 0 unused, 0 mismatched" in stdout and "Labels: no, yes." in stdout
    assert formats.labels(tmp_path / "to") == ["no", "yes"]


def test_missing_checkpoint_facts_can_be_given_by_flags(source, tmp_path, capsys):
    (source / "vocab.txt").unlink()
    (source / "tokenizer_config.json").unlink()
    vocabulary.write(tmp_path / "pieces.txt", PIECES)
    assert main.main(["convert", str(source), str(tmp_path / "less"), "--format=native"]) == 0
    stdout = capsys.readouterr().out
    assert "pass it as --vocab_file" in stdout and "pass --do_lower_case" in stdout
    arguments = [f"--vocab_file={tmp_path / 'pieces.txt'}", "--do_lower_case=false"]
    assert main.main(["convert", str(source), str(tmp_path / "more"), "--format=native", *arguments]) == 0
    actual = formats.read(str(tmp_path / "more"))
    assert (actual.vocabulary, actual.lower_case) == (PIECES, False)


def spoil_vocabulary(source):
    vocabulary.write(source / "vocab.txt", PIECES[:-1])


def spoil_shape(source):
    dataclasses.replace(tiny.CONFIG, intermediate_size=32).write(source / "bert_config.json")


def spoil_vocabulary_size(source):
    dataclasses.replace(tiny.CONFIG, vocab_size=31).write(source / "bert_config.json")
    vocabulary.write(source / "vocab.txt", [*PIECES, "z"])


def spoil_data(source):
    data = source / "bert_model.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:900])


def take_target(source):
    (source.parent / "to").write_text("mine")


@pytest.mark.parametrize(
    "spoil, more, expected",
    [
        (None, ["--do_lower_case=false"], "--do_lower_case=false: .*source is uncased"),
        (None, ["--format=torch"], "bert-tf: --format=torch: expected one of .*native.*, onnx"),
        (None, ["--max_position_embeddings=many"], "bert-tf: --max_position_embeddings=many: expected a whole number"),
        (None, ["--formt=native"], "There is no flag --formt. Did you mean --format?"),
        (None, ["--vocab_file=none.txt"], "none.txt does not exist"),
        (None, ["--quantize=int8"], "--quantize applies to engines: pass --format=litert or onnx or openvino"),
        (None, ["--format=onnx", "--calibration_file=none.txt"], "none.txt cannot be used"),
        (spoil_vocabulary, [], "has 29 tokens, but its model expects 30"),
        (spoil_vocabulary_size, [], "a vocabulary of 30 tokens and the model one of 31"),
        (spoil_shape, [], r"has the shape \(16, 24\) in the checkpoint and \(16, 32\) in the model"),
        (spoil_data, [], "missing or cut short"),
        (take_target, [], "to exists already"),
    ],
)
def test_user_error_is_one_line_with_exit_code_2_and_writes_nothing(spoil, more, expected, source, capsys):
    if spoil:
        spoil(source)
    before = sorted(source.parent.rglob("*"))
    arguments = ["convert", str(source), str(source.parent / "to"), "--format=native", *more]
    try:
        code = main.main(arguments)
    except SystemExit as ended:  # argparse's way
        code = ended.code
    stderr = capsys.readouterr().err
    assert code == 2
    assert stderr.startswith("bert-tf: ") and stderr.count("\n") == 1
    assert re.search(expected, stderr)
    assert sorted(source.parent.rglob("*")) == before


def test_process_exits_with_code_2_one_line_and_no_traceback(tmp_path):
    done = bert_tf("convert", str(tmp_path / "nothing"), str(tmp_path / "to"), "--format=native")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"bert-tf: There is no checkpoint {tmp_path / 'nothing'}: neither a file or folder nor the name of a "
        "published checkpoint; pass a checkpoint folder, or the path up to .index or .ckpt.\n"
    )


def test_missing_command_prints_help():
    done, help = bert_tf(), bert_tf("--help")
    assert (done.returncode, done.stderr) == (0, "") and "predict" in done.stdout and done.stdout == help.stdout

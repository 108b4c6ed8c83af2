"""`bert-tf predict` where something is wrong: one line, an exit code, and nothing half-written."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import faults
import pytest
import quick_exports

from bert_tf.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """{kind: folder of an export}."""
    return quick_exports.make(tmp_path_factory.mktemp("exports"))


MISTAKES = {
    "no folder": ("none", ["--text=a"], "There is no folder .*none: pass an export"),
    "no export": ("empty", ["--text=a"], "empty is neither an export .it has no saved_model.pb. nor a checkpoint"),
    "run without": ("run", ["--text=a"], "The run in .* has no export: `bert-tf export"),
    "damaged": ("damaged", ["--text=a"], "cannot be loaded .*damaged or missing"),
    "no strings": ("other", ["--text=a"], "takes ids of int32 .*; expected strings"),
    "nothing": ("single", [], "one of the arguments --text --file --input is required"),
    "both": ("single", ["--text=a", "--file=b.txt"], "argument --file: not allowed with argument --text"),
    "no second": ("pair", ["--text=a"], "takes text_a and text_b: pass --text_b too"),
    "second": ("single", ["--text=a", "--text_b=b"], "takes text_a only: remove --text_b"),
    "second of a file": ("pair", ["--file=a.txt", "--text_b=b"], "text_b requires text"),
    "question of no question": ("single", ["--text=a", "--question=b"], "takes text_a only: remove --question"),
    "questions": ("single", ["--file=a.json"], "a.json has no column 'text_a'; its columns: title"),
    "columns of questions": (
        "single",
        ["--file=a.json", "--id_column=x"],
        "a.json has no column 'text_a'; its columns: title",
    ),
    "columns of a text": ("pair", ["--text=a", "--text_columns=b"], "text_columns requires file"),
    "one choice": ("choice", ["--text=a", "--choice=b"], "1 choices; .*choice takes 2"),
    "lines for a pair": (
        "pair",
        ["--file=a.txt"],
        "a.txt has one text per line, but the model takes text_a and text_b",
    ),
    "no column": ("pair", ["--file=a.tsv"], "a.tsv has no column 'text_b'; its columns: text_a. Name those"),
    "few columns": ("pair", ["--file=a.tsv", "--text_columns=x"], "names 1 columns; expected 2, for text_a, text_b"),
    "no id": ("single", ["--file=a.tsv", "--id_column=x"], "has no column 'x'"),
    "a number": ("single", ["--file=a.jsonl"], r"In line 2 of .* there is \[3\]; expected 1 texts in text_a"),
    "missing": ("single", ["--file=none.txt"], "There is no file none.txt"),
    "missing, no extension": ("single", ["--file=none"], "There is no file none: pass texts as one of .txt"),
    "empty": ("single", ["--file=empty.txt"], "empty.txt is empty; expected texts"),
    "header only": ("single", ["--file=header.tsv"], "header.tsv contains no rows"),
    "latin": ("single", ["--file=latin.txt"], "latin.txt is not UTF-8: byte 3 of line 2 is 0x81"),
    "latin table": ("single", ["--file=latin.tsv"], "latin.tsv is not UTF-8: byte 1 of line 3 is 0x81"),
    "kind": ("single", ["--file=a.ods"], "a.ods cannot be read; expected a name that ends in .txt, .tsv, .csv"),
    "kind inside": ("single", ["--file=a.xlsx"], "a.xlsx as an Excel workbook"),
    "output kind": (
        "single",
        ["--text=a", "--output=a.ods"],
        "expected a name that ends in .jsonl or .tsv or .csv or .xlsx",
    ),
    "output place": ("single", ["--text=a", "--output=none/a.tsv"], "none/a.tsv cannot be written"),
    "output is file": ("single", ["--file=a.tsv", "--output=a.tsv"], "output and file are both a.tsv"),
    "batch": ("single", ["--text=a", "--batch_size=0"], "batch_size is 0; expected 1 or more"),
}


@pytest.fixture
def place(exports, tmp_path, monkeypatch):
    """A folder with files to give, and links to the exports."""
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "a.txt": b"a\n", "a.tsv": b"text_a\nx\n", "a.jsonl": b'{"text_a": "x"}\n{"text_a": 3}\n', "a.ods": b"x",
        "a.xlsx": b"x",
        "empty.txt": b"", "header.tsv": b"text_a\n", "latin.txt": b"a\nca\x81",
        "latin.tsv": b"text_a\nx\n\x81\n", "a.json": b'{"data": [{"title": "t"}]}',
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
    for name in ("empty", "run", "damaged"):
        (tmp_path / name).mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    (tmp_path / "damaged" / "saved_model.pb").write_bytes(b"no protocol buffer")
    for kind, folder in exports.items():
        (tmp_path / kind).symlink_to(folder)
    return tmp_path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_user_error_is_one_line_with_exit_code_2_and_writes_nothing(mistake, place, capsys):
    kind, flags, expected = MISTAKES[mistake]
    before = sorted(os.listdir(place))
    if "--file" in "".join(flags) and "--output" not in "".join(flags):
        flags = [*flags, "--output=answers.tsv"]
    try:
        code = main.main(["predict", kind, *flags])
    except SystemExit as ended:  # argparse's way
        code = ended.code
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.startswith("bert-tf: ") and captured.err.count("\n") == 1
    assert re.search(expected, captured.err), captured.err
    assert sorted(os.listdir(place)) == before


def test_error_late_in_a_file_keeps_the_old_predictions(exports, tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(b"a\n" * 5000 + b"\x81\n")
    (tmp_path / "b.tsv").write_text("old")
    arguments = [str(exports["number"]), "--file", str(tmp_path / "a.txt"), "--output", str(tmp_path / "b.tsv")]
    assert main.main(["predict", *arguments]) == 2
    assert "byte 1 of line 5001" in capsys.readouterr().err
    assert (tmp_path / "b.tsv").read_text() == "old" and sorted(os.listdir(tmp_path)) == ["a.txt", "b.tsv"]


@pytest.mark.parametrize(
    "error, code, expected",
    [
        (OSError(28, "No space left on device"), 1, "no space left on the disk (/"),
        (PermissionError(13, "Permission denied", "b.tsv"), 2, "b.tsv cannot be used (Permission denied)"),
    ],
)
def test_failing_disk_is_one_line(exports, tmp_path, capsys, error, code, expected):
    with faults.on_call(os, "replace", error):
        assert main.main(["predict", str(exports["number"]), "--text=a", f"--output={tmp_path / 'b.tsv'}"]) == code
    stderr = capsys.readouterr().err
    assert stderr.startswith(f"bert-tf: {expected}") and stderr.count("\n") == 1 and os.listdir(tmp_path) == []


WITHOUT_TENSORFLOW = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which who is started in the background does not hear
from bert_tf.cli import main
from bert_tf.export import loaded_model
from bert_tf.heads.regression import Regression


class Export:
    head = Regression
    inputs, labels, batch_size = {"text_a": None}, (), 32

    def __init__(self, folder):
        pass

    def predict(self, examples):
        return {"values": [len(example.texts[0]) / 3 for example in examples]}


loaded_model.on_strings = Export
sys.exit(main.main(sys.argv[1:]))
"""


def endless(folder, *flags):
    """The command in a process of its own, which starts at once, at work on what does not end."""
    (folder / "saved_model.pb").write_bytes(b"")
    command = [sys.executable, "-c", WITHOUT_TENSORFLOW, "predict", str(folder), "--file=-", *flags]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, **pipes)


def test_closed_pipe_ends_quietly(tmp_path):
    with endless(tmp_path) as piped:
        piped.stdin.write(b"123\n" * 20000)
        piped.stdin.close()
        assert piped.stdout.readline() == b"1.000\t123\n"
        piped.stdout.close()
        assert (piped.wait(60), piped.stderr.read()) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_ends_with_one_line_and_no_partial_files(tmp_path, number, code):
    output = tmp_path / "b.tsv"
    with endless(tmp_path, f"--output={output}") as stopped:
        stopped.stdin.write(b"123\n" * 5000)  # more than a window, and more to come
        stopped.stdin.flush()
        deadline = time.monotonic() + 60
        while not pathlib.Path(f"{output}.partial").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        stopped.send_signal(number)
        assert (stopped.wait(60), stopped.stdout.read()) == (code, b"")
        assert stopped.stderr.read() == b"bert-tf: interrupted; no partial files were left.\n"
        with contextlib.suppress(BrokenPipeError):
            stopped.stdin.close()
    assert os.listdir(tmp_path) == ["saved_model.pb"]

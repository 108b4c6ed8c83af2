"""The command line itself: its version, unknown commands, and how failures end."""

import faults
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.cli import main
from bert_tf.cli.commands import report
from bert_tf.config import entry_point
from bert_tf.config.options import Options

ABORTED = "Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks are unhealthy"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cuont", "There is no command 'cuont'. Did you mean convert? Known: ablate, "),
        ("json.tool", "There is no command 'json.tool'. Known: ablate, "),
    ],
)
def test_invalid_command_is_refused_in_one_line(name, expected, capsys):
    assert main.main([name]) == 2
    stderr = capsys.readouterr().err
    assert stderr.startswith(f"bert-tf: {expected}") and stderr.count("\n") == 1


@pytest.mark.parametrize("kind", [MemoryError, type("ResourceExhaustedError", (Exception,), {})])
def test_memory_that_runs_out_is_one_sentence(kind, capsys):
    with faults.on_call(report, "run", kind("OOM")):
        assert main.main(["report", "a"]) == 1
    assert capsys.readouterr().err == "bert-tf: memory ran out (OOM): lower batch_size, or add memory.\n"


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main.main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"bert-tf {bert_tf.__version__}\n")


def raised_by(operation):
    """The error of TensorFlow that a function raises."""
    with pytest.raises(tf.errors.OpError) as caught:
        operation()
    return caught.value


@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (lambda folder: raised_by(lambda: tf.io.read_file(f"{folder}/none")), 2, "none cannot be used (No such"),
        (lambda folder: raised_by(lambda: tf.io.read_file(str(folder))), 2, "Is a directory"),
        (lambda folder: raised_by(lambda: tf.io.write_file(f"{folder}/a/b", "")), 2, "(Not a directory"),
        (lambda folder: raised_by(lambda: next(iter(tf.data.TFRecordDataset(f"{folder}/a")))), 2, "is damaged or cut"),
        (
            lambda _: UnicodeEncodeError("utf-8", "a\udcff.csv", 1, 2, "surrogates not allowed"),
            2,
            r"'a\udcff.csv' is not UTF-8",
        ),
        (lambda _: tf.errors.ResourceExhaustedError(None, None, "x/y; No space left on device"), 1, "no space left"),
        (lambda _: tf.errors.ResourceExhaustedError(None, None, "OOM when allocating [9]"), 1, "memory ran out (OOM"),
        (lambda _: tf.errors.PermissionDeniedError(None, None, "x/y; Permission denied"), 2, "x/y cannot be used ("),
        (
            lambda _: tf.errors.UnavailableError(None, None, f"Graph error:\n{ABORTED}"),
            1,
            "another worker of this job has ended: start the same command again on all machines to continue.",
        ),
        (lambda _: tf.errors.UnavailableError(None, None, "Socket closed"), 1, "does not answer (Socket closed)"),
        (lambda _: tf.errors.UnknownError(None, None, "x/y; Input/output error"), 1, "x/y could not be read"),
    ],
)
def test_errors_of_tensorflow_that_are_no_bugs_are_one_line(make, code, says, tmp_path, capsys):
    (tmp_path / "a").write_bytes(b"no records at all")
    error = make(tmp_path)

    def fail(_):
        raise error

    with faults.on_call(report, "run", error):
        assert main.main(["report", "a"]) == code
    stderr = capsys.readouterr().err
    assert says in stderr and stderr.count("\n") == 1 and "{{" not in stderr
    with pytest.raises(SystemExit) as ended:
        entry_point._call(Options, fail)
    assert ended.value.code == code and says in capsys.readouterr().err


def test_bugs_keep_their_traceback():
    def fail(_):
        tf.constant([1, 2]) + tf.constant([1, 2, 3])

    with faults.on_call(report, "run", fail), pytest.raises(tf.errors.InvalidArgumentError):
        main.main(["report", "a"])


def test_name_that_is_not_utf8_is_one_sentence(capsys):
    with faults.on_call(report, "run", lambda _: "caf\udce9/model".encode()):
        assert main.main(["report", "a"]) == 2
    assert (
        capsys.readouterr().err
        == "bert-tf: 'caf\\udce9/model' is not UTF-8 text: rename the file, folder or label, or correct the text.\n"
    )

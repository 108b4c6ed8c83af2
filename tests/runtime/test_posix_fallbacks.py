"""What Windows lacks: modules and functions of POSIX are used only if there is something instead."""

import contextlib
import ctypes
import math
import pathlib
import re
import signal
import sys

import faults
import pytest

import bert_tf
from bert_tf.cli import main
from bert_tf.cli.commands import report
from bert_tf.config import entry_point
from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files, folder_lock, process
from bert_tf.text import text_kernels

PACKAGE = pathlib.Path(bert_tf.__file__).parent
# Modules and functions of POSIX alone. sched_* and fcntl are used where they are there.
POSIX = re.compile(
    r"^(import|from) (fcntl|grp|pty|pwd|resource|syslog|termios)\b"
    r"|\bos\.(fork|forkpty|geteuid|getpgid|getuid|kill|killpg|mkfifo|nice|setsid|statvfs|sync|sysconf|uname|O_DIRECTORY)\b"
    r"|\bsignal\.(SIGHUP|SIGKILL|SIGPIPE|SIGUSR1|SIGUSR2|alarm|pause)\b|['\"]/tmp\b",
    re.MULTILINE,
)


@pytest.fixture
def windows(monkeypatch):
    """A process without what Windows lacks."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.delattr(signal, "SIGPIPE")

    missing = TypeError("LoadLibrary() argument 1 must be str, not None")
    with faults.on_call(ctypes, "CDLL", missing):
        yield


def test_no_module_needs_posix():
    found = [f"{path}: {match[0]}" for path in PACKAGE.rglob("*.py") for match in POSIX.finditer(path.read_text())]
    assert not found
    assert POSIX.search("import fcntl") and POSIX.search("x = signal.SIGKILL") and POSIX.search("    os.kill(1, 2)")


def test_folders_are_written_and_locked_without_posix(windows, tmp_path):
    process.keep_freed_memory()
    assert process.most_open_files() == math.inf
    lock = folder_lock.acquire(tmp_path)
    atomic_files.write_json(tmp_path / "a.json", {})
    with folder_lock.locked(tmp_path, "in use"):
        with atomic_files.atomic_folder(tmp_path / "b") as partial:
            pathlib.Path(partial, "c").touch()
        with atomic_files.atomic_folder(tmp_path / "b", overwrite=True) as partial:
            pathlib.Path(partial, "d").touch()
    lock.release()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.json", "b", "d"]


def test_closed_pipe_needs_no_signal(windows, tmp_path):
    error = BrokenPipeError()
    with open(tmp_path / "out", "w") as out, contextlib.redirect_stdout(out):
        with faults.on_call(report, "run", error):
            assert main.main(["report", "a"]) == 141
        with faults.on_call(entry_point, "read", error), pytest.raises(SystemExit) as ended:
            entry_point._call(object, print)
    assert ended.value.code == 141


def test_missing_tensorflow_text_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(UserError, match="tensorflow-text, which splits texts into tokens, is not installed"):
        text_kernels.tf_text.normalize_utf8(["a"])

"""What a program that imports bert_tf sees: its process stays as it was."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import ctypes, json, logging, os, signal, sys

def state():
    handlers = {str(number): str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)}
    root = logging.getLogger()
    loggers = [root.level, len(root.handlers), len(logging.getLogger("bert_tf").handlers)]
    return {"stderr": os.fstat(2).st_ino, "environment": dict(os.environ), "signals": handlers, "logging": loggers,
            "folder": os.getcwd(), "path": sys.path, "arguments": sys.argv}

import tensorflow, keras  # their own doing is not ours
redirected, dup2 = [], os.dup2
os.dup2 = lambda *arguments, **options: redirected.append(arguments) or dup2(*arguments, **options)
from tensorflow.python.framework import ops
def no_mallopt(*arguments):
    raise AssertionError("the library changes the allocator")
load_library, ctypes.CDLL = ctypes.CDLL, lambda name, *more, **options: (
    no_mallopt() if name is None else load_library(name, *more, **options))

before = state()
import bert_tf
from bert_tf.config import entry_point
imported = state()
loaded = bert_tf.load(sys.argv[1])
from bert_tf.training import distribute
distribute.create_strategy("one_device")
after = state()
from absl import flags as absl_flags
print(json.dumps({"imported": before == imported, "used": before == after, "redirected": redirected,
                  "flags": sorted({"init_checkpoint", "precision"} & set(absl_flags.FLAGS)),
                  "model": type(loaded.model).__name__}))
"""


@pytest.mark.slow
def test_importing_loading_and_creating_a_strategy_have_no_side_effects(tmp_path):
    weights = tiny.random_weights(tiny.pretrainer()[0])
    formats.write(Checkpoint(config=tiny.CONFIG, weights=weights), str(tmp_path / "checkpoint"), "native")
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "checkpoint")],
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "imported": True, "used": True, "redirected": [], "flags": [], "model": "Pretrainer"
    }  # fmt: skip


@pytest.mark.slow
def test_a_program_that_loads_a_model_prints_none_of_tensorflows_messages(tmp_path):
    weights = tiny.random_weights(tiny.pretrainer()[0])
    formats.write(Checkpoint(config=tiny.CONFIG, weights=weights), str(tmp_path / "checkpoint"), "native")
    program = "import sys, numpy, bert_tf; print(len(bert_tf.load(sys.argv[1]).model(numpy.ones([1, 4], int))) > 0)"
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = [
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "checkpoint")],
            env={**environment, "PYTHONPATH": str(ROOT), **asked},
            capture_output=True,
            text=True,
            check=False,
        )
        for asked in ({}, {"TF_CPP_MIN_LOG_LEVEL": "0"})
    ]
    assert [each.returncode for each in done] == [0, 0], done[0].stderr
    assert (done[0].stdout, done[0].stderr) == ("True\n", "") and "tensorflow" in done[1].stderr.lower()

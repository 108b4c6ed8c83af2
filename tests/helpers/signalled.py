"""Runs the command line in a process that gets a signal at a given point.

    python signalled.py POINT[,POINT...] NUMBER COMMAND FLAGS

POINT: a function, as module:name or module:Class.name; the process gets the signal when it is called, before it runs.
With @N the N-th call counts.
"""

import functools
import importlib
import os
import signal
import sys

from bert_tf.cli import main
from bert_tf.runtime.tensorflow_startup import ensure_started, silence


def interrupt_at(point, number):
    """Replaces the function by one that first sends the signal."""
    path, _, count = point.partition("@")
    module, _, name = path.partition(":")
    owner = importlib.import_module(module)
    *outer, name = name.split(".")
    for each in outer:
        owner = getattr(owner, each)
    original, calls = getattr(owner, name), []

    @functools.wraps(original)
    def wrapped(*arguments, **options):
        calls.append(1)
        if len(calls) == int(count or 1):
            os.kill(os.getpid(), number)
        return original(*arguments, **options)

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    silence()
    ensure_started()
    for each in sys.argv[1].split(","):
        interrupt_at(each, int(sys.argv[2]))
    sys.exit(main.main(sys.argv[3:]))

"""Stop signals in processes of their own: an exception, a request, and the end of what does not end by itself."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from bert_tf.runtime import stop_signals

ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import hashlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which who is started in the background does not hear
from bert_tf.runtime import stop_signals
stop_signals.PATIENCE = 0.5
def ready():
    print("ready", flush=True)
"""
RAISED = """
with stop_signals.raised("test"):
    try:
        ready()
        time.sleep(20)
    except KeyboardInterrupt as stop:
        sys.exit(128 + stop.args[0])
"""
IN_EXTENSION = """
try:
    with stop_signals.raised("test"), stop_signals.raised("inner"):
        try:
            ready()
            time.sleep(20)
        except KeyboardInterrupt as stop:  # as in the initialization of a C extension
            raise ImportError("initialization failed") from stop
except KeyboardInterrupt as stop:
    sys.exit(128 + stop.args[0])
"""
SWALLOWED = """
class Deaf:
    def __del__(self):
        ready()
        time.sleep(20)
with stop_signals.raised("test"):
    deaf = Deaf()
    del deaf
    time.sleep(20)
"""
LONG_CALL = """
with stop_signals.raised("test"):
    try:
        ready()
    except KeyboardInterrupt:  # of a signal that came at once
        pass
    while True:
        try:
            hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000_000)  # for a minute, without a look at signals
        except KeyboardInterrupt:  # it came before that
            pass
"""
DEFERRED = """
with stop_signals.raised("test"):
    try:
        with stop_signals.deferred() as numbers:
            ready()
            time.sleep(1.5)  # longer than the patience
            print(*numbers, *stop_signals.requested(), flush=True)
    except KeyboardInterrupt as stop:
        sys.exit(128 + stop.args[0])
"""
UNDEFERRED = """
with stop_signals.raised("test"), stop_signals.deferred() as numbers:
    try:
        if EARLY:
            ready()
            while not numbers:
                time.sleep(0.01)
        with stop_signals.undeferred():
            ready() if not EARLY else None
            time.sleep(20)
    except KeyboardInterrupt as stop:
        print(*numbers, flush=True)
        sys.exit(128 + stop.args[0])
"""
REPEATED = """
with stop_signals.raised("test"), stop_signals.deferred() as numbers:
    ready()
    while not numbers:
        time.sleep(0.01)
    ready()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000_000)
"""
IN_LIBRARY = """
try:
    with stop_signals.deferred() as numbers:
        ready()
        while not numbers:
            time.sleep(0.01)
        ready()
        time.sleep(20)
except KeyboardInterrupt as stop:
    sys.exit(128 + stop.args[0])
"""
SAID = "test: ended at once ({}); run the same command again to continue.\n"


def started(program):
    command = [sys.executable, "-S", "-c", textwrap.dedent(BEGIN + program)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True, **pipes)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


@pytest.mark.parametrize("number", stop_signals.NUMBERS)
@pytest.mark.parametrize("program, error", [(RAISED, ""), (IN_EXTENSION, ""), (SWALLOWED, SAID), (LONG_CALL, SAID)])
def test_signal_ends_a_process_whatever_it_does(program, error, number):
    with started(program) as process:
        process.send_signal(number)
        assert process.wait(15) == 128 + number
        assert process.stderr.read().endswith(error.format(number.name))


def test_exit_code_stays_where_a_signal_arrives_in_executed_source(tmp_path):
    program = """
    import sys
    from bert_tf.runtime import stop_signals
    try:
        with stop_signals.raised("test"):
            exec("raise KeyboardInterrupt(15)")
    except KeyboardInterrupt as stop:
        sys.exit(128 + stop.args[0])
    """
    (tmp_path / "stopped.py").write_text(textwrap.dedent(program))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    assert subprocess.run([sys.executable, "-m", "stopped"], env=environment).returncode == 143


def test_deferred_signal_is_noted_and_raised_at_the_end():
    with started(DEFERRED) as process:
        process.send_signal(signal.SIGTERM)
        assert (process.wait(15), process.stdout.read()) == (143, "15 15\n")
        said = process.stderr.read()
        assert said == "test: stopping when the state is saved; send the signal again to end at once.\n"


@pytest.mark.parametrize("is_early", [True, False])
def test_signal_is_raised_in_a_part_that_leaves_nothing_to_save(is_early):
    with started(UNDEFERRED.replace("EARLY", str(is_early))) as process:
        process.send_signal(signal.SIGTERM)
        assert (process.wait(15), process.stdout.read(), process.stderr.read()) == (143, "15\n", "")


def test_second_signal_ends_at_once_even_where_the_first_is_deferred():
    with started(REPEATED) as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "ready\n"
        time.sleep(stop_signals.AGAIN + 0.1)
        process.send_signal(signal.SIGINT)
        assert (process.wait(15), process.stderr.read()) == (130, SAID.format("SIGINT"))


def test_second_signal_is_raised_in_a_program_that_trains():
    with started(IN_LIBRARY) as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(15), process.stderr.read()) == (130, "")


def test_handlers_are_as_before_afterwards():
    before = [signal.getsignal(number) for number in stop_signals.NUMBERS]
    with stop_signals.raised("test"), stop_signals.raised("nested"), stop_signals.deferred() as numbers:
        assert stop_signals.requested() is numbers
    assert [signal.getsignal(number) for number in stop_signals.NUMBERS] == before
    assert signal.set_wakeup_fd(-1) == -1 and stop_signals.requested() == ()

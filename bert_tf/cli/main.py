"""The console script `bert-tf`: one file in `commands/` is one sub-command.

A sub-command imports TensorFlow within `run` only, so that --help and a mistake are answered at once.
"""

import argparse
import ast
import contextlib
import importlib
import logging
import os
import pathlib
import signal
import sys

from bert_tf.cli import commands
from bert_tf.errors import UserError


def main(arguments=None):
    """Runs the sub-command that `arguments` (by default the command line's) name; returns the exit code.

    The user's mistakes end as one line on standard error and exit code 2.
    """
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    given = parser([_named(arguments)]).parse_args(arguments)
    try:
        with _stopped_by(signal.SIGTERM):
            given.run(given)
            sys.stdout.flush()
    except UserError as error:
        return _failed(error, error.exit_code)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor may Python's own last flush fail
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt as stopped:
        by = stopped.args[0] if stopped.args else signal.SIGINT
        return _failed("interrupted; nothing was left half-written.", 128 + by)
    except MemoryError:
        return _failed("memory ran out: use a machine with more of it.", 1)
    except OSError as error:
        if error.strerror is None:
            raise
        if error.filename is None:  # a full disk, for instance
            return _failed(f"the output could not be written ({error.strerror}): make room and try again.", 1)
        return _failed(f"{error.filename} cannot be used ({error.strerror}): give one that can be.", 2)
    return 0


@contextlib.contextmanager
def _stopped_by(number):
    """A signal ends what is within as Ctrl-C does, so that it can tidy up."""

    def stop(*_):
        raise KeyboardInterrupt(number)

    try:
        before = signal.signal(number, stop)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(number, before)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage that --help shows."""

    def error(self, message):
        self.exit(_failed(f"{message}. Try --help.", 2))


def parser(only=None):
    """The ArgumentParser of the console script, with every sub-command, or with the flags of those in `only` alone.

    Importing all of them takes longer than an answer should; what is left out has its summary.
    """
    made = _Parser(prog="bert-tf", description="Tools around BERT models.", allow_abbrev=False)
    subparsers = made.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, description in _descriptions().items():
        summary = description.splitlines()[0]
        command = subparsers.add_parser(name, help=summary, description=description, allow_abbrev=False)
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        if only is None or name in only:
            module = importlib.import_module(f"{commands.__name__}.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return made


def _named(arguments):
    """The sub-command of a command line: its first word that is no flag, or None."""
    words = sys.argv[1:] if arguments is None else arguments
    return next((word for word in words if not word.startswith("-")), None)


def _descriptions():
    """{name: description} of the sub-commands: what stands at the top of their files, read without importing them."""
    files = sorted(pathlib.Path(commands.__file__).parent.glob("[!_]*.py"))
    return {file.stem: ast.get_docstring(ast.parse(file.read_bytes()), clean=False) for file in files}


def _failed(message, code):
    print(f"bert-tf: {message}", file=sys.stderr, flush=True)
    return code

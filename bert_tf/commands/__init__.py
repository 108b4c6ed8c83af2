"""The console script `bert-tf`: one file here, one sub-command, with `add_arguments(parser)` and `run(arguments)`.

A sub-command imports TensorFlow within `run` only, so that --help and a mistake are answered at once.
"""

import argparse
import importlib
import logging
import pkgutil
import sys

from bert_tf.errors import UserError


def main(arguments=None):
    """Runs the sub-command that `arguments` (by default the command line's) name; returns the exit code.

    The user's mistakes end as one line on standard error and exit code 2.
    """
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    given = _parser().parse_args(arguments)
    try:
        given.run(given)
    except UserError as error:
        return _failed(error, error.exit_code)
    except KeyboardInterrupt:
        return _failed("interrupted; nothing was left half-written.", 130)
    except MemoryError:
        return _failed("memory ran out: use a machine with more of it.", 1)
    return 0


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage that --help shows."""

    def error(self, message):
        self.exit(_failed(f"{message}. Try --help.", 2))


def _parser():
    parser = _Parser(prog="bert-tf", description="Tools around BERT models.", allow_abbrev=False)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in _names():
        module = importlib.import_module(f"{__name__}.{name}")
        summary = module.__doc__.splitlines()[0]
        command = commands.add_parser(name, help=summary, description=module.__doc__, allow_abbrev=False)
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _names():
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def _failed(message, code):
    print(f"bert-tf: {message}", file=sys.stderr, flush=True)
    return code

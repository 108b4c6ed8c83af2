"""The command line, `bert-tf`: each module in `cli/commands/` and `extras/commands/` is a command.

A command imports TensorFlow only when it runs, so that --help and usage errors appear at once.
"""

import argparse
import itertools
import logging
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import bert_tf
from bert_tf.config import entry_point, flag_parsers, segments
from bert_tf.errors import UserError, meant
from bert_tf.runtime import plugins, tensorflow_startup, terminal

COMMANDS = "bert_tf.cli.commands"
NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number"}  # types of flags, in words


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command in `arguments` (default: `sys.argv[1:]`) and returns the exit code.

    User errors print one line to standard error and return exit code 2.
    """
    tensorflow_startup.silence()
    terminal.protect()
    words = list(sys.argv[1:] if arguments is None else arguments)
    return _fail(
        *entry_point.outcome(
            lambda: _run(words),
            "bert-tf",
            memory="lower batch_size, or add memory",
            interrupted="interrupted; no partial files were left.",
        )
    )


def is_recipe(command: ModuleType) -> bool:
    """Returns whether a command runs a recipe: absl parses its flags, as in the repository's run_*.py scripts."""
    return hasattr(command, "Flags")


def _run(words: list[str]) -> None:
    command = None
    if words and not words[0].startswith("-"):
        command = plugins.member(COMMANDS, words[0], kind="command")
        if is_recipe(command):
            sys.argv = ["bert-tf", *words]  # shown in error messages, --help and run.json
            entry_point.run(command.Flags, command.main, words[1:], command.__doc__)
            return
    handler = logging.StreamHandler()
    handler.setFormatter(terminal.Formatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    arguments = parser({} if command is None else {words[0]: command}).parse_args(words or ["--help"])
    try:
        chosen = getattr(arguments, "segments", None)
        with plugins.trusting(everything=getattr(arguments, "trust_code", False)), segments.choosing(chosen):
            arguments.run(arguments)
    except UserError as error:
        error.args = (entry_point.as_flags(str(error), vars(arguments)), *error.args[1:])
        raise


class _Parser(argparse.ArgumentParser):
    """Reports a usage error in one line, without printing the usage."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Like argparse, but reports an unknown flag before a missing argument."""
        if not any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in self._actions):
            for word in itertools.takewhile(lambda word: word != "--", args or ()):
                name = word.partition("=")[0]
                if name.startswith("--") and name not in self._option_string_actions:
                    known = meant(name, self._option_string_actions)
                    self.exit(_fail(f"There is no flag {name}.{known} Try --help.", 2))
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            self._refuse(action, value, f"one of {', '.join(map(str, action.choices))}")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in NUMBERS:
                raise
            self._refuse(action, arg_string, NUMBERS[action.type])

    def _refuse(self, action: argparse.Action, value: object, expected: str) -> NoReturn:
        named = f"{action.option_strings[0]}={value}" if action.option_strings else repr(value)
        self.exit(_fail(f"{named}: expected {expected}. Try --help.", 2))

    def error(self, message: str) -> NoReturn:
        self.exit(_fail(f"{message}. Try --help.", 2))


def parser(loaded: dict[str, ModuleType] | None = None) -> argparse.ArgumentParser:
    """Returns the parser with all commands; only those in `loaded` (default: all) have their flags.

    Importing every command would take too long for an error message.
    """
    names = plugins.names(COMMANDS)
    if loaded is None:
        loaded = {name: plugins.member(COMMANDS, name, kind="command") for name in names}
    top = _Parser(prog="bert-tf", description=bert_tf.__doc__.partition("\n")[0], allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"%(prog)s {bert_tf.__version__}")
    subparsers = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in names:
        module = loaded.get(name)
        description = (module.__doc__ if module else plugins.docstring(COMMANDS, name)) or name
        command = subparsers.add_parser(
            name,
            help=description.partition("\n")[0],
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if module and is_recipe(module):
            flag_parsers.add_arguments(command, module.Flags)
        elif module:
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    return top


def _fail(message: str, code: int) -> int:
    if message:
        print(terminal.printable(f"bert-tf: {message}"), file=sys.stderr, flush=True)
    return code

"""Commands that run a recipe: a module with the dataclass `Flags` and the function `main()`.

Their command line is parsed by absl, as it is by the scripts run_*.py of the repository.
"""

import argparse
import dataclasses
import sys
from types import ModuleType

from bert_tf.config import entry_point, flag_parsers, flags

BOOLEANS = ("true", "false")


def is_recipe(command: ModuleType) -> bool:
    """Whether a command runs a recipe, rather than parsing its arguments with argparse."""
    return hasattr(command, "Flags")


def run(command: ModuleType, words: list[str]) -> None:
    """Runs the recipe with the flags after its name; exits as the recipe does."""
    sys.argv = ["bert-tf", *words]  # what error messages, --help and run.json show
    flags.define(command.Flags)
    entry_point.run(command.main, words[1:], command.__doc__)


def add_arguments(parser: argparse.ArgumentParser, kind: type) -> None:
    """Adds the flags of a dataclass to a parser, for shell completion only."""
    for field in dataclasses.fields(kind):
        if "help" not in field.metadata:
            continue
        choices = BOOLEANS if field.type is bool else flag_parsers.choices_of(field.metadata) or None
        help = field.metadata["help"].replace("%", "%%")
        parser.add_argument(f"--{field.name}", choices=choices, help=help)

"""Commands that run a recipe: a module with the dataclass `Flags` and the function `main()`.

Their command line is parsed by absl, as it is by the scripts run_*.py of the repository.
"""

import argparse
import sys
from types import ModuleType

from bert_tf.config import entry_point, options

BOOLEANS = ("true", "false")


def is_recipe(command: ModuleType) -> bool:
    """Whether a command runs a recipe, rather than parsing its arguments with argparse."""
    return hasattr(command, "Flags")


def run(command: ModuleType, words: list[str]) -> None:
    """Runs the recipe with the flags after its name; exits as the recipe does."""
    sys.argv = ["bert-tf", *words]  # what error messages, --help and run.json show
    entry_point.run(command.Flags, command.main, words[1:], command.__doc__)


def add_arguments(parser: argparse.ArgumentParser, kind: type) -> None:
    """Adds the flags of a dataclass to a parser, for shell completion only."""
    for name, field in options.fields_of(kind).items():
        choices = BOOLEANS if field.type is bool else options.choices_of(field.metadata) or None
        parser.add_argument(f"--{name}", choices=choices, help=field.metadata["help"].replace("%", "%%"))

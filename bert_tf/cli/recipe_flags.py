"""Commands that run a recipe: a module with the dataclass `Flags` and the function `main()`.

Their command line is parsed by absl, as in the repository's run_*.py scripts.
"""

import argparse
import sys
from collections.abc import Collection
from types import ModuleType

from bert_tf.config import entry_point, options

BOOLEANS = ("true", "false")


def is_recipe(command: ModuleType) -> bool:
    """Returns whether a command runs a recipe instead of parsing its arguments with argparse."""
    return hasattr(command, "Flags")


def run(command: ModuleType, words: list[str]) -> None:
    """Runs the recipe with the flags after its name; exits like the recipe."""
    sys.argv = ["bert-tf", *words]  # shown in error messages, --help and run.json
    entry_point.run(command.Flags, command.main, words[1:], command.__doc__)


def add_arguments(parser: argparse.ArgumentParser, kind: type, names: Collection[str] | None = None) -> None:
    """Adds the flags of a dataclass, or only those in `names`, to a command's parser; booleans are BOOLEANS."""
    for name, field in options.fields_of(kind).items():
        if names is not None and name not in names:
            continue
        is_word, help = field.type is bool, field.metadata["help"].replace("%", "%%")
        default = str(field.default).lower() if is_word else field.default
        parser.add_argument(
            f"--{name}",
            type=field.type if field.type in (int, float) else str,
            default=default,
            choices=BOOLEANS if is_word else options.choices_of(field.metadata) or None,
            help=help if default in ("", None) else f"{help.partition(' Default:')[0]} ({default})",
        )

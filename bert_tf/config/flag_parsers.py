"""Flags of dataclasses for absl and argparse: parsers for choices, and for finite numbers or words for them."""

import argparse
import math
from collections.abc import Collection, Mapping
from typing import Any

from absl import flags as absl_flags

from bert_tf.config.options import choices_of, fields_of
from bert_tf.runtime import plugins

BOOLEANS = ("true", "false")  # of argparse


def comma_separated(text: str | None) -> list[str]:
    """The parts of a flag, stripped, without empty ones.

    comma_separated("a, b,")  ->  ["a", "b"]
    """
    return [part.strip() for part in (text or "").split(",") if part.strip()]


class ChoiceFlag(absl_flags.EnumFlag):
    """A flag with choices; plugins may also be modules in other packages."""

    def __init__(self, name: str, default: str, metadata: Mapping[str, Any]) -> None:
        super().__init__(name, default, metadata["help"], choices_of(metadata))
        is_open = metadata["names_code"]
        self.parser = ChoiceParser(self.parser.enum_values, is_open=is_open)


class ChoiceParser(absl_flags.EnumParser):
    """The parser of a ChoiceFlag."""

    def __init__(self, values: Collection[str], *, is_open: bool) -> None:
        super().__init__(values)
        self.is_open = is_open

    def parse(self, argument: str) -> str:
        """Returns the value for an argument."""
        if self.is_open and "." in argument and plugins.find_outside(argument):
            return argument
        return super().parse(argument)

    @property
    def expected(self) -> str:
        """Accepted values, for error messages."""
        own = ", or a module of your own such as my_lab.my_module" if self.is_open else ""
        return f"one of {', '.join(filter(None, self.enum_values))}{own}"


class NumberOrWord:
    """A mixin for number parsers that also accept certain words."""

    number: str

    def __init__(self, words: Mapping[str, float]) -> None:
        super().__init__()
        self.words = words

    def parse(self, argument: Any) -> Any:
        """Returns the value for an argument."""
        return super().parse(self.words.get(str(argument), argument))  # type: ignore[misc]

    @property
    def expected(self) -> str:
        """Accepted values, for error messages."""
        *first, last = (self.number, *self.words)
        return " or ".join(filter(None, (", ".join(first), last)))


class IntegerOrWord(NumberOrWord, absl_flags.IntegerParser):
    """The parser of an integer flag."""

    number = "a whole number"


class FloatOrWord(NumberOrWord, absl_flags.FloatParser):
    """The parser of a float flag."""

    number = "a finite number"

    def parse(self, argument: Any) -> float:
        return finite(super().parse(argument))


def finite(value: Any) -> float:
    """Converts to float; ValueError for non-numbers, infinities and NaN, which passes comparisons with bounds."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not finite.")
    return number


def positive(value: str) -> float:
    """Like `finite`, for numbers above 0; for argparse, whose error is then "invalid positive value"."""
    number = finite(value)
    if number <= 0:
        raise ValueError(f"{value} is not above 0.")
    return number


def add_arguments(parser: argparse.ArgumentParser, kind: type, names: Collection[str] | None = None) -> None:
    """Adds the flags of a dataclass, or only those in `names`, to a command's parser; booleans are BOOLEANS."""
    for name, field in fields_of(kind).items():
        if names is not None and name not in names:
            continue
        is_word, help = field.type is bool, field.metadata["help"].replace("%", "%%")
        default = str(field.default).lower() if is_word else field.default
        parser.add_argument(
            f"--{name}",
            type=field.type if field.type in (int, float) else str,
            default=default,
            choices=BOOLEANS if is_word else choices_of(field.metadata) or None,
            help=help if default in ("", None) else f"{help.partition(' Default:')[0]} ({default})",
        )

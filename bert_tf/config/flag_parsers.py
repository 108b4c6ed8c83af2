"""Parsers for flags with choices, and for numbers: finite ones, and words that stand for them."""

import math
from collections.abc import Collection, Mapping
from typing import Any

from absl import flags as absl_flags

from bert_tf.config.options import choices_of
from bert_tf.runtime import plugins


def comma_separated(text: str | None) -> list[str]:
    """The parts of a flag without the spaces around them and without empty ones.

    comma_separated("a, b,")  ->  ["a", "b"]
    """
    return [part.strip() for part in (text or "").split(",") if part.strip()]


class ChoiceFlag(absl_flags.EnumFlag):
    """A flag with choices, and modules from outside if they are plugins."""

    def __init__(self, name: str, default: str, metadata: Mapping[str, Any]) -> None:
        super().__init__(name, default, metadata["help"], choices_of(metadata))
        is_open = metadata["names_code"]
        self.parser = ChoiceParser(self.parser.enum_values, is_open=is_open)


class ChoiceParser(absl_flags.EnumParser):
    """The parser of such a flag."""

    def __init__(self, values: Collection[str], *, is_open: bool) -> None:
        super().__init__(values)
        self.is_open = is_open

    def parse(self, argument: str) -> str:
        """The value that the argument stands for."""
        if self.is_open and "." in argument and plugins.find_outside(argument):
            return argument
        return super().parse(argument)

    @property
    def expected(self) -> str:
        """Accepted values, for error messages."""
        own = ", or a module of your own such as my_lab.my_module" if self.is_open else ""
        return f"one of {', '.join(filter(None, self.enum_values))}{own}"


class NumberOrWord:
    """A mixin for parsers of numbers: some of them have words that stand for them."""

    number: str

    def __init__(self, words: Mapping[str, float]) -> None:
        super().__init__()
        self.words = words

    def parse(self, argument: Any) -> Any:
        """The value that the argument stands for."""
        return super().parse(self.words.get(str(argument), argument))  # type: ignore[misc]

    @property
    def expected(self) -> str:
        """Accepted values, for error messages."""
        *first, last = (self.number, *self.words)
        return " or ".join(filter(None, (", ".join(first), last)))


class IntegerOrWord(NumberOrWord, absl_flags.IntegerParser):
    """The parser of a flag of whole numbers."""

    number = "a whole number"


class FloatOrWord(NumberOrWord, absl_flags.FloatParser):
    """The parser of a flag of numbers."""

    number = "a finite number"

    def parse(self, argument: Any) -> float:
        return finite(super().parse(argument))


def finite(value: Any) -> float:
    """The value as a number; ValueError for NaN, which passes comparisons with bounds, infinities and what is none."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not finite.")
    return number


def positive(value: str) -> float:
    """The same for numbers above 0; for argparse, whose error then says "invalid positive value"."""
    number = finite(value)
    if number <= 0:
        raise ValueError(f"{value} is not above 0.")
    return number

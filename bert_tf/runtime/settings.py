"""Settings in third-party JSON files: one reader that checks types and ranges.

Example:
    >>> values = Settings({"r": 4, "scale": {"alpha": "x"}}, "adapter.json")
    >>> values.value("r", whole(1))
    4
    >>> values.inside("scale").value("alpha", number(0))
    Traceback (most recent call last):
    bert_tf.errors.UserError: adapter.json: scale.alpha is 'x'; expected a number, 0 or more.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, overload

from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.json_files import require_json

MAX_WHOLE = 2**31 - 1  # int32, used by TensorFlow for counting
MAX_SEED = 2_000_000_000  # TensorFlow takes 32 bits, and some seeds are the run's seed plus an offset
MAX_NUMBER = (2 - 2**-23) * 2.0**127  # the largest float32
MAX_SHOWN = 60  # characters of a wrong value in an error

Value = TypeVar("Value")
ValueOfKind = TypeVar("ValueOfKind", covariant=True)


@dataclasses.dataclass(frozen=True)
class Kind(Generic[ValueOfKind]):
    """A kind of value: the end of the sentence "expected ...", and a test for values."""

    expected: str
    holds: Callable[[Any], bool]


FLAG: Kind[bool] = Kind("true or false", lambda value: isinstance(value, bool))
TEXT: Kind[str] = Kind("a text", lambda value: isinstance(value, str))
LIST: Kind[list[Any]] = Kind("a list", lambda value: isinstance(value, list))
OBJECT: Kind[dict[str, Any]] = Kind("an object", lambda value: isinstance(value, dict))


def whole(least: int = -MAX_WHOLE, most: int = MAX_WHOLE) -> Kind[int]:
    """A whole number in a range; True and False are not numbers."""
    return Kind(
        f"a whole number from {least:,} to {most:,}" if least > -MAX_WHOLE else "a whole number",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
    )


def number(least: float = -MAX_NUMBER, most: float = MAX_NUMBER, *, above: float | None = None) -> Kind[float]:
    """A number in a range that float32 can represent; `above` is an exclusive lower limit."""
    limit = f" above {above:g}" if above is not None else f", {least:g} or more" if least > -MAX_NUMBER else ""
    limit += f"{' and' * bool(limit)} up to {most:g}" if most < MAX_NUMBER else ""
    return Kind(
        f"a number{limit}",
        lambda value: is_number(value) and least <= value <= most and (above is None or value > above),
    )


def is_number(value: Any) -> bool:
    """Returns whether a value is a number that float32 can represent."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER


def one_of(*values: Value) -> Kind[Value]:
    """One of some values of the same type."""
    return Kind(
        f"one of {', '.join(map(str, values))}", lambda value: type(value) is type(values[0]) and value in values
    )


def optional(kind: Kind[Value]) -> Kind[Value | None]:
    """A value of a kind, or none."""
    return Kind(f"{kind.expected}, or null", lambda value: value is None or kind.holds(value))


def list_of(kind: Kind[Value], plural: str) -> Kind[list[Value]]:
    """A list of values of one kind; plural: their name."""
    return Kind(f"a list of {plural}", lambda value: isinstance(value, list) and all(map(kind.holds, value)))


def map_of(kind: Kind[Value], plural: str) -> Kind[dict[str, Value]]:
    """An object with values of one kind; plural: their name."""
    return Kind(
        f"an object of {plural}", lambda value: isinstance(value, dict) and all(map(kind.holds, value.values()))
    )


TEXTS = list_of(TEXT, "texts")
OBJECTS = list_of(OBJECT, "objects")


def check(source: object, name: str, value: Any, kind: Kind[Value]) -> Value:
    """The value; UserError unless it is of the kind."""
    if not kind.holds(value):
        raise UserError(f"{source}: {name} is {shortened(value)}; expected {kind.expected}.")
    checked: Value = value
    return checked


class Settings(dict[str, Any]):
    """An object in a file, with file name and place for errors."""

    def __init__(self, values: Mapping[str, Any], source: object, place: str = "") -> None:
        super().__init__(values)
        self.source, self.place = source, place

    @overload
    def value(self, name: str, kind: Kind[Value], default: Value) -> Value: ...

    @overload
    def value(self, name: str, kind: Kind[Value], default: None = None) -> Value | None: ...

    def value(self, name: str, kind: Kind[Value], default: Value | None = None) -> Value | None:
        """A value, or the default if it is missing or null; UserError for a different kind of value."""
        value = self.get(name)
        return default if value is None else check(self.source, self.place + name, value, kind)

    def inside(self, name: str) -> "Settings":
        """The object with this name, empty if it is missing or null."""
        return Settings(self.value(name, OBJECT, {}), self.source, f"{self.place}{name}.")

    def each(self, name: str) -> list["Settings"]:
        """The objects in the list with this name."""
        values = enumerate(self.value(name, OBJECTS, []))
        return [Settings(value, self.source, f"{self.place}{name}[{number}].") for number, value in values]


def read_settings(path: files.StrPath) -> Settings:
    """The object in a JSON file, empty if there is no file; UserError if the file contains anything else."""
    return Settings(require_json(path, "a JSON object; fetch it again") if files.exists(path) else {}, path)


def shortened(value: Any) -> str:
    """A value for an error message, shortened if too long."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."

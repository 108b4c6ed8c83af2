"""Command-line flags declared as dataclass fields.

@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    width: int = flag(4, "Width in metres.", aliases=("breadth",))

flags.define(Size)       # --width=4
entry_point.run(main)    # main() calls flags.read(Size)
"""

import contextlib
import contextvars
import dataclasses
import difflib
import math
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

from absl import flags as absl_flags

from bert_tf.config import flag_parsers, parity
from bert_tf.errors import UserError
from bert_tf.runtime import open_set

DEFINERS: dict[Any, Callable[..., Any]] = {
    bool: absl_flags.DEFINE_bool,
    int: absl_flags.DEFINE_integer,
    str: absl_flags.DEFINE_string,
}
TRUST = "trust_code"  # the flag
TYPES: dict[Any, str] = {bool: "True or False", int: "a whole number", float: "a finite number", str: "a string"}

Options = TypeVar("Options")
Given = Mapping[str, Any] | None  # {flag: value} of a program; None: the command line counts
_instead_of_command_line: contextvars.ContextVar[Given] = contextvars.ContextVar("flags", default=None)
defined_kinds: list[type] = []  # the dataclasses that `define` was called with; flags belong to the process


def flag(
    default: Any,
    help: str,
    choices: Collection[str] | None = None,
    *,
    members_of: str | None = None,
    aliases: tuple[str, ...] = (),
    old_values: Mapping[str, str] | None = None,
    words: Mapping[str, float] | None = None,
    names_code: bool = False,
    earlier_default: Any = None,
) -> Any:
    """Returns a dataclass field that `define` makes a flag of.

    choices: the values it may have. members_of: a package whose modules are further choices (`runtime.open_set`), as is
    any dotted name of a module elsewhere. aliases: earlier names of the flag; old_values: {earlier value: its name
    now}. Both are still accepted. earlier_default: that of earlier versions, with which their runs are continued.
    words: {word: the number it stands for}, for flags of numbers. names_code: a value may name a module elsewhere, as
    with members_of.
    """
    metadata: dict[str, Any] = {"help": help, "choices": choices, "members_of": members_of}
    metadata |= {"aliases": aliases, "old_values": old_values or {}, "earlier_default": earlier_default}
    metadata |= {"words": words or {}, "names_code": names_code or members_of is not None}
    return dataclasses.field(default=default, metadata=metadata)


def changed(kind: type, name: str, default: Any = dataclasses.MISSING, **metadata: Any) -> Any:
    """Returns the field `name` of an inherited dataclass with another default, help or choices."""
    field = fields_of(kind)[name]
    default = field.default if default is dataclasses.MISSING else default
    return dataclasses.field(default=default, metadata={**field.metadata, **metadata, "changes": kind})


def define(kind: type, **defaults: Any) -> None:
    """Defines a flag for each field of a dataclass that has help; `defaults` replace those of the dataclass."""
    owner = sys.argv[0]
    defined_kinds.append(kind)
    for name, field in fields_of(kind).items():
        default = defaults.get(name, field.default)
        if flag_parsers.choices_of(field.metadata):
            absl_flags.DEFINE_flag(flag_parsers.ChoiceFlag(name, default, field.metadata), module_name=owner)
        elif field.metadata["words"] or field.type in (float, float | None):
            kind_of_number = flag_parsers.IntegerOrWord if field.type is int else flag_parsers.FloatOrWord
            parser = kind_of_number(field.metadata["words"])
            serializer: Any = absl_flags.ArgumentSerializer()
            absl_flags.DEFINE(parser, name, default, field.metadata["help"], serializer=serializer, module_name=owner)
        else:
            DEFINERS[field.type](name, default, field.metadata["help"], module_name=owner)
        for alias in field.metadata["aliases"]:
            absl_flags.DEFINE_alias(alias, name, module_name=owner)


def fields_of(kind: type) -> dict[str, Any]:
    """{flag: its field} of a dataclass."""
    return {field.name: field for field in dataclasses.fields(kind) if "help" in field.metadata}


def read(kind: type[Options], instead: Mapping[str, Any] | None = None, **values: Any) -> Options:
    """Returns the dataclass with the values of the flags; `values` are for fields without flags.

    instead: {name: value}, defaults for flags that are not on the command line; those that `parity` sets come first.
    """
    instead, from_program = {**(instead or {}), **_set_by_parity(kind)}, _instead_of_command_line.get()
    for name, field in fields_of(kind).items():
        if name not in values:
            value = absl_flags.FLAGS[name].value if from_program is None else from_program.get(name, field.default)
            values[name] = value if is_given(name) else instead.get(name, value)
    return kind(**values)


def _set_by_parity(kind: type) -> dict[str, Any]:
    """{flag: value} that the flag `parity` sets."""
    return parity.values(value("parity") if is_given("parity") else "", fields_of(kind))


@contextlib.contextmanager
def given_by_program(kind: type, values: Mapping[str, Any]) -> Iterator[None]:
    """Lets `read` and `is_given` take these values instead of the command line, for recipes that a program calls.

    Raises UserError for a name that is no flag of the dataclass, and for a value of another type or not among its
    choices.
    """
    checked: dict[str, Any] = {}
    for name, value in values.items():
        checked |= _checked(kind, name, value)
    token = _instead_of_command_line.set(checked)
    try:
        with trusting_given(kind):
            yield
    finally:
        _instead_of_command_line.reset(token)


def trusting_given(*kinds: type) -> contextlib.AbstractContextManager[None]:
    """Lets files name the modules that given flags of these dataclasses name, or with the flag trust_code any."""
    named = [name for kind in kinds for name, field in fields_of(kind).items() if field.metadata["names_code"]]
    everything = is_given(TRUST) and bool(value(TRUST))
    return open_set.trusting(map(value, filter(is_given, named)), everything=everything)


def _checked(kind: type, name: str, value: Any) -> dict[str, Any]:
    """{name: value} under the names that flag and value have now."""
    fields = fields_of(kind)
    ((name, value),) = upgrade(kind, {name: value}).items()
    if name not in fields:
        close = difflib.get_close_matches(name, fields, n=3)
        meant = f" Did you mean {' or '.join(close)}?" if close else ""
        raise UserError(f"There is no option {name}.{meant}")
    field, choices = fields[name], flag_parsers.choices_of(fields[name].metadata)
    value = field.metadata["words"].get(value, value) if isinstance(value, str) else value
    expected = float if field.type == float | None else field.type
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    is_wrong = not isinstance(value, expected) or (expected is int and isinstance(value, bool))
    if is_wrong or (expected is float and not math.isfinite(value)):
        raise UserError(f"{name}={value!r} was given; expected {TYPES[expected]}.")
    is_outside = field.metadata["members_of"] and open_set.find_outside(str(value)) if "." in str(value) else False
    if choices and value not in choices and not is_outside:
        raise UserError(f"{name}={value!r} was given; expected one of {', '.join(filter(None, choices))}.")
    return {name: value}


def command() -> list[str]:
    """The command line as it was typed, for records; of a recipe that a program calls its name and the given values."""
    values = _instead_of_command_line.get()
    if values is None:
        return [os.path.basename(sys.argv[0]), *sys.argv[1:]]
    return ["bert_tf", *(f"--{name}={value}" for name, value in values.items())]


def value(name: str) -> Any:
    """The value of a flag that is on the command line."""
    from_program = _instead_of_command_line.get()
    return absl_flags.FLAGS[name].value if from_program is None else from_program[name]


def with_earlier_defaults(options: Options, recorded: Mapping[str, Any], computed: Collection[str] = ()) -> Options:
    """Returns the options to continue a run with, which an earlier version may have begun with other defaults.

    A flag that is not on the command line keeps the recorded value if that is the default of earlier versions, and has
    that default if the run was begun before the flag existed. `computed` flags, whose defaults depend on the data,
    keep the recorded value, too.
    """
    if not recorded:
        return options
    fields, by_parity = fields_of(type(options)), _set_by_parity(type(options))
    recorded = upgrade(type(options), recorded)
    kept = {
        name: field.metadata["earlier_default"]
        for name, field in fields.items()
        if field.metadata["earlier_default"] is not None
        and recorded.get(name, field.metadata["earlier_default"]) == field.metadata["earlier_default"]
        and not is_given(name)
        and name not in by_parity
    }
    kept |= {
        name: recorded[name] for name in computed if name in recorded and not is_given(name) and name not in by_parity
    }
    return dataclasses.replace(options, **kept)  # type: ignore[type-var]


def part(kind: type[Options], options: Any) -> Options:
    """Returns those of the options that are fields of another dataclass, as that dataclass."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(options, name) for name in names if hasattr(options, name)})


def upgrade(kind: type, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Returns {flag: value} that an earlier version recorded, under the names that flags and values have now."""
    fields = fields_of(kind)
    renamed = {alias: name for name, field in fields.items() for alias in field.metadata["aliases"]}
    values = {renamed.get(name, name): value for name, value in parity.upgrade(recorded).items()}
    for name in values.keys() & fields.keys():
        if isinstance(values[name], str):
            values[name] = fields[name].metadata["old_values"].get(values[name], values[name])
    return values


def is_given(name: str) -> bool:
    """Whether the flag, or an alias of it, is on the command line."""
    from_program = _instead_of_command_line.get()
    if from_program is not None:
        return name in from_program
    return name in absl_flags.FLAGS and absl_flags.FLAGS[name].present > 0


def are_given_by_program() -> bool:
    """Whether the recipe that runs was called by a program (`given_by_program`), not from the command line."""
    return _instead_of_command_line.get() is not None

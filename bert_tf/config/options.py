"""Options as values: frozen dataclasses whose fields are flags, grouped by the part of the code that reads them.

@dataclasses.dataclass(frozen=True, kw_only=True)
class Size(Group):
    width: int = flag(4, "Width in meters.", aliases=("breadth",), valid=POSITIVE)

@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags(Options):
    size: Size = group(Size)

Flags.of({"width": 5}).size.width  # 5
"""

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from bert_tf.config import parity
from bert_tf.errors import UserError, meant
from bert_tf.runtime import plugins

TYPES: dict[Any, str] = {bool: "True or False", int: "a whole number", float: "a finite number", str: "a string"}


class Range(NamedTuple):
    """The valid values of a flag: a test, and its wording in errors."""

    holds: Callable[[Any], bool]
    expected: str


OTHER_NAMES = {  # names in other libraries
    "lr": "learning_rate",
    "epochs": "num_train_epochs",
    "model": "init_checkpoint",
    "checkpoint": "init_checkpoint",
    "seed": "random_seed",
    "export": "do_export",
    "evaluate": "do_eval",
    "batch_size": "train_batch_size",
    "max_length": "max_seq_length",
    "gpu": "distribution_strategy",
    "gpus": "distribution_strategy",
    "device": "distribution_strategy",
}
POSITIVE = Range(lambda value: 0 < value < math.inf, "a number above 0")
COUNT = Range(lambda value: value >= 1, "a whole number above 0")
NOT_NEGATIVE = Range(lambda value: 0 <= value < math.inf, "0 or more")
PART = Range(lambda value: 0 <= value < 1, "0 or more, below 1, such as 0.5")
SHARE = Range(lambda value: 0 <= value <= 1, "0 to 1")


def flag(
    default: Any,
    help: str,
    choices: Collection[str] | None = None,
    *,
    members_of: str | None = None,
    aliases: tuple[str, ...] = (),
    words: Mapping[str, float] | None = None,
    names_code: bool = False,
    valid: Range | None = None,
    free: bool = False,
) -> Any:
    """Returns a dataclass field for a flag.

    choices: the allowed values. members_of: a package whose modules are additional choices (`runtime.plugins`), as is
    the dotted name of any other module. aliases: other names of the flag. words: {word: the number it represents},
    for numeric flags. names_code: a value may name a module elsewhere, as with members_of. valid: checked when the
    dataclass is created. free: may differ between two starts of a run, because it does not affect what is learned.
    """
    metadata: dict[str, Any] = {"help": help, "choices": choices, "members_of": members_of, "valid": valid}
    metadata |= {"aliases": aliases, "words": words or {}, "free": free}
    metadata |= {"names_code": names_code or members_of is not None}
    return dataclasses.field(default=default, metadata=metadata)


def changed(kind: type, name: str, default: Any = dataclasses.MISSING, **metadata: Any) -> Any:
    """Returns the field `name` of an inherited dataclass with a different default, help or choices."""
    field = fields_of(kind)[name]
    default = field.default if default is dataclasses.MISSING else default
    return dataclasses.field(default=default, metadata={**field.metadata, **metadata, "changes": kind})


def group(kind: "type[Group]") -> Any:
    """Returns a dataclass field for a nested dataclass of flags."""
    return dataclasses.field(default_factory=kind, metadata={"group": kind})


def groups_of(kind: type) -> dict[str, type]:
    """{field: its dataclass} for fields created by `group`."""
    return {each.name: each.metadata["group"] for each in dataclasses.fields(kind) if "group" in each.metadata}


def fields_of(kind: type) -> dict[str, Any]:
    """{flag: its field} of a dataclass and its groups."""
    flags = own_flags(kind)
    for each in groups_of(kind).values():
        flags |= fields_of(each)
    return flags


def own_flags(kind: type) -> dict[str, Any]:
    """{flag: its field} of a dataclass without its groups."""
    hidden = {name for each in getattr(kind, "HIDDEN", ()) for name in each.__annotations__}
    own = {field.name: field for field in dataclasses.fields(kind) if "help" in field.metadata}
    return {name: field for name, field in own.items() if name not in hidden}


def free_flags_of(kind: type) -> frozenset[str]:
    """The flags of a dataclass that may differ between two starts of a run."""
    return frozenset(name for name, field in fields_of(kind).items() if field.metadata["free"])


def choices_of(metadata: Mapping[str, Any]) -> list[str]:
    """Returns the allowed values of a flag, from the metadata of its field; [] if any value is allowed."""
    members = plugins.names(metadata["members_of"]) if metadata["members_of"] else []
    return [*(metadata["choices"] or ()), *members]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Base class of flag dataclasses: checks the ranges of their values.

    HIDDEN: inherited classes whose fields are not flags here.
    """

    HIDDEN: ClassVar[tuple[type, ...]] = ()

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            valid, value = field.metadata.get("valid"), getattr(self, field.name)
            if valid and not valid.holds(value):
                raise UserError(f"{field.name} is {value}; expected {valid.expected}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Group):
    """All options of a script or an API function.

    given: the names of options set by the user. command: the command line, or a program's call.
    from_program: whether a program set them. reasons: {flag: why it has its value} for flags chosen automatically,
    see `with_defaults`.
    POSITIONAL: the flag set by the first argument without a name. MOST_USED: flags that --help shows first.
    WITH_POSITIONAL: {flag: its default in words if the first argument is present}, shown by --help.
    """

    POSITIONAL: ClassVar[str] = ""
    MOST_USED: ClassVar[tuple[str, ...]] = ()
    WITH_POSITIONAL: ClassVar[Mapping[str, str]] = {}

    given: frozenset[str] = dataclasses.field(default=frozenset(), compare=False)
    command: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    from_program: bool = dataclasses.field(default=False, compare=False)
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)

    @classmethod
    def flags_of(cls, task_name: str) -> Collection[str]:
        """The flags of a task."""
        return fields_of(cls).keys()

    @classmethod
    def of(cls, values: Mapping[str, Any], **about: Any) -> Self:
        """The options with these {flag: value}, which count as given, and with the values set by the flag `parity`."""
        flags = parity.values(values.get("parity", ""), fields_of(cls)) | {**values}
        return dataclasses.replace(cls().replace(**flags), given=frozenset(values), **about)

    @classmethod
    def of_program(cls, values: Mapping[str, Any]) -> Self:
        """The options set by a program.

        Raises UserError for a name that is not a flag, and for a value of a wrong type or not among its choices.
        """
        checked = dict(_checked(cls, name, value) for name, value in values.items())
        command = ("bert_tf", *(f"--{name}={value}" for name, value in checked.items()))
        return cls.of(checked, command=command, from_program=True)

    def values(self) -> dict[str, Any]:
        """{flag: value} of all flags, as recorded in run.json."""
        parts = [self, *(getattr(self, name) for name in groups_of(type(self)))]
        return {name: getattr(part, name) for part in parts for name in own_flags(type(part))}

    def decisive(self) -> dict[str, Any]:
        """{flag: value} of those that must not differ between two starts of a run."""
        free = self.free_flags()
        return {name: value for name, value in self.values().items() if name not in free}

    def recorded(self) -> dict[str, Any]:
        """Arguments for `RunFolder.open`: the command and all flags."""
        return {"command": self.command, "flags": self.values()}

    def replace(self, **values: Any) -> Self:
        """The options with new values of these flags, which do not count as given."""
        changes: dict[str, Any] = {}
        for name, kind in groups_of(type(self)).items():
            own = {each: values.pop(each) for each in fields_of(kind).keys() & values.keys()}
            if own:
                changes[name] = dataclasses.replace(getattr(self, name), **own)
        return dataclasses.replace(self, **values, **changes)

    def decided(self, values: Mapping[str, Any], why: str | Mapping[str, str]) -> Self:
        """The options with these values, which do not count as given.

        why: the reason for all of them, or {flag: reason}.
        """
        reasons = why if isinstance(why, Mapping) else dict.fromkeys(values, why)
        return self.replace(**values, reasons={**self.reasons, **{name: reasons.get(name, "") for name in values}})

    def with_defaults(self, values: Mapping[str, Any], why: str | Mapping[str, str]) -> Self:
        """The options with new defaults, for flags that are neither given nor set by `parity`; others are ignored.

        why: see `decided`.
        """
        open_flags = fields_of(type(self)).keys() - self._chosen()
        return self.decided({name: value for name, value in values.items() if name in open_flags}, why)

    def _chosen(self) -> set[str]:
        """The flags given or set by `parity`."""
        flags = fields_of(type(self))
        return {*self.given, *parity.values(self.values().get("parity", ""), flags)}

    def free_flags(self) -> frozenset[str]:
        """Flags that may differ between two starts of a run."""
        return free_flags_of(type(self))

    def trusting(self) -> contextlib.AbstractContextManager[None]:
        """Allows files to name the modules named by given flags, or any module with the flag trust_code."""
        flags, values = fields_of(type(self)), self.values()
        named = [values[name] for name in self.given if flags[name].metadata["names_code"]]
        return plugins.trusting(named, everything=values.get("trust_code", False))


def meant_option(name: str, names: Collection[str], dashes: str = "") -> str:
    """`errors.meant` for option names, with `dashes` before each; also knows the names in other libraries."""
    known = OTHER_NAMES.get(name)
    shown = [f"{dashes}{each}" for each in names]
    return f" Did you mean {dashes}{known}?" if known in names else meant(f"{dashes}{name}", shown)


def check_recorded(kind: type, recorded: Mapping[str, Any], path: str) -> None:
    """Raises UserError if a flag recorded in a file has a value of the wrong type."""
    for name, field in fields_of(kind).items():
        value = recorded.get(name)
        is_listed = isinstance(value, list) and all(isinstance(each, str) for each in value)  # labels
        if value is not None and not is_listed and _type_of(field) in TYPES and not _is_right(field, value):
            raise UserError(f"{path}: flags.{name} is {value!r:.60}; expected {TYPES[_type_of(field)]}.")


def _type_of(field: Any) -> Any:
    return float if field.type == float | None else field.type


def _is_right(field: Any, value: Any) -> bool:
    """Returns whether a value has the type of a flag."""
    expected = _type_of(field)
    if isinstance(value, bool) or expected is bool:
        return isinstance(value, bool) and expected is bool
    if expected is float:
        return isinstance(value, int | float) and abs(value) < math.inf
    return isinstance(value, expected)


def _checked(kind: type, name: str, value: Any) -> tuple[str, Any]:
    """A flag and its value, checked, as set by a program."""
    fields = fields_of(kind)
    aliases = {alias: each for each, field in fields.items() for alias in field.metadata["aliases"]}
    name = aliases.get(name, name)
    if name not in fields:
        raise UserError(f"There is no option {name}.{meant_option(name, [*fields, *aliases])}")
    field, choices = fields[name], choices_of(fields[name].metadata)
    value = field.metadata["words"].get(value, value) if isinstance(value, str) else value
    if _type_of(field) is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not _is_right(field, value):
        raise UserError(f"{name}={value!r}: expected {TYPES[_type_of(field)]}.")
    is_outside = field.metadata["names_code"] and plugins.find_outside(str(value)) if "." in str(value) else False
    if choices and value not in choices and not is_outside:
        raise UserError(f"{name}={value!r}: expected one of {', '.join(filter(None, choices))}.")
    return name, value

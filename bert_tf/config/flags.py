"""Command-line flags declared as dataclass fields, and the frame of every script: one line and an exit code on errors.

@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    width: int = flag(4, "Width in metres.", aliases=("breadth",))

flags.define(Size)                   # --width=4
flags.run(main)                      # main() calls flags.read(Size)
"""

import contextlib
import contextvars
import dataclasses
import difflib
import logging
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn, TypeVar

from absl import flags as absl_flags

from bert_tf.config import parity
from bert_tf.errors import UserError, describe_failure
from bert_tf.runtime import open_set, process, tensorflow_startup

DEFINERS: dict[Any, Callable[..., Any]] = {
    bool: absl_flags.DEFINE_bool,
    int: absl_flags.DEFINE_integer,
    float: absl_flags.DEFINE_float,
    float | None: absl_flags.DEFINE_float,
    str: absl_flags.DEFINE_string,
}
HELP = frozenset(("-h", "-?", "-help", "--help", "-helpshort", "--helpshort"))

MORE_MEMORY = (
    "raise num_accumulation_steps or give auto, use gradient_checkpointing, or lower train_batch_size, eval_batch_size "
    "or max_seq_length"
)
HELP_WIDTH, HELP_INDENT = 100, " " * 6
TYPES: dict[Any, str] = {bool: "True or False", int: "a whole number", float: "a number", str: "a string"}
VALUE_NAMES = {"int": "N", "float": "X"}  # of flags, in --help

Options = TypeVar("Options")
Given = Mapping[str, Any] | None  # {flag: value} of a program; None: the command line counts
_instead_of_command_line: contextvars.ContextVar[Given] = contextvars.ContextVar("flags", default=None)
_defined: list[type] = []  # the dataclasses that `define` was called with; flags belong to the process


def flag(
    default: Any,
    help: str,
    choices: Collection[str] | None = None,
    *,
    members_of: str | None = None,
    aliases: tuple[str, ...] = (),
    old_values: Mapping[str, str] | None = None,
    words: Mapping[str, float] | None = None,
    earlier_default: Any = None,
) -> Any:
    """Returns a dataclass field that `define` makes a flag of.

    choices: the values it may have. members_of: a package whose modules are further choices (`runtime.open_set`), as is
    any dotted name of a module elsewhere. aliases: earlier names of the flag; old_values: {earlier value: its name
    now}. Both are still accepted. earlier_default: that of earlier versions, with which their runs are continued.
    words: {word: the number it stands for}, for flags of numbers.
    """
    metadata = {"help": help, "choices": choices, "members_of": members_of}
    metadata |= {"aliases": aliases, "old_values": old_values or {}, "earlier_default": earlier_default}
    metadata["words"] = words or {}
    return dataclasses.field(default=default, metadata=metadata)


def changed(kind: type, name: str, default: Any = dataclasses.MISSING, **metadata: Any) -> Any:
    """Returns the field `name` of an inherited dataclass with another default, help or choices."""
    field = _fields(kind)[name]
    default = field.default if default is dataclasses.MISSING else default
    return dataclasses.field(default=default, metadata={**field.metadata, **metadata, "changes": kind})


def define(kind: type, **defaults: Any) -> None:
    """Defines a flag for each field of a dataclass that has help; `defaults` replace those of the dataclass."""
    owner = sys.argv[0]
    _defined.append(kind)
    for name, field in _fields(kind).items():
        default = defaults.get(name, field.default)
        if choices_of(field.metadata):
            absl_flags.DEFINE_flag(_ChoiceFlag(name, default, field.metadata), module_name=owner)
        elif words := field.metadata["words"]:
            parser = (_FloatOrWord if field.type is float else _IntegerOrWord)(words)
            serializer: Any = absl_flags.ArgumentSerializer()
            absl_flags.DEFINE(parser, name, default, field.metadata["help"], serializer=serializer, module_name=owner)
        else:
            DEFINERS[field.type](name, default, field.metadata["help"], module_name=owner)
        for alias in field.metadata["aliases"]:
            absl_flags.DEFINE_alias(alias, name, module_name=owner)


def _fields(kind: type) -> dict[str, Any]:
    return {field.name: field for field in dataclasses.fields(kind) if "help" in field.metadata}


def choices_of(metadata: Mapping[str, Any]) -> list[str]:
    """Returns the values that a flag may have, from the metadata of its field; [] if any value may be given."""
    members = open_set.names(metadata["members_of"]) if metadata["members_of"] else []
    return [*(metadata["choices"] or ()), *members]


class _ChoiceFlag(absl_flags.EnumFlag):
    """A flag with choices, old names for some of them, and modules from outside if they come from an open set."""

    def __init__(self, name: str, default: str, metadata: Mapping[str, Any]) -> None:
        super().__init__(name, default, metadata["help"], choices_of(metadata))
        is_open = metadata["members_of"] is not None
        self.parser = _ChoiceParser(self.parser.enum_values, metadata["old_values"], is_open=is_open)


class _ChoiceParser(absl_flags.EnumParser):
    def __init__(self, values: Collection[str], old_values: Mapping[str, str], *, is_open: bool) -> None:
        super().__init__(values)
        self.old_values, self.is_open = old_values, is_open

    def parse(self, argument: str) -> str:
        if self.is_open and "." in argument and open_set.find_outside(argument):
            return argument
        return super().parse(self.old_values.get(argument, argument))

    @property
    def expected(self) -> str:
        own = ", or a module of your own such as my_lab.my_module" if self.is_open else ""
        return f"one of {', '.join(filter(None, self.enum_values))}{own}"


def read(kind: type[Options], instead: Mapping[str, Any] | None = None, **values: Any) -> Options:
    """Returns the dataclass with the values of the flags; `values` are for fields without flags.

    instead: {name: value}, defaults for flags that are not on the command line; those that `parity` sets come first.
    """
    instead, from_program = {**(instead or {}), **_set_by_parity(kind)}, _instead_of_command_line.get()
    for name, field in _fields(kind).items():
        if name not in values:
            value = absl_flags.FLAGS[name].value if from_program is None else from_program.get(name, field.default)
            values[name] = value if is_given(name) else instead.get(name, value)
    return kind(**values)


class _NumberOrWord:
    """A mixin for parsers of numbers: some of them have words that stand for them."""

    number: str

    def __init__(self, words: Mapping[str, float]) -> None:
        super().__init__()
        self.words = words

    def parse(self, argument: Any) -> Any:
        return super().parse(self.words.get(str(argument), argument))  # type: ignore[misc]

    @property
    def expected(self) -> str:
        *first, last = (self.number, *self.words)
        return f"{', '.join(first)} or {last}"


class _IntegerOrWord(_NumberOrWord, absl_flags.IntegerParser):
    number = "a whole number"


class _FloatOrWord(_NumberOrWord, absl_flags.FloatParser):
    number = "a number"


def _set_by_parity(kind: type) -> dict[str, Any]:
    """{flag: value} that the flag `parity` sets."""
    return parity.values(value("parity") if is_given("parity") else "", _fields(kind))


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
        yield
    finally:
        _instead_of_command_line.reset(token)


def _checked(kind: type, name: str, value: Any) -> dict[str, Any]:
    """{name: value} under the names that flag and value have now."""
    fields = _fields(kind)
    ((name, value),) = upgrade(kind, {name: value}).items()
    if name not in fields:
        close = difflib.get_close_matches(name, fields, n=3)
        meant = f" Did you mean {' or '.join(close)}?" if close else ""
        raise UserError(f"There is no option {name}.{meant}")
    field, choices = fields[name], choices_of(fields[name].metadata)
    value = field.metadata["words"].get(value, value) if isinstance(value, str) else value
    expected = float if field.type == float | None else field.type
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
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


def with_earlier_defaults(options: Options, recorded: Mapping[str, Any]) -> Options:
    """Returns the options to continue a run with, which an earlier version may have begun with other defaults.

    A flag that is not on the command line keeps the recorded value if that is the default of earlier versions, and has
    that default if the run was begun before the flag existed.
    """
    if not recorded:
        return options
    fields, by_parity = _fields(type(options)), _set_by_parity(type(options))
    recorded = upgrade(type(options), recorded)
    kept = {
        name: field.metadata["earlier_default"]
        for name, field in fields.items()
        if field.metadata["earlier_default"] is not None
        and recorded.get(name, field.metadata["earlier_default"]) == field.metadata["earlier_default"]
        and not is_given(name)
        and name not in by_parity
    }
    return dataclasses.replace(options, **kept)  # type: ignore[type-var]


def part(kind: type[Options], options: Any) -> Options:
    """Returns those of the options that are fields of another dataclass, as that dataclass."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(options, name) for name in names if hasattr(options, name)})


def upgrade(kind: type, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Returns {flag: value} that an earlier version recorded, under the names that flags and values have now."""
    fields = _fields(kind)
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


def run(main: Callable[[], None], arguments: Sequence[str] | None = None, description: str | None = None) -> None:
    """Parses the flags and calls `main()`; the user's mistakes end as one line on standard error and exit code 2.

    arguments: the flags, by default those of the command line. description: shown by --help, by default the docstring
    of the script.
    """
    from absl import app

    if arguments is None:
        arguments = sys.argv[1:]
    if HELP.intersection(arguments):
        _print_help(description or sys.modules["__main__"].__doc__ or "")
        return
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _terminate)
    _set_up_logging()
    process.keep_freed_memory()
    tensorflow_startup.silence()
    app.run(lambda _: _call(main), argv=[sys.argv[0], *arguments], flags_parser=_parse)


def _print_help(description: str) -> None:
    lines = [description.rstrip()]
    for kind in _defined:
        for title, names in _help_groups(kind).items():
            lines += ["", f"{title}:", *(_help_of(name, _fields(kind)[name].metadata["help"]) for name in names)]
    lines += ["", "--helpfull shows absl's own flags too, such as --flagfile."]
    try:
        print(*lines, sep="\n", flush=True)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python's flush at exit would fail


def _help_groups(kind: type) -> dict[str, list[str]]:
    """{title: flags}: those in MOST_USED of the dataclass, then those of each class it inherits, itself first."""
    most_used = list(getattr(kind, "MOST_USED", ()))
    groups = {"Flags used most": most_used, **{_title(owner): [] for owner in kind.__mro__}}
    for name, field in _fields(kind).items():
        if name not in most_used:
            groups[_title(_owner(kind, name, field))].append(name)
    return {title: names for title, names in groups.items() if names}


def _owner(kind: type, name: str, field: Any) -> type:
    """The class that declares a flag first."""
    owner: type = field.metadata.get("changes") or next(
        each for each in kind.__mro__ if name in each.__dict__.get("__annotations__", {})
    )
    return owner


def _title(kind: type) -> str:
    return (kind.__doc__ or "").partition("\n")[0].rstrip(".").replace("`", "")


def _help_of(name: str, text: str) -> str:
    """A flag with its choices, what it does, and its default."""
    known = absl_flags.FLAGS[name]
    if isinstance(known.value, bool):
        spelled = f"--[no]{name}"
    elif isinstance(known.parser, _ChoiceParser):
        spelled = f"--{name}=<{'|'.join(filter(None, known.parser.enum_values))}>"
    else:
        spelled = f"--{name}={VALUE_NAMES.get(known.parser.flag_type(), 'TEXT')}"
    value = str(known.value).lower() if isinstance(known.value, bool) else known.value
    value = next((word for word, number in _words_of(known).items() if number == value), value)
    text += "" if value in (None, "") else f" (default: {value})"
    lines = textwrap.wrap(text, HELP_WIDTH, initial_indent=HELP_INDENT, subsequent_indent=HELP_INDENT)
    return "\n".join([f"  {spelled}", *lines])


def _words_of(known: Any) -> Mapping[str, float]:
    return known.parser.words if isinstance(known.parser, _NumberOrWord) else {}


def _set_up_logging() -> None:
    """Shows our own log as bare lines; of the libraries' only errors."""
    from absl import logging as absl_logging

    log = logging.getLogger("bert_tf")
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    log.propagate = False
    absl_logging.set_verbosity(absl_logging.ERROR)


class _Terminated(KeyboardInterrupt):
    """SIGTERM; like Ctrl-C it passes through `except Exception`."""


def _terminate(signal_number: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def _call(main: Callable[[], None]) -> None:
    """Runs `main`; what the user or the machine causes ends as one line, a bug as a traceback."""
    try:
        main()
    except UserError as error:
        _fail(str(error), error.exit_code)
    except _Terminated:
        _fail("stopped by SIGTERM; run the same command again to continue.", 143)
    except KeyboardInterrupt:
        _fail("interrupted; run the same command again to continue.", 130)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python's flush at exit would fail
        sys.exit(process.PIPE_CLOSED)
    except Exception as error:
        failure = describe_failure(error, memory=MORE_MEMORY)
        if failure is None:
            raise
        _fail(*failure)


def _parse(arguments: list[str]) -> list[str]:
    try:
        rest = absl_flags.FLAGS(arguments)
    except absl_flags.Error as error:
        _fail(f"{_describe(str(error))} Try --help.", 2)
    positional = [kind.POSITIONAL for kind in _defined if hasattr(kind, "POSITIONAL")]
    if len(rest) == 2 and positional and "=" not in rest[1] and not is_given(positional[0]):
        absl_flags.FLAGS[positional[0]].parse(rest[1])
        return rest[:1]
    if len(rest) > 1:
        _fail(f"{rest[1]!r} is not a flag: flags begin with --, as in --name=value. Try --help.", 2)
    return rest


def _describe(error: str) -> str:
    """What absl says about a wrong flag, with the types in words."""
    match = re.match(r"flag --(\w+)=(.*?): ", error, re.DOTALL)
    if not match:
        return error if error.endswith(".") else f"{error.rstrip(' ?')}{'?' if error.endswith('?') else '.'}"
    name, value = match.groups()
    parser = absl_flags.FLAGS[name].parser
    types = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    expected = parser.expected if hasattr(parser, "expected") else types.get(parser.flag_type(), "another value")
    return f"--{name}={value} was given; expected {expected}."


def _fail(message: str, code: int) -> NoReturn:
    print(f"{os.path.basename(sys.argv[0])}: {message}", file=sys.stderr, flush=True)
    sys.exit(code)

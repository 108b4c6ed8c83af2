"""The frame of every script: flags, --help, and a one-line message with an exit code for user and machine errors.

This is the only module that reads the command line with absl; flags are stored in a dataclass of options
(`config.options`).
"""

import functools
import logging
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn, TypeVar

from absl import app
from absl import flags as absl_flags
from absl import logging as absl_logging

from bert_tf.config import flag_parsers
from bert_tf.config.flag_parsers import ChoiceParser, NumberOrWord
from bert_tf.config.options import Options, choices_of, fields_of, groups_of, meant_option, own_flags
from bert_tf.errors import UserError, describe_failure
from bert_tf.runtime import process, stop_signals, tensorflow_startup, terminal

HELP = frozenset(("-h", "-?", "-help", "--help", "-helpshort", "--helpshort"))
HELP_WIDTH, HELP_INDENT = 100, " " * 6
NAME = re.compile(r"`[^`]*`|(?<![\w/.'\"=-])[a-z]\w*(?![\w(])")  # leaves code unchanged
TOLD = ("pass ", "choose ", "another ", "lower ", "higher ", "more ", "as ")  # words before an option to pass
BOOLEANS = ("true", "false")  # absl takes them only in --name=true
VALUE_NAMES = {"int": "N", "float": "X"}  # for flags, in --help
MORE_MEMORY = (
    "raise num_accumulation_steps or pass auto, use gradient_checkpointing, or lower train_batch_size, eval_batch_size "
    "or max_seq_length"
)

DEFINERS: dict[Any, Callable[..., Any]] = {
    bool: absl_flags.DEFINE_bool,
    int: absl_flags.DEFINE_integer,
    str: absl_flags.DEFINE_string,
}
Kind = TypeVar("Kind", bound=Options)


def run(
    kind: type[Kind],
    main: Callable[[Kind], None],
    arguments: Sequence[str] | None = None,
    description: str | None = None,
) -> None:
    """Parses the flags of a dataclass and calls `main(options)`; a user error prints one line and exits with code 2.

    arguments: the flags, by default from the command line. description: shown by --help, by default the script's
    docstring.
    """
    define(kind)
    if arguments is None:
        arguments = sys.argv[1:]
    if HELP.intersection(arguments):
        _print_help(kind, arguments, description or sys.modules["__main__"].__doc__ or "")
        return
    _set_up_logging()
    process.keep_freed_memory()
    tensorflow_startup.silence()
    terminal.protect()
    parse = functools.partial(_parse, kind.POSITIONAL)
    app.run(lambda _: _call(kind, main), argv=[sys.argv[0], *arguments], flags_parser=parse)


def define(kind: type[Options]) -> None:
    """Defines a flag for each flag of a dataclass."""
    owner = sys.argv[0]
    for name, field in fields_of(kind).items():
        default = field.default
        if choices_of(field.metadata):
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


def read(kind: type[Kind]) -> Kind:
    """Returns the dataclass with the parsed flags."""
    given = {name: absl_flags.FLAGS[name].value for name in fields_of(kind) if absl_flags.FLAGS[name].present}
    return kind.of(given, command=(os.path.basename(sys.argv[0]), *sys.argv[1:]))


def _shown(kind: type[Options], arguments: Sequence[str]) -> Collection[str]:
    """The flags shown by --help: with --task_name those of this task."""
    named = re.search(r"--?task_name[= ](\S+)", " ".join(arguments))
    return kind.flags_of(named[1]) if named else fields_of(kind)


def _print_help(kind: type[Options], arguments: Sequence[str], description: str) -> None:
    command = " ".join((_program(), *sys.argv[1 : len(sys.argv) - len(arguments)]))
    first = f" [{kind.POSITIONAL.upper()}]" if kind.POSITIONAL else ""
    usage = f"usage: {command}{first} [--FLAG=VALUE ...]"
    shown, lines, fields = _shown(kind, arguments), [description.rstrip(), "", usage], fields_of(kind)
    for title, every in help_groups(kind).items():
        if not (names := [name for name in every if name in shown]):
            continue
        lines += ["", f"{title}:", *(_help_of(name, fields[name].metadata["help"], kind) for name in names)]
    lines += ["", "--helpfull shows absl's own flags too, such as --flagfile."]
    try:
        print(*lines, sep="\n", flush=True)
    except BrokenPipeError:
        process.drop_output()


def help_groups(kind: type[Options]) -> dict[str, list[str]]:
    """{title: flags}: the dataclass's MOST_USED, then the flags of each class it inherits or contains."""
    most_used = list(kind.MOST_USED)
    groups = {"Flags used most": most_used}
    for part in (kind, *groups_of(kind).values()):
        for owner in part.__mro__:
            for name, field in own_flags(part).items():
                if name not in most_used and _owner(part, name, field) is owner:
                    groups.setdefault(_title(owner), []).append(name)
    return {title: names for title, names in groups.items() if names}


def _owner(kind: type, name: str, field: Any) -> type:
    """The class that first declares a flag."""
    owner: type = field.metadata.get("changes") or next(
        each for each in kind.__mro__ if name in each.__dict__.get("__annotations__", {})
    )
    return owner


def _title(kind: type) -> str:
    return (kind.__doc__ or "").partition("\n")[0].rstrip(".").replace("`", "")


def _help_of(name: str, text: str, kind: type[Options]) -> str:
    known = absl_flags.FLAGS[name]
    if isinstance(known.value, bool):
        spelled = f"--[no]{name}"
    elif isinstance(known.parser, ChoiceParser):
        spelled = f"--{name}=<{'|'.join(filter(None, known.parser.enum_values))}>"
    else:
        spelled = f"--{name}={VALUE_NAMES.get(known.parser.flag_type(), 'TEXT')}"
    value = str(known.value).lower() if isinstance(known.value, bool) else known.value
    words = known.parser.words if isinstance(known.parser, NumberOrWord) else {}
    value = next((word for word, number in words.items() if number == value), value)
    defaults = [] if value in (None, "") else [f"default: {value}"]
    if name in kind.WITH_POSITIONAL:
        defaults.append(f"with only {kind.POSITIONAL.upper()}: {kind.WITH_POSITIONAL[name]}")
    text += f" ({'; '.join(defaults)})" if defaults else ""
    lines = textwrap.wrap(text, HELP_WIDTH, initial_indent=HELP_INDENT, subsequent_indent=HELP_INDENT)
    return "\n".join([f"  {spelled}", *lines])


def _set_up_logging() -> None:
    """Shows our own log as bare lines, and only errors of libraries."""
    log = logging.getLogger("bert_tf")
    handler = logging.StreamHandler()
    handler.setFormatter(terminal.Formatter())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    absl_logging.set_verbosity(absl_logging.ERROR)


def _call(kind: type[Kind], main: Callable[[Kind], None]) -> None:
    """Runs `main`; user and machine errors end as one line, a bug as a traceback."""

    def call() -> None:
        options = read(kind)
        tensorflow_startup.check_installed()
        with options.trusting():
            main(options)

    again = "{reason}; run the same command again to continue."
    message, code = outcome(call, _program(), memory=MORE_MEMORY, interrupted=again)
    if code:
        _fail(message, code)


def outcome(call: Callable[[], None], program: str, *, memory: str, interrupted: str) -> tuple[str, int]:
    """Calls a function; returns the message (may be "") and the exit code for user and machine errors, else ("", 0).

    A bug raises its exception. program: see `stop_signals.raised`. memory: what to do if memory ran out. interrupted:
    the message after a stop signal, with a placeholder {reason}.
    """
    try:
        with stop_signals.raised(program):
            call()
            sys.stdout.flush()
    except UserError as error:
        return str(error), error.exit_code
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        reason = "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
        return interrupted.format(reason=reason), 128 + number
    except BrokenPipeError:
        process.drop_output()
        return "", process.PIPE_CLOSED
    except Exception as error:
        failure = describe_failure(error, memory=memory)
        if failure is None:
            raise
        return failure
    return "", 0


def _parse(positional: str | None, arguments: list[str]) -> list[str]:
    try:
        rest = absl_flags.FLAGS(arguments)
    except absl_flags.Error as error:
        _fail(f"{_describe(str(error))} Try --help.", 2)
    for word in rest[1:]:
        if not positional or "=" in word or word in BOOLEANS:
            _fail(f"{word!r} is not a flag: flags begin with --, as in --name=value. Try --help.", 2)
        if absl_flags.FLAGS[positional].present:
            _fail(f"Only one {positional.upper()} is expected: remove {word!r}. Try --help.", 2)
        absl_flags.FLAGS[positional].parse(word)
    return rest[:1]


def _describe(error: str) -> str:
    """Rephrases absl's message about an invalid flag, with types in words."""
    match = re.match(r"flag --(\w+)=(.*?): ", error, re.DOTALL)
    if unknown := re.match(r"Unknown command line flag '(\w+)'", error):
        own = [each.name for each in absl_flags.FLAGS.flags_by_module_dict().get(sys.argv[0], ())]
        return f"There is no flag --{unknown[1]}.{meant_option(unknown[1], own, '--')}"
    if not match:
        return error if error.endswith(".") else f"{error.rstrip(' ?')}{'?' if error.endswith('?') else '.'}"
    name, value = match.groups()
    parser = absl_flags.FLAGS[name].parser
    types = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    expected = parser.expected if hasattr(parser, "expected") else types.get(parser.flag_type(), "another value")
    return f"--{name}={value}: expected {expected}."


def as_flags(text: str, names: Collection[str]) -> str:
    """Returns the text with dashes added to options that have a value or should be passed; names: flag names.

    The inverse of `api.python_words.as_arguments`.

    Example:
        >>> as_flags("Pass model_size=mini, or choose another output_dir.", ["model_size", "output_dir"])
        'Pass --model_size=mini, or choose another --output_dir.'
    """

    def flag(match: re.Match[str]) -> str:
        name, before, after = match[0], text[: match.start()].lower(), text[match.end() :]
        has_value = after.startswith("=") and not after[1:2].isspace()
        is_meant = name in names and (has_value or "_" in name and before.endswith(TOLD))
        return f"--{name}" if is_meant else name

    return NAME.sub(flag, text)


def _fail(message: str, code: int) -> NoReturn:
    if message:
        message = as_flags(message, list(absl_flags.FLAGS))
        print(terminal.printable(f"{_program()}: {message}"), file=sys.stderr, flush=True)
    sys.exit(code)


def _program() -> str:
    return os.path.basename(sys.argv[0])

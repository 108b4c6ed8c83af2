"""A dataclass to absl flags and back, and the frame of every script: its errors are one line and an exit code.

@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    width: int = flag(4, "Width in metres.")

flags.define(Size)                   # --width=4
flags.run(main)                      # main() calls flags.read(Size)
"""

import contextlib
import dataclasses
import errno
import logging
import os
import re
import signal
import sys

from absl import app
from absl import flags as absl_flags
from absl import logging as absl_logging

from bert_tf.errors import UserError

DEFINERS = {
    bool: absl_flags.DEFINE_bool,
    int: absl_flags.DEFINE_integer,
    float: absl_flags.DEFINE_float,
    str: absl_flags.DEFINE_string,
}
HELP = frozenset(("-h", "-?", "-help", "--help", "-helpshort", "--helpshort"))
FULL = (errno.ENOSPC, errno.EDQUOT)  # of a disk, of somebody's share of it


def flag(default, help, choices=None):
    """A dataclass field with the help of its flag; `choices` are the values it may have."""
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices})


def define(kind, **defaults):
    """Defines a flag for each field of a dataclass that has help; `defaults` replace the dataclass' own."""
    for field in dataclasses.fields(kind):
        if "help" not in field.metadata:
            continue
        default = defaults.get(field.name, field.default)
        if field.metadata.get("choices"):
            absl_flags.DEFINE_enum(
                field.name, default, field.metadata["choices"], field.metadata["help"], module_name=sys.argv[0]
            )
        else:
            DEFINERS[field.type](field.name, default, field.metadata["help"], module_name=sys.argv[0])


def read(kind, instead=None, **values):
    """The dataclass with the values of the flags; `values` for fields without flags.

    `instead` {name: value} are defaults for flags that were not given.
    """
    instead = instead or {}
    for field in dataclasses.fields(kind):
        if "help" in field.metadata and field.name not in values:
            given = absl_flags.FLAGS[field.name]
            values[field.name] = given.value if given.present else instead.get(field.name, given.value)
    return kind(**values)


def part(kind, options):
    """Those of the options that are fields of another dataclass, as that dataclass."""
    return kind(**{field.name: getattr(options, field.name) for field in dataclasses.fields(kind)})


def is_given(name):
    """Whether the flag was given on the command line."""
    return absl_flags.FLAGS[name].present > 0


def run(main, arguments=None, description=None):
    """Parses the flags and calls `main()`; the user's mistakes end as one line on standard error and exit code 2.

    arguments: the flags, by default those of the command line. description: shown by --help, by default the docstring
    of the script.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    if HELP.intersection(arguments):
        _print_help(description or sys.modules["__main__"].__doc__ or "")
        return
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _terminated)
    _log_plainly()
    app.run(lambda _: _guarded(main), argv=[sys.argv[0], *arguments], flags_parser=_parsed)


def _print_help(description):
    print(description.rstrip(), "\nflags:", absl_flags.FLAGS.main_module_help(), sep="\n")
    print("\nTry --helpfull to get a list of all flags.")


def _log_plainly():
    """Our own remarks as bare lines; of the libraries' only errors."""
    log = logging.getLogger("bert_tf")
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    log.propagate = False
    absl_logging.set_verbosity(absl_logging.ERROR)


class _Terminated(KeyboardInterrupt):
    """SIGTERM; like Ctrl-C it passes through `except Exception`."""


def _terminated(*_):
    raise _Terminated


def _guarded(main):
    try:
        main()
    except UserError as error:
        _fail(error, error.exit_code)
    except _Terminated:
        _fail("stopped by SIGTERM; the same command goes on where it stopped.", 143)
    except KeyboardInterrupt:
        _fail("interrupted; the same command goes on where it stopped.", 130)
    except MemoryError:
        _fail("memory ran out: give recompute, lower train_batch_size or raise num_accumulation_steps.", 1)
    except OSError as error:
        where = error.filename or "a file"
        if error.errno in FULL:
            _fail(f"no room on the disk ({where}): make room and start the same command again.", 1)
        if not isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError | IsADirectoryError):
            raise
        _fail(f"{where} cannot be used ({error.strerror}): give a path that can be read and written.", 2)


def _parsed(arguments):
    try:
        rest = absl_flags.FLAGS(arguments)
    except absl_flags.Error as error:
        _fail(f"{_readable(str(error))} Try --help.", 2)
    if len(rest) > 1:
        _fail(f"{rest[1]!r} is no flag: flags begin with -- and have their value behind =. Try --help.", 2)
    return rest


def _readable(error):
    """What absl says about a wrong flag, in our words where its own are Python's."""
    match = re.match(r"flag --(\w+)=(.*?): ", error, re.DOTALL)
    if not match:
        return error if error.endswith(".") else f"{error.rstrip(' ?')}{'?' if error.endswith('?') else '.'}"
    name, value = match.groups()
    known = absl_flags.FLAGS[name]
    choices = getattr(known.parser, "enum_values", None)
    kinds = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    expected = f"one of {', '.join(choices)}" if choices else kinds.get(known.flag_type(), "another value")
    return f"--{name}={value} was given; expected {expected}."


def _fail(message, code):
    print(f"{os.path.basename(sys.argv[0])}: {message}", file=sys.stderr, flush=True)
    sys.exit(code)

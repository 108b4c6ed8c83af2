"""Rewrites command-line flags in messages as Python arguments."""

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping

from bert_tf.errors import UserError, missing_package
from bert_tf.runtime import terminal

FLAG = re.compile(r"(?<![\w-])--(no(?=[a-z]+_))?([a-z]\w*)(?:=([^\s,;:)'\"]*[^\s,;:.)'\"]))?")
COMMAND = re.compile(r"(`bert-tf [^`]*`)")  # stays as it is


def as_arguments(text: str) -> str:
    """Returns the text with flags replaced by Python arguments.

    Example:
        >>> as_arguments("Try --class_weights=balanced --num_seeds=3, or --nojoin_labels.")
        'Try class_weights="balanced" num_seeds=3, or join_labels=False.'
    """
    return "".join(part if COMMAND.fullmatch(part) else FLAG.sub(_argument, part) for part in COMMAND.split(text))


def _argument(flag: re.Match[str]) -> str:
    negated, name, value = flag.groups()
    if negated:
        return f"{name}=False"
    if value is None:
        return name
    if value in ("true", "false"):
        return f"{name}={value.title()}"
    is_number = re.fullmatch(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", value)
    return f"{name}={value}" if is_number else f'{name}="{value}"'


class _Filter(logging.Filter):
    def __init__(self, say: Callable[[str], str]) -> None:
        super().__init__()
        self.say = say

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.say(record.getMessage()), ()
        return True


@contextlib.contextmanager
def spoken(names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Makes the package's lines, warnings and UserErrors name Python arguments while it is active.

    A missing package becomes a UserError.

    names: {path: its name in messages}, for files unknown to the caller.
    """

    def say(text: str) -> str:
        for path, name in (names or {}).items():
            text = text.replace(path, name)
        return as_arguments(text)

    log, arguments = logging.getLogger("bert_tf"), _Filter(say)
    log.addFilter(arguments)
    token = terminal.said.set(say)
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        raise UserError(missing) from None
    except UserError as error:
        error.args = (say(str(error)), *error.args[1:])
        raise
    finally:
        log.removeFilter(arguments)
        terminal.said.reset(token)

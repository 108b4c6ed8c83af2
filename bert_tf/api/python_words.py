"""Messages that name flags of a shell, said again with the arguments of Python."""

import contextlib
import logging
import re
from collections.abc import Iterator

from bert_tf.errors import UserError
from bert_tf.runtime import terminal

FLAG = re.compile(r"(?<![\w-])--(no(?=[a-z]+_))?([a-z]\w*)(?:=([^\s,;:)'\"]*[^\s,;:.)'\"]))?")
COMMAND = re.compile(r"(`bert-tf [^`]*`)")  # stays as it is


def as_arguments(text: str) -> str:
    """The text with arguments in place of flags.

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
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = as_arguments(record.getMessage()), ()
        return True


@contextlib.contextmanager
def spoken() -> Iterator[None]:
    """Within it, lines and warnings of the package and errors of the user name arguments."""
    log, arguments = logging.getLogger("bert_tf"), _Filter()
    log.addFilter(arguments)
    token = terminal.said.set(as_arguments)
    try:
        yield
    except UserError as error:
        error.args = (as_arguments(str(error)), *error.args[1:])
        raise
    finally:
        log.removeFilter(arguments)
        terminal.said.reset(token)

r"""Lines in the words of whoever started the work; control characters of labels and texts are shown as \x1b."""

import contextvars
import io
import logging
import sys
from collections.abc import Callable

CONTROLS = (*range(0x20), *range(0x7F, 0xA0))  # C0, DEL and C1
SHOWN = {code: f"\\x{code:02x}" for code in CONTROLS if chr(code) not in "\n\t"}


# Changes texts that name flags.
said: contextvars.ContextVar[Callable[[str], str]] = contextvars.ContextVar("said", default=str)


def say(text: str) -> None:
    """Prints a line that may name flags, as whoever started the work writes them: on a command line or in Python."""
    print(said.get()(text), flush=True)


def printable(text: str) -> str:
    r"""The text with \x1b and the like for control characters other than ends of lines and tabs."""
    return text.translate(SHOWN)


class _Terminal(io.TextIOWrapper):
    def write(self, text: str) -> int:
        return super().write(printable(text))


class Formatter(logging.Formatter):
    """Formats records of a log so that they can be printed."""

    def format(self, record: logging.LogRecord) -> str:
        """See `printable`."""
        return printable(super().format(record))


def protect() -> None:
    """Lets nothing but text reach standard output from here on, where that is a terminal.

    Names of files that are not UTF-8 are shown there, and in a pipe or a file, as Python writes them.
    """
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() == "utf-8":
        stream.reconfigure(errors="backslashreplace")
    if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, _Terminal) and stream.isatty():
        stream.flush()
        sys.stdout = _Terminal(stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=True)

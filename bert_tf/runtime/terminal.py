r"""Lines and warnings for the user: flags in the caller's notation, control characters of labels and texts as \x1b."""

import contextlib
import contextvars
import io
import logging
import sys
from collections.abc import Callable, Iterator

CONTROLS = (*range(0x20), *range(0x7F, 0xA0))  # C0, DEL and C1
SHOWN = {code: f"\\x{code:02x}" for code in CONTROLS if chr(code) not in "\n\t"}
log = logging.getLogger("bert_tf")

# Rewrites texts that name flags.
said: contextvars.ContextVar[Callable[[str], str]] = contextvars.ContextVar("said", default=str)


def say(text: str) -> None:
    """Prints a line; flags in it are written as on the command line or as in Python, depending on the caller."""
    print(said.get()(text), flush=True)


def printable(text: str) -> str:
    r"""The text with \x1b and the like for control characters other than line ends and tabs."""
    return text.translate(SHOWN)


class _Terminal(io.TextIOWrapper):
    def write(self, text: str) -> int:
        return super().write(printable(text))


class Formatter(logging.Formatter):
    """Formats log records so that they can be printed."""

    def format(self, record: logging.LogRecord) -> str:
        """See `printable`."""
        return printable(super().format(record))


def protect() -> None:
    """From here on, lets only text reach standard output if that is a terminal.

    File names that are not UTF-8 are shown escaped, also in a pipe or a file.
    """
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() == "utf-8":
        stream.reconfigure(errors="backslashreplace")
    if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, _Terminal) and stream.isatty():
        stream.flush()
        sys.stdout = _Terminal(stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=True)


class _Keeper(logging.Handler):
    """Keeps messages, and passes them on to their usual destination."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        others = log.handlers + logging.getLogger().handlers
        if others == [self] and logging.lastResort:
            logging.lastResort.handle(record)


@contextlib.contextmanager
def kept_warnings() -> Iterator[list[str]]:
    """Yields a list that collects the package's warnings as they are logged."""
    messages: list[str] = []
    keeper = _Keeper(messages)
    log.addHandler(keeper)
    try:
        yield messages
    finally:
        log.removeHandler(keeper)


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Prints the package's warnings without a prefix while the block runs, unless the program configured logging.

    Otherwise a prefix "WARNING:bert_tf:" would depend on messages logged by other libraries.
    """
    root = logging.getLogger()
    if log.handlers or root.handlers:
        yield
        return
    handler = logging.StreamHandler()
    log.addHandler(handler)
    propagate, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate
        for added in [each for each in root.handlers if type(each) is logging.StreamHandler]:  # absl adds one
            root.removeHandler(added)

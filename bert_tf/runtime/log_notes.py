"""Collects warnings for the files of a run."""

import contextlib
import logging
from collections.abc import Iterator

LOGGER = "bert_tf"


class _Keeper(logging.Handler):
    """Keeps messages, and passes them on to their usual destination."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        others = logging.getLogger(LOGGER).handlers + logging.getLogger().handlers
        if others == [self] and logging.lastResort:
            logging.lastResort.handle(record)


@contextlib.contextmanager
def kept() -> Iterator[list[str]]:
    """Yields a list that collects the package's warnings as they are logged."""
    messages: list[str] = []
    keeper = _Keeper(messages)
    logging.getLogger(LOGGER).addHandler(keeper)
    try:
        yield messages
    finally:
        logging.getLogger(LOGGER).removeHandler(keeper)

"""Progress of long work: a bar on a terminal, occasional lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol

SECONDS_BETWEEN_LINES = 10  # where output goes to a file


class Report(Protocol):
    """Shows that `done` of `total` units are finished."""

    def __call__(self, done: int, text: str = "", total: int | None = None) -> None:
        """`text` is shown next to the numbers; `total` replaces the earlier one."""


@contextlib.contextmanager
def progress(name: str, total: int | None = None) -> Iterator[Report]:
    """Yields `report(done, text="", total=None)`; shows a bar if standard error is a terminal."""
    if sys.stderr.isatty():
        with _bar(name, total) as report:
            yield report
    else:
        yield _Lines(name, total)


@contextlib.contextmanager
def _bar(name: str, total: int | None) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), "eta")
    more = (TimeRemainingColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, *more, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total, text="")

        def report(done: int, text: str = "", total: int | None = None) -> None:
            if total is not None:
                bar.update(task, total=total)
            bar.update(task, completed=done, text=text)

        yield report


class _Lines:
    """Prints a line now and then; none for short work."""

    def __init__(self, name: str, total: int | None) -> None:
        self.name, self.total, self.last, self.has_printed = name, total, time.monotonic(), False

    def __call__(self, done: int, text: str = "", total: int | None = None) -> None:
        self.total = self.total if total is None else total
        is_end = self.has_printed and done == self.total
        if time.monotonic() - self.last < SECONDS_BETWEEN_LINES and not is_end:
            return
        self.last, self.has_printed = time.monotonic(), True
        print(f"{self.name} {done}/{self.total or '?'} {text}".rstrip(), file=sys.stderr, flush=True)

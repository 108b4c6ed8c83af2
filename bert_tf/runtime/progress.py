"""Progress of long work: a bar on a terminal and in a notebook, occasional lines elsewhere."""

import contextlib
import html
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from bert_tf.runtime.lazy import module

bars, console, ipython = module("rich.progress"), module("rich.console"), module("IPython.display")
SECONDS_BETWEEN_LINES = 10  # if output goes to a file
LONG = 60  # with at least this many seconds left, the first line is printed once they can be estimated
MEASURED = 4  # units after the first until the time left can be estimated
SECONDS_BETWEEN_UPDATES = 0.2  # of a notebook's bar
BAR = '<progress value="{done}" max="{total}" style="vertical-align: middle"></progress> <code>{text}</code>'
Row = TypeVar("Row")


class Report(Protocol):
    """Shows that `done` of `total` units are finished."""

    def __call__(self, done: int, text: str = "", total: int | None = None) -> None:
        """Shows `text` next to the numbers; `total` replaces the previous total."""


@contextlib.contextmanager
def progress(name: str, total: int | None = None) -> Iterator[Report]:
    """Yields `report(done, text="", total=None)`; shows a bar if standard error is a terminal, or in a notebook.

    name: the work and the counted units, such as "indexing texts".
    """
    if is_notebook():
        yield _Cell(name, total)
    elif sys.stderr.isatty():
        with _bar(name, total) as report:
            yield report
    else:
        yield _Lines(name, total)


def counted(rows: Iterable[Row], name: str, total: int | None = None) -> Iterator[Row]:
    """Yields the rows and shows their count."""
    with progress(name, total) as report:
        for done, row in enumerate(rows, 1):
            yield row
            report(done)


@contextlib.contextmanager
def _bar(name: str, total: int | None) -> Iterator[Report]:
    text, of_parts, elapsed = bars.TextColumn, bars.MofNCompleteColumn(), bars.TimeElapsedColumn()
    columns = (text("{task.description}"), bars.BarColumn(), of_parts, elapsed, "eta", bars.TimeRemainingColumn())
    with bars.Progress(*columns, text("{task.fields[text]}"), console=console.Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total, text="")

        def report(done: int, text: str = "", total: int | None = None) -> None:
            if total is not None:
                bar.update(task, total=total)
            bar.update(task, completed=done, text=text)

        yield report


class _Lines:
    """Prints a line now and then, but not for short work."""

    def __init__(self, name: str, total: int | None) -> None:
        self.name, self.total, self.last, self.has_printed = name, total, time.monotonic(), False
        self.first: int | None = None
        self.since: tuple[float, int] | None = None  # the second report: the first unit takes longest

    def __call__(self, done: int, text: str = "", total: int | None = None) -> None:
        self._measure(done, total)
        left = self._seconds_left(done)
        is_end = self.has_printed and done == self.total
        is_first_estimate = not self.has_printed and left > LONG and self._measured(done) >= MEASURED
        if time.monotonic() - self.last < SECONDS_BETWEEN_LINES and not is_end and not is_first_estimate:
            return
        self.last, self.has_printed = time.monotonic(), True
        print(self._line(done, text, left), file=sys.stderr, flush=True)

    def _line(self, done: int, text: str, left: float) -> str:
        total = f"/{self.total}" if self.total else "," * bool(text)
        parts = (f"{self.name} {done}{total} {text}".rstrip(), f"{duration(left)} left" if left else "")
        return "  ".join(filter(None, parts))

    def _measure(self, done: int, total: int | None) -> None:
        self.total = self.total if total is None else total
        if self.since is None and self.first is not None and done > self.first:
            self.since = time.monotonic(), done
        self.first = done if self.first is None else self.first

    def _measured(self, done: int) -> int:
        """Units since the second report."""
        return done - self.since[1] if self.since else 0

    def _seconds_left(self, done: int) -> float:
        """The estimated remaining seconds; 0 if unknown."""
        measured = self._measured(done)
        if not self.total or self.since is None or measured < 1:
            return 0.0
        return (time.monotonic() - self.since[0]) / measured * (self.total - done)


class _Bar:
    """A bar with a line of text, shown under the running cell."""

    def __init__(self) -> None:
        self._shown = ipython.display(ipython.HTML(""), display_id=True)
        self._last = 0.0

    def show(self, done: int, total: int | None, text: str) -> None:
        """Updates the bar, unless it was updated a moment ago."""
        if time.monotonic() - self._last < SECONDS_BETWEEN_UPDATES and done != total:
            return
        self._last = time.monotonic()
        self._shown.update(ipython.HTML(BAR.format(done=done, total=total or max(1, 2 * done), text=html.escape(text))))


class _Cell(_Lines):
    """Shows a bar under a notebook cell."""

    def __init__(self, name: str, total: int | None) -> None:
        super().__init__(name, total)
        self._bar = _Bar()

    def __call__(self, done: int, text: str = "", total: int | None = None) -> None:
        self._measure(done, total)
        self._bar.show(done, self.total, self._line(done, text, self._seconds_left(done)))


def is_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def duration(seconds: float) -> str:
    """A length of time with one or two units: "40 s", "3 min", "2 h 10 min", "6 d 4 h"."""
    if seconds < 59.5:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h"

"""Progress of long work: a bar on a terminal, now and then a line elsewhere."""

import contextlib
import sys
import time

SECONDS_BETWEEN_LINES = 10  # where output goes to a file


@contextlib.contextmanager
def progress(name, total=None):
    """Yields `report(done, text="", total=None)`; shows it as a bar if standard error is a terminal."""
    if sys.stderr.isatty():
        with _bar(name, total) as report:
            yield report
    else:
        yield _Lines(name, total)


@contextlib.contextmanager
def _bar(name, total):
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), "eta"]
    columns += [TimeRemainingColumn(), TextColumn("{task.fields[text]}")]
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total, text="")

        def report(done, text="", total=None):
            bar.update(task, completed=done, text=text, **({} if total is None else {"total": total}))

        yield report


class _Lines:
    """Lines, of which short work has none."""

    def __init__(self, name, total):
        self.name, self.total, self.last, self.has_said = name, total, time.monotonic(), False

    def __call__(self, done, text="", total=None):
        self.total = self.total if total is None else total
        is_end = self.has_said and done == self.total
        if time.monotonic() - self.last < SECONDS_BETWEEN_LINES and not is_end:
            return
        self.last, self.has_said = time.monotonic(), True
        print(f"{self.name} {done}/{self.total or '?'} {text}".rstrip(), file=sys.stderr, flush=True)

"""Progress of commands that read texts from a file: the count, and texts per second."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from bert_tf.export import prediction_inputs
from bert_tf.runtime.progress import progress

SECONDS_BETWEEN_REPORTS = 0.2
Row = TypeVar("Row")


def report_texts(rows: Iterable[Row], *, name: str, file: str | None, output: str | None) -> Iterator[Row]:
    """Yields a row for each text of `file` and reports progress, unless rows are printed to the same terminal or log.

    file: None for a single text. output: the output file, None for standard output.
    """
    is_shared = not output and (sys.stdout.isatty() or not sys.stderr.isatty())
    if file is None or is_shared:
        yield from rows
        return
    start = last = time.monotonic()
    done = 0
    with progress(name, prediction_inputs.count(file)) as report:
        for done, row in enumerate(rows, 1):
            yield row
            now = time.monotonic()
            if now - last > SECONDS_BETWEEN_REPORTS:
                last = now
                report(done, _speed(done, now - start))
        report(done, _speed(done, time.monotonic() - start), total=done)


def _speed(done: int, seconds: float) -> str:
    return f"{done / max(seconds, 1e-9):,.0f} texts/s"  # clocks of some systems stand still for milliseconds

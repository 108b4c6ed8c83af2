"""Notebooks: a bar under the cell, and plain warnings. Free of TensorFlow."""

import contextlib
import html
import logging
import sys
import time
from collections.abc import Iterator

from bert_tf.runtime.lazy import module

ipython = module("IPython.display")
SECONDS_BETWEEN_UPDATES = 0.2
BAR = '<progress value="{done}" max="{total}" style="vertical-align: middle"></progress> <code>{text}</code>'


def is_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class Bar:
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


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Prints the package's warnings without a prefix while the block runs, unless the program configured logging.

    Otherwise a prefix "WARNING:bert_tf:" would depend on messages logged by other libraries.
    """
    log, root = logging.getLogger("bert_tf"), logging.getLogger()
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

"""Stops a computation when nobody waits for it any more.

TensorFlow functions end at their next operation, other engines at their next block of rows.
"""

import contextlib
import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bert_tf.runtime.lazy import module, tf

cancellation = module("tensorflow.python.eager.cancellation")  # TensorFlow has no public API for it
_current: contextvars.ContextVar["Stop | None"] = contextvars.ContextVar("stop", default=None)


class Stopped(Exception):
    """The computation was stopped."""


class Stop:
    """Stops computations within `applies`, in its thread and in the threads of `inherited` functions."""

    def __init__(self) -> None:
        self._is_set, self._managers, self._lock = False, list[Any](), threading.Lock()

    @property
    def is_set(self) -> bool:
        """Returns whether it was stopped."""
        return self._is_set

    def set(self) -> None:
        """Stops it; may be called from any thread, and repeatedly."""
        with self._lock:
            self._is_set, managers = True, list(self._managers)
        for manager in managers:
            manager.start_cancel()

    @contextlib.contextmanager
    def applies(self) -> Iterator[None]:
        """Computations within end with Stopped after `set`; without TensorFlow at the next `check`."""
        if not _has_tensorflow():
            token = _current.set(self)
            try:
                yield
            finally:
                _current.reset(token)
            return
        manager = cancellation.CancellationManager()
        with self._lock:
            if self._is_set:
                raise Stopped
            self._managers.append(manager)
        token = _current.set(self)
        try:
            with cancellation.CancellationManagerContext(manager):
                yield
        except tf.errors.CancelledError:
            raise Stopped from None
        finally:
            _current.reset(token)
            with self._lock:
                self._managers.remove(manager)


def _has_tensorflow() -> bool:
    """Returns whether TensorFlow is completely loaded: another thread may still be importing it."""
    found = sys.modules.get("tensorflow")
    return found is not None and not getattr(found.__spec__, "_initializing", False)


def check() -> None:
    """Raises Stopped if the current computation was stopped."""
    stop = _current.get()
    if stop is not None and stop.is_set:
        raise Stopped


def inherited(function: Callable) -> Callable:
    """Wraps a function for other threads, so that it stops with the current computation."""
    stop = _current.get()
    if stop is None:
        return function

    def stoppable(*arguments: Any) -> Any:
        with stop.applies():
            return function(*arguments)

    return stoppable

"""Locks on folders between processes, on file systems that support them."""

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str], message: str) -> Iterator[None]:
    """Locks a folder while the block runs; prints a message and waits if another process has locked it."""
    try:
        lock = acquire(folder)
    except BlockingIOError:
        print(message, flush=True)
        lock = acquire(folder, wait=True)
    try:
        yield
    finally:
        os.close(lock)


def acquire(folder: str | os.PathLike[str], *, wait: bool = False) -> int:
    """Locks a folder until the returned file descriptor is closed or this process ends.

    Raises BlockingIOError if another process has locked it, unless `wait`. Without support for locks, does nothing.
    """
    lock = os.open(folder, os.O_RDONLY)
    try:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(lock)
        raise
    except (ImportError, OSError):  # on Windows, on some file systems
        pass
    return lock

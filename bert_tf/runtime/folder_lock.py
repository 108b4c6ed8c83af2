"""One process at a time in a folder, where the file system knows locks."""

import contextlib
import os


@contextlib.contextmanager
def after_others(folder, said):
    """Holds a folder while the block runs; says so and waits where another process has it."""
    try:
        held = hold(folder)
    except BlockingIOError:
        print(said, flush=True)
        held = hold(folder, wait=True)
    try:
        yield
    finally:
        os.close(held)


def hold(folder, *, wait=False):
    """Holds a folder until the number that is returned is closed, or this process ends.

    BlockingIOError where another process has it, unless `wait`. A file system without locks holds nothing.
    """
    held = os.open(folder, os.O_RDONLY)
    try:
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(held)
        raise
    except (ImportError, OSError):  # on Windows, on some file systems
        pass
    return held

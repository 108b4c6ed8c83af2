"""SIGTERM and Ctrl-C: an exception at once, or a request where work must first come to a point to resume from.

Scripts and commands run in `raised`: a signal raises KeyboardInterrupt(number) in the main thread. Within `deferred` it
is only noted, but in `undeferred` parts. A process that has not ended PATIENCE seconds after that exception, or that
gets a signal again, ends at once, as if it were killed: files appear whole or not at all. It may be in a long call of a
library, such as XLA's compiler: Python runs signal handlers between its own instructions only, and the compiler has no
way to be told to stop.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType

NUMBERS = (signal.SIGTERM, signal.SIGINT)
PATIENCE = 5.0  # seconds
AGAIN = 0.3  # seconds from which on a signal is another one: `timeout`, for one, sends each twice
POLL = 0.2  # seconds
SILENCE = 1.0  # seconds after which somebody who waits is told what for

_requests: list[list[int]] = []  # the list of the outermost `deferred`, if there is one
_undeferred: list[bool] = []  # not empty within `undeferred`
_watches: list[threading.Thread] = []  # the thread that watches, if there is one


@contextlib.contextmanager
def raised(program: str) -> Iterator[None]:
    """Within, stop signals raise KeyboardInterrupt in the main thread; `program` begins what a forced end says.

    Does nothing in another thread. SIGINT stays ignored where it is, as in background jobs of shells.
    """
    if threading.current_thread() is not threading.main_thread() or _watches:
        yield
        return
    try:
        with _handled(), _watched(program):
            yield
    finally:
        # Python notes a KeyboardInterrupt that passes through source that it executes, such as that of a dataclass, and
        # `python -m` then dies of SIGINT instead of exiting with a code; executing anything resets the note.
        exec("")  # noqa: S102


@contextlib.contextmanager
def deferred() -> Iterator[Sequence[int]]:
    """Yields a list that receives the numbers of stop signals; what it holds at the end is raised there.

    In a program that does not run in `raised` a second signal is raised within.
    """
    if _requests:
        yield _requests[0]
        return
    numbers: list[int] = []
    with _handled():
        _requests.append(numbers)
        try:
            yield numbers
        finally:
            _requests.remove(numbers)
        if numbers:
            raise KeyboardInterrupt(numbers[0])


@contextlib.contextmanager
def undeferred() -> Iterator[None]:
    """Within `deferred`, a part that leaves nothing to save: raises the signal that was noted, or one that arrives."""
    _undeferred.append(True)
    try:
        if requested():
            raise KeyboardInterrupt(requested()[0])
        yield
    finally:
        _undeferred.pop()


def reclaim() -> None:
    """Gives the signals back to those that Python knows, after a library has taken them, as TensorFlow's cluster does.

    Such a library notes SIGTERM and nobody else hears of it. Does nothing in another thread.
    """
    if threading.current_thread() is threading.main_thread():
        for number in NUMBERS:
            signal.signal(number, signal.getsignal(number) or signal.SIG_DFL)


def requested() -> Sequence[int]:
    """The signals that the current `deferred` has received; () outside of it."""
    return _requests[0] if _requests else ()


def _on_signal(number: int, frame: FrameType | None) -> None:
    is_first = not requested()
    if _requests:
        _requests[0].append(number)
    if not _requests or _undeferred or not (is_first or _watches):
        raise KeyboardInterrupt(number)


@contextlib.contextmanager
def _handled() -> Iterator[None]:
    """Lets `_on_signal` have the signals, in the main thread."""
    previous = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in NUMBERS}
        previous = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for number in previous:
            signal.signal(number, _on_signal)
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _watched(program: str) -> Iterator[None]:
    """A thread learns of signals too, which the main thread does not while it is in a call of a library."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    _watches.append(threading.Thread(target=_watch, args=(ours, program), daemon=True))
    _watches[0].start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        theirs.close()
        _watches.pop().join()


def _watch(signals: socket.socket, program: str) -> None:
    """Ends the process on a repeated signal, or when PATIENCE is over; returns when the other end is closed."""
    seen: dict[int, float] = {}
    waiting_since, is_announced = 0.0, False
    with signals:
        signals.settimeout(POLL)
        while True:
            numbers: bytes | None = None
            with contextlib.suppress(TimeoutError):
                numbers = signals.recv(64)
            if numbers == b"":
                return
            now = time.monotonic()
            for number in numbers or ():
                if number in NUMBERS and signal.getsignal(number) is _on_signal:  # else somebody else handles it
                    if now - seen.setdefault(number, now) > AGAIN:
                        _end(program, number)
                    waiting_since = waiting_since or now
            if _requests and not _undeferred:  # this work is not hurried
                waiting_since = now if seen else 0.0
                if seen and now - min(seen.values()) > SILENCE and not is_announced:
                    is_announced = _say(
                        f"{program}: stopping when the state is saved; send the signal again to end at once.\n"
                    )
            if waiting_since and now - waiting_since > PATIENCE:
                _end(program, next(iter(seen)))


def _end(program: str, number: int) -> None:
    """Ends the process without any cleanup."""
    _say(f"{program}: ended at once ({signal.Signals(number).name}); run the same command again to continue.\n")
    os._exit(128 + number)


def _say(sentence: str) -> bool:
    with contextlib.suppress(OSError):
        os.write(2, sentence.encode())
    return True

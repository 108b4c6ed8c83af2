"""SIGTERM and Ctrl-C: an immediate exception, or a request if work must first reach a point to resume from.

Scripts and commands run in `raised`: a signal raises KeyboardInterrupt(number) in the main thread. Within `deferred` it
is only recorded, except in `undeferred` parts. If a process has not ended PATIENCE seconds after that exception, or
gets another signal, it ends immediately, as if killed: files appear whole or not at all. It may be in a long library
call such as XLA's compiler: Python runs signal handlers only between its own instructions, and the compiler cannot be
told to stop.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType

from bert_tf.errors import stop_of

NUMBERS = (signal.SIGTERM, signal.SIGINT)
PATIENCE = 5.0  # seconds
AGAIN = 0.3  # seconds after which a signal counts as a new one: `timeout`, for example, sends each twice
POLL = 0.2  # seconds
SILENCE = 1.0  # seconds after which a waiting user gets a message

_requests: list[list[int]] = []  # the list of the outermost `deferred`, if there is one
_undeferred: list[bool] = []  # not empty within `undeferred`
_watches: list[threading.Thread] = []  # the thread that watches, if there is one


@contextlib.contextmanager
def raised(program: str) -> Iterator[None]:
    """Inside, stop signals raise KeyboardInterrupt in the main thread; `program` begins the message of a forced end.

    Does nothing in other threads. SIGINT stays ignored if it already is, as in background jobs of shells.
    """
    is_first = threading.current_thread() is threading.main_thread() and not _watches
    try:
        with contextlib.ExitStack() as stack:
            if is_first:
                stack.enter_context(_handled())
                stack.enter_context(_watched(program))
            yield
    except Exception as error:
        if stop := stop_of(error):
            raise stop from None
        raise
    finally:
        # Python records a KeyboardInterrupt that passes through executed source, such as a dataclass's, and `python -m`
        # then dies of SIGINT instead of exiting with a code; executing anything resets the record.
        exec("")  # noqa: S102


@contextlib.contextmanager
def deferred() -> Iterator[Sequence[int]]:
    """Yields a list that receives the numbers of stop signals; raises the first one at the end.

    Outside `raised`, a second signal is raised immediately.
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
    """Within `deferred`, a part with nothing to save: raises the recorded signal, or one that arrives."""
    _undeferred.append(True)
    try:
        if requested():
            raise KeyboardInterrupt(requested()[0])
        yield
    finally:
        _undeferred.pop()


def reclaim() -> None:
    """Restores Python's signal handlers after a library has replaced them, as TensorFlow's cluster does.

    Such a library keeps SIGTERM to itself. Does nothing in other threads.
    """
    if threading.current_thread() is threading.main_thread():
        for number in NUMBERS:
            signal.signal(number, signal.getsignal(number) or signal.SIG_DFL)


def requested() -> Sequence[int]:
    """The signals received by the current `deferred`; () outside of it."""
    return _requests[0] if _requests else ()


def _on_signal(number: int, frame: FrameType | None) -> None:
    is_first = not requested()
    if _requests:
        _requests[0].append(number)
    if not _requests or _undeferred or not (is_first or _watches):
        raise KeyboardInterrupt(number)


@contextlib.contextmanager
def _handled() -> Iterator[None]:
    """Installs `_on_signal` as signal handler, in the main thread."""
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
    """Starts a thread that sees signals too: the main thread does not during library calls."""
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
    """Ends the process on a repeated signal, or after PATIENCE; returns when the other end is closed."""
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
                if number in NUMBERS and signal.getsignal(number) is _on_signal:  # otherwise another handler's job
                    if now - seen.setdefault(number, now) > AGAIN:
                        _end(program, number)
                    waiting_since = waiting_since or now
            if _requests and not _undeferred:  # deferred work gets the time it needs
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

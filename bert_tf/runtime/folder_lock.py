"""Locks on folders and files between processes.

On a disk the operating system locks the folder and unlocks it when a process ends, on file systems that support it.
In a store (gs://...) an object in the folder names its owner, who renews it every minute; it expires if it has not been
renewed for some minutes. Two processes that start within the same second may miss each other there.
"""

import atexit
import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator

import psutil

from bert_tf.errors import UserError
from bert_tf.runtime import files, json_files

PATIENCE = 5.0  # seconds: a large killed process keeps its lock until its memory is freed
POLL = 0.2  # seconds between attempts
LOCK = "IN_USE.json"
RENEWAL, VOID = 60.0, 300.0  # seconds
REMOTE_POLL = 10.0  # seconds between attempts on a store


class FolderLock:
    """A lock on a folder or file on disk, released by `release` or at the end of this process."""

    def __init__(self, folder: files.StrPath, *, wait: bool = False) -> None:
        """Raises BlockingIOError if another process has locked the folder, unless `wait`."""
        self._descriptor: int | None = None
        try:
            import fcntl
        except ImportError:  # Windows, which cannot open folders either
            return
        self._descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(self._descriptor)
            raise
        except OSError:  # some file systems
            pass

    def is_of(self, path: files.StrPath) -> bool:
        """Returns whether this path is still the locked one, not removed or renamed since."""
        if self._descriptor is None:
            return True
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._descriptor), os.stat(path))
        return False

    def release(self) -> None:
        """Unlocks the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)


class RemoteLock:
    """A lock on a folder in a store: an object with host, process and time, renewed by a thread."""

    def __init__(self, folder: files.StrPath) -> None:
        """Raises BlockingIOError if another process has locked the folder."""
        self._path, self._token = os.path.join(os.fspath(folder), LOCK), secrets.token_hex(8)
        self._check_free()
        files.make_folder(folder)
        self._write()
        if json_files.read_object(self._path).get("token") != self._token:
            raise BlockingIOError(self._path)  # if two begin at once, the last writer keeps the lock
        self._ended = threading.Event()
        threading.Thread(target=self._renew, daemon=True).start()
        atexit.register(self.release)

    def _check_free(self) -> None:
        content = json_files.read_object(self._path)
        is_ours = content.get("host") == socket.gethostname()
        is_dead = is_ours and not psutil.pid_exists(content.get("process", 0))
        if time.time() - content.get("time", 0) < VOID and not is_dead:
            raise BlockingIOError(self._path)

    def _write(self) -> None:
        owner = {"host": socket.gethostname(), "process": os.getpid(), "time": time.time(), "token": self._token}
        files.write_small(self._path, json.dumps(owner).encode())

    def _renew(self) -> None:
        while not self._ended.wait(RENEWAL):
            with contextlib.suppress(OSError):  # the store may answer again in a minute
                self._write()

    def release(self) -> None:
        """Unlocks the folder."""
        self._ended.set()
        atexit.unregister(self.release)
        with contextlib.suppress(OSError):  # the lock expires after some minutes anyway
            if json_files.read_object(self._path).get("token") == self._token:
                files.remove(self._path)


@contextlib.contextmanager
def locked(folder: files.StrPath, message: str) -> Iterator[None]:
    """Locks a folder while the block runs; prints a message and waits if another process has locked it."""
    try:
        lock = _acquire_now(folder)
    except BlockingIOError:
        print(message, flush=True)
        lock = _wait_for_remote(folder) if files.is_remote(folder) else FolderLock(folder, wait=True)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def claimed(temporary: str, make: Callable[[], object], target: str) -> Iterator[None]:
    """Locks a temporary folder or file on disk while the block runs, which may rename it.

    make: creates it if missing. target: the final path, for the UserError raised if it is being written.
    """
    while True:
        with contextlib.suppress(FileExistsError):  # by os.makedirs if another thread removes it at that moment
            make()
        try:
            lock = acquire(temporary)
        except BlockingIOError:
            raise UserError(
                f"{target} is being written by another process or thread: wait until it ends, or choose another name."
            ) from None
        except FileNotFoundError:  # another process has just finished
            continue
        if not isinstance(lock, FolderLock) or lock.is_of(temporary):
            break
        lock.release()
    try:
        yield
    finally:
        lock.release()


def acquire(folder: files.StrPath) -> FolderLock | RemoteLock:
    """Locks a folder until `release` or the end of this process.

    Raises BlockingIOError if another process has locked it, after some seconds. Without support for locks, does
    nothing.
    """
    last_try = time.monotonic() + (0 if files.is_remote(folder) else PATIENCE)
    while True:
        try:
            return _acquire_now(folder)
        except BlockingIOError:
            if time.monotonic() >= last_try:
                raise
            time.sleep(POLL)


def _acquire_now(folder: files.StrPath) -> FolderLock | RemoteLock:
    return RemoteLock(folder) if files.is_remote(folder) else FolderLock(folder)


def _wait_for_remote(folder: files.StrPath) -> RemoteLock:
    while True:
        time.sleep(REMOTE_POLL)
        with contextlib.suppress(BlockingIOError):
            return RemoteLock(folder)

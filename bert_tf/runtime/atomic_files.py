"""Files and folders that appear whole or not at all: written under a locked temporary name, then renamed.

Output for a store (gs://...) is written on this machine first. A file is uploaded under a temporary name and renamed.
Stores cannot rename folders: a folder contains UNFINISHED during its upload, which is removed last; readers reject it
until then (`check_whole`).
"""

import contextlib
import errno
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from bert_tf.errors import NO_SPACE, UserError
from bert_tf.runtime import files, folder_lock
from bert_tf.runtime.files import StrPath

UNFINISHED = "UNFINISHED"  # name of the object that marks an unfinished folder in a store
NEW, OLD = "new", "old"  # names in the temporary folder
SHARED_PARTIAL = re.compile(r"(.+)\.\d+\.partial")  # yielded by `atomic_write` with `shared`


@contextlib.contextmanager
def atomic_write(path: StrPath, *, shared: bool = False, folder: StrPath | None = None) -> Iterator[str]:
    """Yields the path of a temporary local file, which replaces `path` at the end and is removed if anything fails.

    Args:
        path: the file to write; for a symbolic link, its target is written.
        shared: whether other processes may write the same file at the same time. A killed process then leaves its file
            behind, see `remove_abandoned`; otherwise the next process replaces it.
        folder: the folder for the temporary file, on the same disk; by default the folder of `path`.

    Raises:
        UserError: another process is writing the file, unless `shared`.
    """
    path = os.fspath(path)
    if files.is_remote(path):
        with tempfile.TemporaryDirectory(prefix="bert-tf-") as scratch:
            partial = os.path.join(scratch, os.path.basename(path))
            yield partial
            _upload(partial, path)
        return
    if path != target_of(path):
        path, folder = target_of(path), None
    target = os.path.join(folder or os.path.dirname(path), os.path.basename(path))
    partial = f"{target}.{os.getpid()}.partial" if shared else f"{target}.partial"
    with _naming(path), contextlib.ExitStack() as claims:
        if not shared:
            claims.enter_context(folder_lock.claimed(partial, lambda: open(partial, "ab").close(), path))
        try:
            yield partial
            os.replace(partial, path)
        except BaseException:  # includes Ctrl-C
            with contextlib.suppress(OSError):
                os.remove(partial)
            raise


def target_of(path: str) -> str:
    """The target of a local symbolic link, which is kept; any other path unchanged."""
    return os.path.realpath(path) if os.path.islink(path) else path


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Adds the path to the error for a full disk, which Python's error lacks."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in (*NO_SPACE, errno.EFBIG):
            error.filename = path
        raise


def remove_abandoned(folder: StrPath, names: Collection[str], *, seconds: float = 0.0) -> None:
    """Removes partial shared files left in a local folder by killed processes, if unchanged for `seconds`."""
    if files.is_remote(folder):  # files in stores appear only when complete
        return
    for name in files.names(folder):
        parts, path = SHARED_PARTIAL.fullmatch(name), os.path.join(folder, name)
        if parts and parts[1] in names:
            with contextlib.suppress(OSError):  # it may have just been renamed
                if os.path.getmtime(path) <= time.time() - seconds:
                    os.remove(path)


def _upload(source: str, path: str) -> None:
    """Copies a local file to a store under a temporary name, then renames it."""
    partial = f"{path}.{os.getpid()}.partial"
    try:
        files.copy(source, partial)
        files.rename(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            files.remove(partial)
        raise


@contextlib.contextmanager
def atomic_folder(folder: StrPath, *, overwrite: bool = False) -> Iterator[str]:
    """Yields the path of a temporary local folder, which becomes `folder` at the end and is removed if anything fails.

    Args:
        folder: the folder to write; for a symbolic link, its target is written.
        overwrite: whether to replace existing content; otherwise only an empty folder is replaced.

    Raises:
        UserError: `folder` exists and may not be replaced, or another process is writing it.
    """
    folder = target_of(os.fspath(folder).rstrip(os.sep))
    if not overwrite:
        check_free(folder)
    if files.is_remote(folder):
        with tempfile.TemporaryDirectory(prefix="bert-tf-") as scratch:
            yield scratch
            with folder_lock.claimed(folder, lambda: None, folder):
                _replace_objects(scratch, folder)
        return
    temporary = _temporary(folder)
    with _naming(folder), folder_lock.claimed(temporary, lambda: os.makedirs(temporary, exist_ok=True), folder):
        partial = os.path.join(temporary, NEW)
        try:
            shutil.rmtree(partial, ignore_errors=True)  # left by a killed process
            if not overwrite:
                check_free(folder)  # another process may have just written it
            os.mkdir(partial)
            yield partial
            replace_folder(partial, folder)
        except BaseException:  # not later, when another process may be writing there
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _temporary(folder: str) -> str:
    """The hidden folder next to `folder`, used for writing it."""
    return os.path.join(os.path.dirname(folder), f".{os.path.basename(folder)}.partial")


def _replace_objects(source: str, folder: str) -> None:
    """Replaces the content of a folder in a store, marked as unfinished from the first change to the last."""
    marker = os.path.join(folder, UNFINISHED)
    files.make_folder(folder)
    files.write_small(marker, b"This folder is being written, or its writing was interrupted.\n")
    for name in files.names(folder):
        if name not in (UNFINISHED, folder_lock.LOCK):
            files.remove(os.path.join(folder, name))
    files.copy_folder(source, folder)
    files.remove(marker)


def check_whole(folder: StrPath) -> None:
    """Raises UserError if a folder in a store is being written, or is incomplete."""
    if files.is_remote(folder) and files.exists(os.path.join(folder, UNFINISHED)):
        raise UserError(f"{folder} is not complete: wait until it is written, or write it again.")


def replace_folder(partial: str, folder: str) -> None:
    """Renames `partial` to `folder`; the previous content has a temporary name until this is done."""
    temporary = _temporary(folder)
    old = os.path.join(temporary, OLD)
    os.makedirs(temporary, exist_ok=True)
    files.remove(old)  # left by a killed process
    if os.path.lexists(folder):
        os.rename(folder, old)
    try:
        os.rename(partial, folder)
    except BaseException:
        if os.path.lexists(old):
            os.rename(old, folder)
        raise
    files.remove(temporary)


def check_free(folder: StrPath) -> None:
    """Raises UserError if a path exists, unless it is an empty folder or, in a store, an incomplete one."""
    if files.is_remote(folder):
        content = files.names(folder)
        is_free = UNFINISHED in content or not (content or files.exists(folder))
    else:
        is_free = not os.path.lexists(folder) or (os.path.isdir(folder) and not os.listdir(folder))
    if not is_free:
        raise UserError(f"{folder} exists already: choose another folder, or remove it first.")


def check_place(path: StrPath) -> None:
    """Raises UserError unless a file can be at this path, in an existing folder."""
    if files.is_folder(path) or not files.has_folder(path):
        raise UserError(f"{path} cannot be written: pass a file in an existing folder.")


def write_lines(path: StrPath, lines: Iterable[str], *, shared: bool = False) -> None:
    """Writes strings, which include their line ends, as UTF-8."""
    with atomic_write(path, shared=shared) as partial, open(partial, "w", encoding="utf-8", newline="") as file:
        file.writelines(lines)


def write_bytes(path: StrPath, content: bytes, *, shared: bool = False) -> None:
    """Writes bytes."""
    with atomic_write(path, shared=shared) as partial, open(partial, "wb") as file:
        file.write(content)


def write_json(path: StrPath, value: Any, *, indent: int = 2, shared: bool = False) -> None:
    """Writes a value as indented JSON."""
    write_lines(path, [json.dumps(value, indent=indent, ensure_ascii=False), "\n"], shared=shared)

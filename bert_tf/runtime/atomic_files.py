"""Files and folders that appear whole or not at all: written under another name, then renamed."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

from bert_tf.errors import UserError

StrPath = str | os.PathLike[str]


@contextlib.contextmanager
def atomic_write(path: StrPath, *, shared: bool = False, folder: StrPath | None = None) -> Iterator[str]:
    """Yields the path of a temporary file, which replaces `path` at the end and is removed if anything fails.

    Args:
        path: the file to write.
        shared: whether other processes may write the same file at the same time.
        folder: where the temporary file lies, on the same disk; by default the folder of `path`.
    """
    path = os.fspath(path)
    target = os.path.join(folder or os.path.dirname(path), os.path.basename(path))
    partial = f"{target}.{os.getpid()}.partial" if shared else f"{target}.partial"
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:  # Ctrl-C too
        with contextlib.suppress(OSError):
            os.remove(partial)
        raise


@contextlib.contextmanager
def atomic_folder(folder: StrPath, *, overwrite: bool = False) -> Iterator[str]:
    """Yields the path of a temporary folder, which becomes `folder` at the end and is removed if anything fails.

    Args:
        folder: the folder to write.
        overwrite: whether to replace what exists there; otherwise only an empty folder is replaced.

    Raises:
        UserError: `folder` exists and may not be replaced.
    """
    folder = os.fspath(folder).rstrip(os.sep)
    partial = f"{folder}.partial"
    if not overwrite:
        expect_free(folder)
    try:
        shutil.rmtree(partial, ignore_errors=True)  # left by a process that was killed
        os.makedirs(partial)
        yield partial
        _replace_folder(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _replace_folder(partial: str, folder: str) -> None:
    """Renames `partial` to `folder`; the previous content keeps another name until that is done."""
    old = f"{folder}.old.partial"
    _remove(old)  # left by a process that was killed
    if os.path.lexists(folder):
        os.rename(folder, old)
    try:
        os.rename(partial, folder)
    except BaseException:
        if os.path.lexists(old):
            os.rename(old, folder)
        raise
    _remove(old)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.remove(path)


def expect_free(folder: StrPath) -> None:
    """Raises UserError if a path exists that is not an empty folder."""
    if os.path.lexists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise UserError(f"{folder} exists already: choose another folder, or remove it first.")


def write_lines(path: StrPath, lines: Iterable[str], *, shared: bool = False) -> None:
    """Writes strings, which include their line ends, as UTF-8."""
    with atomic_write(path, shared=shared) as partial, open(partial, "w", encoding="utf-8", newline="") as file:
        file.writelines(lines)


def write_json(path: StrPath, value: Any, *, indent: int = 2, shared: bool = False) -> None:
    """Writes a value as indented JSON."""
    write_lines(path, [json.dumps(value, indent=indent, ensure_ascii=False), "\n"], shared=shared)

"""Files and folders by path: on this machine, or in a store supported by TensorFlow (gs://, s3://, hdfs://).

A path without a scheme is handled by the operating system, without loading TensorFlow; any other by `tf.io.gfile`.
Paths are strings: `pathlib` and `os.path.abspath` would turn gs://bucket into gs:/bucket. Files are written by
`bert_tf.runtime.atomic_files`.
"""

import contextlib
import errno
import fnmatch
import glob as local_glob
import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, NoReturn

from bert_tf.runtime import stores
from bert_tf.runtime.stores import StrPath, errors_of, gfile, is_remote

WILDCARD = re.compile(r"[*?\[]")


def absolute(path: StrPath) -> str:
    """Returns a path that does not depend on the working folder, without a slash at its end."""
    path = os.fspath(path)
    return path.rstrip("/") if is_remote(path) else os.path.abspath(path)


def same(first: StrPath, second: StrPath) -> bool:
    """Returns whether two paths refer to the same existing file."""
    if is_remote(first) or is_remote(second):
        return absolute(first) == absolute(second)
    return os.path.exists(first) and os.path.exists(second) and os.path.samefile(first, second)


def exists(path: StrPath) -> bool:
    """Returns whether a file or folder exists."""
    if not is_remote(path):
        return os.path.exists(path)
    with errors_of(path):
        return bool(gfile().exists(os.fspath(path)))


def exists_with_prefix(path: StrPath) -> bool:
    """Returns whether a file or folder path begins with `path`, like the files of a TensorFlow checkpoint."""
    folder, prefix = os.path.split(os.fspath(path))
    return exists(path) or any(name.startswith(prefix) for name in names(folder or "."))


def is_folder(path: StrPath) -> bool:
    """Returns whether a folder exists; in a bucket, whether any object is below the path."""
    if not is_remote(path):
        return os.path.isdir(path)
    with errors_of(path):
        return bool(gfile().isdir(os.fspath(path)))


def is_file(path: StrPath) -> bool:
    """Returns whether a file that is not a folder exists."""
    return exists(path) and not is_folder(path) if is_remote(path) else os.path.isfile(path)


def has_folder(path: StrPath) -> bool:
    """Returns whether the folder of a new file exists; stores create folders with their files."""
    return is_remote(path) or os.path.isdir(os.path.dirname(os.path.abspath(path)))


def size(path: StrPath) -> int:
    """Returns the size of a file in bytes."""
    if not is_remote(path):
        return os.path.getsize(path)
    with errors_of(path):
        return int(gfile().stat(os.fspath(path)).length)


def names(folder: StrPath) -> list[str]:
    """Returns the sorted names of the files and folders in a folder; [] if there is no such folder."""
    try:
        if not is_remote(folder):
            return sorted(os.listdir(folder))
        with errors_of(folder):
            return sorted({name.rstrip("/") for name in gfile().listdir(os.fspath(folder))} - {""})
    except (FileNotFoundError, NotADirectoryError):
        return []


def walk(folder: StrPath) -> list[str]:
    """Returns the sorted paths of all files below a folder."""
    folder = os.fspath(folder)
    if not is_remote(folder):
        folders = os.walk(folder, onerror=_raise)
        return sorted(os.path.join(parent, name) for parent, _, files in folders for name in files)
    with errors_of(folder):
        paths = [(parent, name) for parent, _, files in gfile().walk(folder) for name in files]
    return sorted(f"{parent.rstrip('/')}/{name}" for parent, name in paths)


def _raise(error: OSError) -> NoReturn:
    """Raises the error for a folder without permission, which would otherwise count as empty."""
    raise error


def glob(pattern: str) -> list[str]:
    """Returns the sorted paths that match a pattern with *, ?, [] and **; hidden ones only if matched explicitly."""
    if not is_remote(pattern):
        return sorted(local_glob.glob(pattern, recursive=True))
    if not WILDCARD.search(pattern):
        return [pattern] if exists(pattern) else []
    parts = pattern.split("/")
    fixed = next(number for number, part in enumerate(parts) if WILDCARD.search(part))
    base = "/".join(parts[:fixed])
    if "**" in parts:
        paths = walk(base)
    else:  # only as deep as the pattern
        with errors_of(pattern):
            paths = sorted(gfile().glob(pattern))
    return [path for path in paths if _matches(path.removeprefix(base).strip("/").split("/"), parts[fixed:])]


def _matches(parts: list[str], patterns: list[str]) -> bool:
    """Returns whether the parts of a path match a pattern's parts; ** stands for any number of folders."""
    if not parts or not patterns:
        return parts == patterns
    if patterns[0] == "**":
        return _matches(parts, patterns[1:]) or (not parts[0].startswith(".") and _matches(parts[1:], patterns))
    shown = not parts[0].startswith(".") or patterns[0].startswith(".")
    return shown and fnmatch.fnmatchcase(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])


def open_binary(path: StrPath) -> IO[bytes]:
    """Opens a file for reading bytes; files in stores are read on demand. OSError for a pipe, see `check_ends`."""
    if not is_remote(path):
        check_ends(path)
        return open(path, "rb")
    return stores.open_binary(path)


def check_ends(path: StrPath) -> None:
    """Raises OSError for a named pipe or a device, which may have no end, or not even a beginning.

    Paths in /dev or /proc, such as shell pipes in /dev/fd, are intentional and accepted.
    """
    if os.fspath(path).startswith(("/dev/", "/proc/")):
        return
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", os.fspath(path))


def open_text(path: StrPath, *, encoding: str = "utf-8", errors: str = "strict", newline: str | None = None) -> IO[str]:
    """Opens a file for reading text, as `open` does."""
    return io.TextIOWrapper(open_binary(path), encoding=encoding, errors=errors, newline=newline)


def is_unicode(path: StrPath) -> bool:
    """Returns whether a path is valid Unicode; Python turns other bytes in file names into surrogates."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def append(path: StrPath, text: str) -> None:
    """Appends text to a file. Objects in a bucket cannot grow: there the whole file is rewritten."""
    if not is_remote(path):
        with open(path, "a", encoding="utf-8") as local:
            local.write(text)
        return
    before = b""
    with contextlib.suppress(FileNotFoundError), open_binary(path) as file:
        before = file.read()
    write_small(path, before + text.encode())


def make_folder(path: StrPath) -> None:
    """Makes a folder and those above it, if they do not exist."""
    if not is_remote(path):
        os.makedirs(path, exist_ok=True)
        return
    with errors_of(path):
        gfile().makedirs(os.fspath(path))


def remove(path: StrPath) -> None:
    """Removes a file, or a folder with its content; does nothing if there is neither."""
    if is_remote(path):
        with contextlib.suppress(FileNotFoundError), errors_of(path):
            gfile().rmtree(os.fspath(path)) if is_folder(path) else gfile().remove(os.fspath(path))
    elif os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.remove(path)


def rename(source: StrPath, target: StrPath) -> None:
    """Renames a file within a file system, replacing any file at `target`."""
    if not is_remote(target):
        os.replace(source, target)
        return
    with errors_of(target):
        gfile().rename(os.fspath(source), os.fspath(target), overwrite=True)


def copy(source: StrPath, target: StrPath) -> None:
    """Copies the content of a file, also between file systems, replacing any file at `target`."""
    if not is_remote(source) and not is_remote(target):
        shutil.copyfile(source, target)
        return
    if is_remote(target):
        make_folder(os.path.dirname(target))
        remove(target)  # some file systems append to an existing file
    with errors_of(source if is_remote(source) else target):
        gfile().copy(os.fspath(source), os.fspath(target), overwrite=True)


def copy_folder(source: StrPath, target: StrPath) -> None:
    """Copies all files of a folder into another, which need not exist."""
    source, target = absolute(source), absolute(target)
    make_folder(target)
    for path in walk(source):
        copied = f"{target}{path.removeprefix(source)}"
        make_folder(os.path.dirname(copied))
        copy(path, copied)


@contextlib.contextmanager
def local_copy(path: StrPath) -> Iterator[str]:
    """Yields a local path with the content of a file or folder, for libraries that read only local files.

    Yields a local path unchanged; copies content of a store to a temporary folder, which is removed afterwards.
    OSError for a pipe, also inside the folder, see `check_ends`.
    """
    if not is_remote(path):
        for each in filter(os.path.exists, walk(path) if os.path.isdir(path) else [path]):
            check_ends(each)
        yield os.fspath(path)
        return
    with tempfile.TemporaryDirectory(prefix="bert-tf-") as folder:
        target = os.path.join(folder, os.path.basename(absolute(path)))
        copy_folder(path, target) if is_folder(path) else copy(path, target)
        yield target


def check_writable(folder: StrPath) -> None:
    """Makes a folder, and raises OSError unless it is writable."""
    make_folder(folder)
    if not is_remote(folder):
        with tempfile.TemporaryFile(dir=folder):
            return
    probe = os.path.join(folder, f".{os.getpid()}.partial")
    with errors_of(folder):
        with gfile().GFile(probe, "wb") as file:
            file.write(b".")
        gfile().remove(probe)


def write_small(path: StrPath, content: bytes) -> None:
    """Writes an object of a store at once. For user files, see `atomic_files`."""
    partial = f"{os.fspath(path)}.{os.getpid()}.partial"  # some file systems append to an existing file
    with errors_of(path):
        with gfile().GFile(partial, "wb") as file:
            file.write(content)
        gfile().rename(partial, os.fspath(path), overwrite=True)


def read_folder(folder: str) -> dict[str, bytes]:
    """The files in a folder and its subfolders."""
    found = {}
    for path in walk(folder):
        with open_binary(path) as file:
            found[os.path.relpath(path, folder).replace(os.sep, "/")] = file.read()
    return found


def write_folder(folder: str, content: Mapping[str, bytes]) -> None:
    """Writes files into a folder; skips paths outside the folder."""
    for name, data in content.items():
        if ".." not in name.split("/") and not os.path.isabs(name):
            path = os.path.join(folder, name)
            make_folder(os.path.dirname(path))
            write_small(path, data)

"""Stores supported by TensorFlow, by path scheme (gs://, s3://, hdfs://): `tf.io.gfile` with Python's errors."""

import contextlib
import errno
import io
import os
import re
from collections.abc import Iterator
from typing import IO, Any

from bert_tf.errors import UserError, reason_of
from bert_tf.runtime.lazy import tf

StrPath = str | os.PathLike[str]

SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
MODEL_HUBS = ("hf", "kaggle", "modelscope")  # their handles name models, not files
CHUNK = 1 << 20  # bytes


class RemoteError(OSError, UserError):
    """A store rejected a path, or cannot be reached: an OSError with a message for the user."""

    def __init__(self, code: int, reason: str, path: str, advice: str) -> None:
        super().__init__(code, reason, path)
        self.sentence = f"{path} cannot be reached ({reason}): {advice}."

    def __str__(self) -> str:
        return self.sentence


class RemoteFileNotFoundError(RemoteError, FileNotFoundError):
    """There is nothing at a path of a store."""


def is_remote(path: StrPath) -> bool:
    """Returns whether a path has the scheme of a store, such as gs://bucket/folder."""
    match = SCHEME.match(os.fspath(path))
    return match is not None and match[1].lower() not in MODEL_HUBS


def gfile() -> Any:
    """The module `tf.io.gfile`; starts TensorFlow."""
    return tf.io.gfile


@contextlib.contextmanager
def errors_of(path: StrPath) -> Iterator[None]:
    """Turns TensorFlow's errors about a path in a store into OSErrors."""
    path = os.fspath(path)
    errors = _tensorflow_errors(path)
    try:
        yield
    except errors.NotFoundError:
        reason = os.strerror(errno.ENOENT)
        advice = "check the path and the name of the bucket"
        raise RemoteFileNotFoundError(errno.ENOENT, reason, path, advice) from None
    except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
        advice = "check the credentials of this machine and the permissions of the bucket"
        raise RemoteError(errno.EACCES, _short(error), path, advice) from None
    except errors.OpError as error:
        advice = "check the name of the bucket, the network and the credentials of this machine"
        raise RemoteError(errno.EIO, _short(error), path, advice) from None


def _short(error: Exception) -> str:
    return reason_of(error).rstrip(".: ") or type(error).__name__


def _tensorflow_errors(path: str) -> Any:
    """The module with TensorFlow's errors, after checking that there is a file system for the path."""
    stores = gfile()
    match = SCHEME.match(path)
    scheme = match[1] if match else "file"
    if scheme not in stores.get_registered_schemes():
        with contextlib.suppress(Exception):  # of any type, if it was built for another TensorFlow
            import tensorflow_io  # noqa: F401, it registers s3, az, hdfs and others
        if scheme not in stores.get_registered_schemes():
            reason = f"TensorFlow has no file system for {scheme}:// here"
            advice = (
                "pip install tensorflow-io, in the version for this TensorFlow, mount the bucket as a folder, or copy "
                "the files to this machine"
            )
            raise RemoteError(errno.EPROTONOSUPPORT, reason, path, advice)
    return tf.errors


def open_binary(path: StrPath) -> IO[bytes]:
    """Opens a file in a store for reading bytes, on demand."""
    return io.BufferedReader(_StoreReader(os.fspath(path)), CHUNK)


class _StoreReader(io.RawIOBase):
    """A file in a store, for Python's buffers."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        with errors_of(path):
            if gfile().isdir(path):
                raise RemoteError(errno.EISDIR, os.strerror(errno.EISDIR), path, "pass a file")
            self.file = gfile().GFile(path, "rb")
            self.length = int(self.file.size())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with errors_of(self.path):
            data = self.file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self.length}[whence]
        with errors_of(self.path):
            self.file.seek(start + offset)
        return start + offset

    def tell(self) -> int:
        return int(self.file.tell())

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        super().close()

"""Opens text files for `bert_tf.text.documents`: compressed (by extension), or a byte range; detects non-text.

No TensorFlow here. Anything that is not text raises a UserError with the position.
"""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from typing import IO, Any, TextIO, cast

from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.lazy import module

zstandard = module("zstandard", "Files in .zst need the package zstandard: pip install 'bert-tf[zstd]'.")
RATIOS = {".gz": 3, ".bz2": 4, ".zst": 3, ".parquet": 2}  # text size over file size, roughly: an estimate of the work
BLOCK = 1 << 20  # bytes searched at a time for a boundary
NOT_WHOLE = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)


def compression(path: str) -> str:
    """The extension of a compressed file, ".gz", ".bz2" or ".zst"; "" for any other."""
    extension = os.path.splitext(path)[1]
    return extension if extension in (".gz", ".bz2", ".zst") else ""


@contextlib.contextmanager
def open_text(path: str, start: int = 0, end: int | None = None) -> Iterator[TextIO]:
    """Opens a text file, or the bytes of a plain one from `start` to `end`; errors of reading become UserErrors."""
    try:
        binary = open_binary(path) if end is None and not start else _open_range(path, start, end)
        file = cast(TextIO, io.TextIOWrapper(binary, encoding="utf-8-sig"))  # drops a BOM; line ends are \n
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        try:
            with file:
                yield file
        except UnicodeDecodeError:
            raise UserError(describe_invalid_text(path)) from None
    except NOT_WHOLE as error:
        raise _not_whole(path, error) from None
    except OSError as error:
        if compression(path):  # bz2 has no exception class for files that are not bz2
            raise _not_whole(path, error) from None
        raise
    except Exception as error:
        if type(error).__name__ == "ZstdError":
            raise _not_whole(path, error) from None
        raise


def _not_whole(path: str, error: Exception) -> UserError:
    names = {".gz": "gzip", ".bz2": "bzip2", ".zst": "Zstandard"}
    return UserError(f"{path} is not a whole {names[compression(path)]} file ({error}); write it again.")


def open_binary(path: str) -> IO[bytes]:
    """Opens a file, decompressed by its extension."""
    file = files.open_binary(path)
    match compression(path):
        case ".gz":
            return cast(IO[bytes], gzip.GzipFile(fileobj=file))
        case ".bz2":
            return cast(IO[bytes], bz2.BZ2File(file))
        case ".zst":
            return cast(
                IO[bytes], io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
            )
    return file


class _Range(io.RawIOBase):
    """The bytes of a file from its current position, at most `size`."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file, self.left = file, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.file.read(min(len(buffer), self.left))
        buffer[: len(data)] = data
        self.left -= len(data)
        return len(data)

    def close(self) -> None:
        self.file.close()
        super().close()


def _open_range(path: str, start: int, end: int | None) -> IO[bytes]:
    file = files.open_binary(path)
    file.seek(start)
    size = files.size(path) - start if end is None else max(0, end - start)
    return cast(IO[bytes], io.BufferedReader(_Range(file, size), BLOCK))


def next_boundary(path: str, position: int, pattern: bytes) -> int:
    """Start of the first match that begins at or after `position`; the file's size if there is none."""
    expression = re.compile(pattern)
    with files.open_binary(path) as file:
        file.seek(position)
        data, base = b"", position
        while block := file.read(BLOCK):
            data += block
            if match := expression.search(data):
                return base + match.end()
            cut = max(0, len(data) - 4096)  # a match may be cut by the end of a block
            data, base = data[cut:], base + cut
    return base + len(data)


def describe_invalid_text(path: str) -> str:
    """The error message for a file that is not UTF-8 text, with the place of the first invalid byte."""
    with open_binary(path) as file:
        start, rest = 0, b""
        while block := file.read(1 << 20):
            block = rest + block
            if start == 0 and block[:2] in (b"\xff\xfe", b"\xfe\xff"):
                return f"{path} is UTF-16, not UTF-8 text; convert it, for example with iconv -f UTF-16 -t UTF-8."
            nul = block.find(b"\0")
            invalid, rest = _first_invalid(block)
            if 0 <= nul < invalid:
                return f"{path} is not text: byte {start + nul} is NUL; pass UTF-8 text files."
            if invalid < len(block):
                return f"{path} is not UTF-8: byte {start + invalid} is 0x{block[invalid]:02x}; convert it to UTF-8."
            start += len(block) - len(rest)
    return f"{path} is not UTF-8: byte {start} begins a character that is cut off; convert it to UTF-8."


def _first_invalid(block: bytes) -> tuple[int, bytes]:
    """The index of the first byte that is not UTF-8 (the length if none), and a character cut off at the end."""
    try:
        block.decode("utf-8", errors="strict")
    except UnicodeDecodeError as error:
        if len(block) - error.start < 4 and "unexpected end" in error.reason:
            return len(block), block[error.start :]
        return error.start, b""
    return len(block), b""

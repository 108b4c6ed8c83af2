"""Lines of text files, in any encoding and with any line ends that spreadsheets write. Free of TensorFlow.

Files are UTF-8, or UTF-16 with its mark. Other files are read as Windows-1252 (a superset of Latin-1) with a warning,
unless their bytes contradict it.
"""

import codecs
import io
import logging
import re
from collections.abc import Iterable, Iterator
from typing import IO

from bert_tf.errors import UserError
from bert_tf.runtime import files

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
HEAD = 1 << 16  # bytes searched for line ends
# Words of four letters, none of them ASCII, are Cyrillic, Greek or Chinese, not Western European.
FOREIGN = re.compile(rb"[\xc0-\xff]{4}")
log = logging.getLogger("bert_tf")
_announced: set[str] = set()  # files already reported as Windows-1252: most are read more than once


def read(path: str, *, announced_for: str = "") -> Iterator[str]:
    """Yields the lines of a file with their ends.

    Only a line feed ends a line, because rows may contain U+0085 and U+2028; in a file that begins without one, a
    carriage return does, yielded as a line feed. UserError, with the line, for an unknown encoding and for NUL.
    announced_for: see `Decoder`.
    """
    try:
        file = files.open_binary(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): pass the path of a file.") from None
    with file:
        head = file.read(HEAD)
        file.seek(0)
        if head.startswith(UTF_16):
            lines = _utf16_lines(file, path)
        else:
            ends_in_cr = b"\r" in head and b"\n" not in head
            lines = decode(_cr_lines(file) if ends_in_cr else file, path, announced_for)
        for number, line in enumerate(lines, 1):
            check_text(line, number, path)
            yield line


def decode(lines: Iterable[bytes], name: str, announced_for: str = "") -> Iterator[str]:
    """Yields the lines of the file `name` as text; UserError, with the line, for an unknown encoding."""
    decoder = Decoder(name, announced_for)
    return (decoder.decode(raw, number) for number, raw in enumerate(lines, 1))


def check_text(line: str, number: int, name: str) -> None:
    """Raises UserError for a line with NUL."""
    if "\0" in line:
        raise UserError(f"{name} is not text: line {number} contains NUL; expected UTF-8.")


def _utf16_lines(file: IO[bytes], path: str) -> Iterator[str]:
    """The lines of a file saved as "Unicode text" by Excel."""
    try:
        text = file.read().decode("utf-16").lstrip("\ufeff")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} begins like UTF-16 but is not valid: {error.reason}; save it as UTF-8.") from None
    yield from io.StringIO(text if "\n" in text else text.replace("\r", "\n"), newline="\n")


def _cr_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file with carriage returns as line ends."""
    # Latin-1 has a character for every byte.
    for line in io.TextIOWrapper(file, encoding="latin-1", newline="\r"):
        yield (line.removesuffix("\r") + "\n" if line.endswith("\r") else line).encode("latin-1")


def has_mark(path: str) -> bool:
    """Returns whether a file begins with the byte order mark of UTF-8."""
    if not files.is_file(path):
        return False
    with files.open_binary(path) as file:
        return bool(file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8)


class Decoder:
    """Decodes the lines of a file one after the other.

    Args:
        name: the file's name, for messages.
        announced_for: the Windows-1252 warning is logged once per this name, by default the file's.
    """

    def __init__(self, name: str, announced_for: str = "") -> None:
        self._name, self._announced_for = name, announced_for or name
        self._encoding = ""  # until a byte is not ASCII

    def decode(self, raw: bytes, number: int) -> str:
        """Line `number`, from 1, as text, without a byte order mark; UserError for an unknown encoding."""
        if number == 1:
            if raw.startswith(UTF_16):
                raise UserError(f"{self._name} is UTF-16; save it as UTF-8.")
            while raw.startswith(codecs.BOM_UTF8):  # some programs add another
                raw = raw.removeprefix(codecs.BOM_UTF8)
        if raw.isascii():
            return raw.decode("ascii")
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            return self._decode_western(raw, number, error)
        if self._encoding == "cp1252":
            raise UserError(
                f"{self._name} mixes encodings: line {number} is UTF-8, lines before it are not; {_advice(self._name)}."
            )
        self._encoding = "utf-8"
        return text

    def _decode_western(self, raw: bytes, number: int, error: UnicodeDecodeError) -> str:
        place = f"byte {error.start + 1} of line {number} is 0x{raw[error.start]:02x}"
        refusal = UserError(f"{self._name} is not UTF-8: {place}; {_advice(self._name)}.")
        if self._encoding == "utf-8" or FOREIGN.search(raw):
            raise refusal
        try:
            text = raw.decode("cp1252")
        except UnicodeDecodeError:
            raise refusal from None
        self._encoding = "cp1252"
        if self._announced_for not in _announced:
            _announced.add(self._announced_for)
            log.warning("%s is not UTF-8 (%s): read as Windows-1252.", self._name, place)
        return text


def _advice(name: str) -> str:
    return f"save it as UTF-8{', which Excel calls CSV UTF-8' if name.lower().endswith('.csv') else ''}"

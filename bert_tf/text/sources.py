"""A source of documents: a file or a range of one, and how to read it; its size, parts and fingerprint."""

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator

from bert_tf.runtime import files
from bert_tf.text import corpus_files
from bert_tf.text.corpus_files import RATIOS, compression

BOUNDARIES = {  # a document begins after each match, wherever a file is divided
    "sentences": rb"\n[ \t\r]*\n",
    "paragraphs": rb"\n[ \t\r]*\n",
    "lines": rb"\n",
    "wikipedia": rb"</doc>[ \t\r]*\n",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """One input file and how it is read; `layout` is never "auto".

    start, end: byte range; documents that begin in it are read. Default: the whole file.
    """

    path: str
    layout: str
    language: str
    text_field: str = "text"
    start: int = 0
    end: int | None = None


def parts(sources: Iterable[Source], size: int) -> Iterator[tuple[Source, ...]]:
    """Divides sources into parts of about `size` bytes of text: several small files, or a range of a large one.

    Ranges need a plain file in which a line marks the end of a document; other files are read whole.
    """
    part: list[Source] = []
    filled = 0
    for piece in (piece for source in sources for piece in _ranges(source, size)):
        if part and filled + text_size(piece) > size:
            yield tuple(part)
            part, filled = [], 0
        part.append(piece)
        filled += text_size(piece)
    if part:
        yield tuple(part)


def _ranges(source: Source, size: int) -> Iterator[Source]:
    total = files.size(source.path)
    if _boundary(source) is None or total <= size:
        yield source
        return
    for start in range(0, total, size):
        yield dataclasses.replace(source, start=start, end=min(start + size, total))


def _boundary(source: Source) -> bytes | None:
    if compression(source.path) or source.path.endswith(".parquet"):
        return None
    return rb"\n" if is_json(source) else BOUNDARIES.get(source.layout)


def exact_range(source: Source) -> tuple[int, int | None]:
    """Start of the first document that begins in the range, and of the first one after the range."""
    pattern = _boundary(source)
    if pattern is None or source.end is None:
        return 0, None
    start, end = (
        corpus_files.next_boundary(source.path, position, pattern) if position else 0
        for position in (source.start, source.end)
    )
    return start, end


def text_size(source: Source) -> int:
    """Bytes of text in the source: exact for plain files, estimated for others."""
    if source.end is not None:
        return source.end - source.start
    return files.size(source.path) * RATIOS.get(os.path.splitext(source.path)[1], 1)


def kind_of(source: Source) -> str:
    """The kind of a source for a table: "jsonl" or "parquet", or else its layout."""
    if source.path.endswith(".parquet"):
        return "parquet"
    return "jsonl" if is_json_name(source.path) else source.layout.replace("wikipedia_json", "wikipedia")


def fingerprint(source: Source) -> str:
    """A short string that changes with the file's name, size, first and last 64 KB and how it is read."""
    size = files.size(source.path)
    digest = hashlib.blake2b(digest_size=8)
    with files.open_binary(source.path) as file:
        digest.update(file.read(65536))
        file.seek(max(0, size - 65536))
        digest.update(file.read(65536))
    field = f" {source.text_field}" if is_json(source) or source.path.endswith(".parquet") else ""
    return f"{os.path.basename(source.path)} {size} {digest.hexdigest()} {source.layout} {source.language}{field}"


def is_json_name(path: str) -> bool:
    """Returns whether a path has the name of a JSON lines file."""
    return path.removesuffix(compression(path)).endswith(".jsonl")


def is_json(source: Source) -> bool:
    """Returns whether each line of a source is a JSON object."""
    return source.layout == "wikipedia_json" or is_json_name(source.path)

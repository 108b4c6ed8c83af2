"""Input patterns to documents: files, folders and globs of text become lists of sentences, one document at a time.

No TensorFlow here. A *document* is a list of sentences (str); a *source* is one input file and how it is to be read.
Nothing is read whole: a line of a gigabyte is read in chunks, a document above MAX_DOCUMENT characters is cut at the
end of a sentence into several. `bert_tf.text.sentence_splitting` detects the layout of a text file.
"""

import contextlib
import dataclasses
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, TextIO, cast

from bert_tf.errors import UserError
from bert_tf.runtime import files, json_files
from bert_tf.text.sentence_splitting import MAX_CHUNK, Chunk, detect_language, detect_layout, iterate_sentences

MAX_DOCUMENT = 1_000_000  # characters; keeps memory bounded whatever the files hold
MAX_JSON_LINE = 64 * 1024 * 1024  # characters; json needs its line whole
SAMPLE_SIZE = 65536  # characters from which the layout and the language of a file are detected
LAYOUTS = ("auto", "sentences", "paragraphs", "wrapped", "files")
EXTENSIONS = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz")
GZIP_RATIO = 3  # text size over gzip size, roughly; only an estimate of the work


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """One input file and how it is read; `layout` is never "auto"."""

    path: str
    layout: str
    language: str
    text_field: str = "text"


def find_sources(
    input_file: str | os.PathLike[str], *, text_layout: str = "auto", language: str = "auto", text_field: str = "text"
) -> list[Source]:
    """Resolves comma-separated globs, files and folders (recursive) to sources in a fixed order, each file once.

    Args:
        input_file: the patterns.
        text_layout: "sentences" (one per line, a blank line between documents: the original's), "paragraphs" (one per
            line, a blank line between documents), "wrapped" (hard-wrapped lines, a blank line between paragraphs, the
            file is the document), "files" (the file is the document, each line a paragraph, blank lines are ignored),
            or "auto": detected per file.
        language: for splitting sentences, as `sentencex` names it ("en", "de"), or "auto": "zh" or "ja" if the
            characters say so, else "en".
        text_field: the field of .jsonl files, in which each line is a document.

    Raises:
        UserError: a pattern matches nothing, an extension is not supported, or a file is not text.
    """
    if text_layout not in LAYOUTS:
        raise UserError(f"text_layout={text_layout} was given; use one of {', '.join(LAYOUTS)}.")
    patterns = [pattern.strip() for pattern in str(input_file).split(",") if pattern.strip()]
    if not patterns:
        raise UserError("No input was given; give files, folders or globs of .txt, .txt.gz or .jsonl, with commas.")
    paths = dict.fromkeys(path for pattern in patterns for path in _matches(pattern))
    return [_inspect(path, text_layout=text_layout, language=language, text_field=text_field) for path in paths]


def read_documents(source: Source) -> Iterator[list[str]]:
    """Yields the documents (lists of sentences) of a source; raises UserError where the file is not text."""
    if _is_json(source.path):
        sentences = _json_sentences(source)
    else:
        sentences = iterate_sentences(_line_chunks(source.path), layout=source.layout, language=source.language)
    return group_documents(sentences)


def group_documents(sentences: Iterable[str | None]) -> Iterator[list[str]]:
    """A stream of sentences with None at the end of each document -> documents, none empty, none above MAX_DOCUMENT."""
    document: list[str] = []
    size = 0
    for sentence in sentences:
        if sentence is not None:
            document.append(sentence)
            size += len(sentence)
        if document and (sentence is None or size >= MAX_DOCUMENT):
            yield document
            document, size = [], 0
    if document:
        yield document


def text_size(source: Source) -> int:
    """Bytes of text in the file: exact for plain files, an estimate for .gz."""
    return files.size(source.path) * (GZIP_RATIO if source.path.endswith(".gz") else 1)


def fingerprint(source: Source) -> str:
    """A short string that changes with the file's name, size, first and last 64 KB and how it is read."""
    size = files.size(source.path)
    digest = hashlib.blake2b(digest_size=8)
    with files.open_binary(source.path) as file:
        digest.update(file.read(65536))
        file.seek(max(0, size - 65536))
        digest.update(file.read(65536))
    field = f" {source.text_field}" if _is_json(source.path) else ""
    return f"{os.path.basename(source.path)} {size} {digest.hexdigest()} {source.layout} {source.language}{field}"


def _matches(pattern: str) -> list[str]:
    """The sorted paths that match one pattern; hidden files and folders are skipped, as in a shell."""
    if files.is_folder(pattern):
        paths = [path for path in files.walk(pattern) if not _is_hidden(path.removeprefix(pattern))]
    elif files.is_file(pattern):
        if not pattern.endswith(EXTENSIONS):
            raise UserError(f"{pattern} has an unsupported extension; give {', '.join(EXTENSIONS)} files.")
        return [pattern]
    else:
        paths = [path for path in files.glob(pattern) if files.is_file(path)]
    if not paths and not files.is_folder(pattern):
        raise UserError(f"No file matches {pattern}; give existing files, folders or globs, separated by commas.")
    supported = [path for path in paths if path.endswith(EXTENSIONS)]
    if not supported:
        raise UserError(f"{pattern} holds no {', '.join(EXTENSIONS)} file ({len(paths)} files of other kinds).")
    return supported


def _is_hidden(relative_path: str) -> bool:
    return any(part.startswith(".") for part in relative_path.split(os.sep))


def _is_json(path: str) -> bool:
    return path.endswith((".jsonl", ".jsonl.gz"))


def _inspect(path: str, *, text_layout: str, language: str, text_field: str) -> Source:
    """Detects the layout and language of a file from its beginning, unless they are given."""
    with _open_text(path) as file:
        sample = file.read(SAMPLE_SIZE)
    if _is_json(path):
        first_line = sample.split("\n", 1)[0]
        try:
            sample = str(json_files.parse(first_line, lone_surrogates=True).get(text_field, ""))
        except (ValueError, AttributeError):
            sample = first_line  # truncated or malformed: reading the file will tell which
    language = detect_language(sample) if language == "auto" else language
    if _is_json(path):
        layout = "files" if text_layout == "auto" else text_layout
    else:
        layout = detect_layout(sample, language) if text_layout == "auto" else text_layout
    return Source(path=path, layout=layout, language=language, text_field=text_field)


@contextlib.contextmanager
def _open_text(path: str) -> Iterator[TextIO]:
    """Opens a text file (gzip by its extension) and turns every way of not being text into a UserError."""
    try:
        file = cast(TextIO, io.TextIOWrapper(_open_binary(path), encoding="utf-8-sig"))  # drops a BOM; line ends are \n
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        try:
            with file:
                yield file
        except UnicodeDecodeError:
            raise UserError(_describe_invalid_text(path)) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file ({error}); write it again.") from None


def _open_binary(path: str) -> IO[bytes]:
    """Opens a file, which is decompressed if its name ends in .gz."""
    file = files.open_binary(path)
    return cast(IO[bytes], gzip.GzipFile(fileobj=file)) if path.endswith(".gz") else file


def _describe_invalid_text(path: str) -> str:
    """The error message for a file that is not UTF-8 text: where the first invalid byte is."""
    with _open_binary(path) as file:
        start, rest = 0, b""
        while block := file.read(1 << 20):
            block = rest + block
            if start == 0 and block[:2] in (b"\xff\xfe", b"\xfe\xff"):
                return f"{path} is UTF-16, not UTF-8 text; convert it, for example with iconv -f UTF-16 -t UTF-8."
            nul = block.find(b"\0")
            invalid, rest = _first_invalid(block)
            if 0 <= nul < invalid:
                return f"{path} is not text: byte {start + nul} is NUL; give UTF-8 text files."
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


def _line_chunks(path: str) -> Iterator[Chunk]:
    """Yields the lines of a text file; a long line is split into several chunks, of which only the last ends it."""
    with _open_text(path) as file:
        while text := file.readline(MAX_CHUNK):
            if "\0" in text:
                raise UserError(_describe_invalid_text(path))
            ends_line = text.endswith("\n")
            yield (text[:-1] if ends_line else text), ends_line
        yield "", True  # closes a last line without a line end


def _json_sentences(source: Source) -> Iterator[str | None]:
    """Yields the sentences of the documents in a .jsonl file, None after each document."""
    with _open_text(source.path) as file:
        number = 0
        while line := file.readline(MAX_JSON_LINE):
            number += 1
            if len(line) == MAX_JSON_LINE:
                raise UserError(f"{source.path} line {number} is longer than {MAX_JSON_LINE >> 20} MB; split it up.")
            if not line.strip():
                continue
            chunks = ((part, True) for part in _json_text(line, number, source).split("\n"))
            for sentence in iterate_sentences(chunks, layout=source.layout, language=source.language):
                if sentence is not None:
                    yield sentence
            yield None


def _json_text(line: str, number: int, source: Source) -> str:
    """The text of one line of a .jsonl file; raises UserError with the line number."""
    try:
        record = json_files.parse(line, lone_surrogates=True)
    except ValueError as error:
        raise UserError(f"{source.path} line {number} is not JSON ({error}); give one JSON object per line.") from None
    text = record.get(source.text_field) if isinstance(record, dict) else None
    if not isinstance(text, str):
        fields = ", ".join(record) if isinstance(record, dict) else f"none, it is a {type(record).__name__}"
        raise UserError(
            f'{source.path} line {number} has no text in the field "{source.text_field}" (its fields: {fields}); '
            "name the field with --text_field."
        )
    return text.encode("utf-8", "ignore").decode()  # drops escaped lone surrogates, which are not characters

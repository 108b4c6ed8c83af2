"""Input patterns to documents: files, folders and globs of text become lists of sentences, one document at a time.

No TensorFlow here. A *document* is a list of sentences (str); a *source* is one input file, or a range of one, and how
it is to be read. Nothing is read whole: a line of a gigabyte is read in chunks, a document above MAX_DOCUMENT
characters is cut at the end of a sentence into several. `bert_tf.text.sentence_splitting` detects the layout of a text
file, `bert_tf.text.corpus_files` opens it.
"""

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from bert_tf.errors import UserError, count_text
from bert_tf.runtime import files, json_files
from bert_tf.runtime.lazy import module
from bert_tf.text import corpus_files, wikipedia
from bert_tf.text.corpus_files import RATIOS, compression, open_text
from bert_tf.text.sentence_splitting import MAX_CHUNK, Chunk, detect_language, detect_layout, iterate_sentences

parquet = module("pyarrow.parquet", "Parquet needs the package pyarrow: pip install 'bert-tf[parquet]'.")
pyarrow = module("pyarrow")
MAX_DOCUMENT = 1_000_000  # characters; keeps memory bounded whatever the files hold
MAX_JSON_LINE = 64 * 1024 * 1024  # characters; json needs its line whole
SAMPLE_SIZE = 65536  # characters from which the layout and the language of a file are detected
LAYOUTS = ("auto", "sentences", "paragraphs", "lines", "wrapped", "files", "wikipedia")
EXTENSIONS = tuple(kind + end for kind in (".txt", ".jsonl") for end in ("", ".gz", ".bz2", ".zst")) + (".parquet",)
EXTRACTED = re.compile(r"wiki_\d+(\.(gz|bz2|zst))?")  # the names that wikiextractor gives
BOUNDARIES = {  # after a match of these a document begins, wherever a file is divided
    "sentences": rb"\n[ \t\r]*\n",
    "paragraphs": rb"\n[ \t\r]*\n",
    "lines": rb"\n",
    "wikipedia": rb"</doc>[ \t\r]*\n",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """One input file and how it is read; `layout` is never "auto".

    start, end: the range of its bytes of which the documents are read that begin there; the whole file by default.
    """

    path: str
    layout: str
    language: str
    text_field: str = "text"
    start: int = 0
    end: int | None = None


def find_sources(
    input_file: str | os.PathLike[str], *, text_layout: str = "auto", language: str = "auto", text_field: str = "text"
) -> list[Source]:
    """Resolves comma-separated globs, files and folders (recursive) to sources in a fixed order, each file once.

    Args:
        input_file: the patterns.
        text_layout: "sentences" (one per line, a blank line between documents: the original's), "paragraphs" (one per
            line, a blank line between documents), "lines" (each line is a document), "wrapped" (hard-wrapped lines, a
            blank line between paragraphs, the file is the document), "files" (the file is the document, each line a
            paragraph, blank lines are ignored), "wikipedia" (articles as wikiextractor writes them, cleaned), or
            "auto": detected per file; a single file is not one document, so "paragraphs" stands for "files" there, and
            for "lines" in several files.
        language: for splitting sentences, as `sentencex` names it ("en", "de"), or "auto": "zh" or "ja" if the
            characters say so, else "en".
        text_field: the field of .jsonl files, in which each line is a document, and the column of .parquet files.

    Raises:
        UserError: a pattern matches nothing, an extension is not supported, or a file is not text.
    """
    if text_layout not in LAYOUTS:
        raise UserError(f"text_layout={text_layout} was given; use one of {', '.join(LAYOUTS)}.")
    patterns = [pattern.strip() for pattern in str(input_file).split(",") if pattern.strip()]
    if not patterns:
        raise UserError("No input was given; pass files, folders or globs of .txt, .jsonl or .parquet, with commas.")
    paths = dict.fromkeys(path for pattern in patterns for path in _matches(pattern))
    sources = [_inspect(path, text_layout=text_layout, language=language, text_field=text_field) for path in paths]
    divided = "files" if len(sources) == 1 else "lines"
    return [
        dataclasses.replace(source, layout="paragraphs")
        if text_layout == "auto" and kind(source) == divided
        else source
        for source in sources
    ]


def parts(sources: Iterable[Source], size: int) -> Iterator[tuple[Source, ...]]:
    """Divides sources into parts of about `size` bytes of text: several small files, or a range of a large one.

    Ranges need a plain file in which documents end where a line says so; other files are read whole.
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
    return rb"\n" if _is_json(source) else BOUNDARIES.get(source.layout)


def _exact_range(source: Source) -> tuple[int, int | None]:
    """Starts of the first document that begins in the range, and of the first after it."""
    pattern = _boundary(source)
    if pattern is None or source.end is None:
        return 0, None
    start, end = (
        corpus_files.next_boundary(source.path, position, pattern) if position else 0
        for position in (source.start, source.end)
    )
    return start, end


def read_documents(source: Source, damage: list[str] | None = None) -> Iterator[list[str]]:
    """Yields the documents (lists of sentences) of a source.

    Where the file is not text it raises UserError; or, if `damage` is a list, it appends a sentence on which documents
    are lost and goes on with the next line (.jsonl), or ends.
    """
    number = 0
    try:
        if source.path.endswith(".parquet"):
            sentences = _texts_as_sentences(_parquet_texts(source), source)
        elif _is_json(source):
            sentences = _texts_as_sentences(_json_texts(source, damage), source)
        elif source.layout == "wikipedia":
            sentences = _texts_as_sentences(_extracted_texts(source), source)
        else:
            sentences = iterate_sentences(_line_chunks(source), layout=source.layout, language=source.language)
        for document in group_documents(sentences):
            yield document
            number += 1
    except UserError as error:
        if damage is None:
            raise
        damage.append(f"{str(error).removesuffix('.')}. {_what_is_lost(source, number)}")


def _what_is_lost(source: Source, number: int) -> str:
    if source.path.endswith(".parquet"):
        try:
            return f"{number:,} of its {parquet_file(source.path).metadata.num_rows:,} rows were read."
        except UserError:
            return "None of its rows was read."
    where = f" from byte {source.start:,} to {source.end:,}" if source.end is not None else ""
    return f"{count_text(number, 'document')}{where} could be read, and what comes after them is lost."


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
    """Bytes of text in the source: exact for plain files, an estimate for the others."""
    if source.end is not None:
        return source.end - source.start
    return files.size(source.path) * RATIOS.get(os.path.splitext(source.path)[1], 1)


def kind(source: Source) -> str:
    """The kind of a source for a table: "jsonl" or "parquet", or else its layout."""
    if source.path.endswith(".parquet"):
        return "parquet"
    return "jsonl" if _is_json_name(source.path) else source.layout.replace("wikipedia_json", "wikipedia")


def fingerprint(source: Source) -> str:
    """A short string that changes with the file's name, size, first and last 64 KB and how it is read."""
    size = files.size(source.path)
    digest = hashlib.blake2b(digest_size=8)
    with files.open_binary(source.path) as file:
        digest.update(file.read(65536))
        file.seek(max(0, size - 65536))
        digest.update(file.read(65536))
    field = f" {source.text_field}" if _is_json(source) or source.path.endswith(".parquet") else ""
    return f"{os.path.basename(source.path)} {size} {digest.hexdigest()} {source.layout} {source.language}{field}"


def _matches(pattern: str) -> list[str]:
    """The sorted paths that match one pattern; hidden files and folders are skipped, as in a shell."""
    if files.is_folder(pattern):
        paths = [path for path in files.walk(pattern) if not _is_hidden(path.removeprefix(pattern))]
    elif files.is_file(pattern):
        if not _is_supported(pattern):
            raise UserError(f"{pattern} has an unsupported extension; pass {', '.join(EXTENSIONS)} files.")
        return [pattern]
    else:
        paths = [path for path in files.glob(pattern) if files.is_file(path)]
    if not paths and not files.is_folder(pattern):
        raise UserError(f"No file matches {pattern}; pass existing files, folders or globs, separated by commas.")
    supported = [path for path in paths if _is_supported(path)]
    if not supported:
        raise UserError(f"{pattern} holds no {', '.join(EXTENSIONS)} file ({len(paths)} files of other kinds).")
    return supported


def _is_hidden(relative_path: str) -> bool:
    return any(part.startswith(".") for part in relative_path.split(os.sep))


def _is_supported(path: str) -> bool:
    return path.endswith(EXTENSIONS) or EXTRACTED.fullmatch(os.path.basename(path)) is not None


def _is_json_name(path: str) -> bool:
    return path.removesuffix(compression(path)).endswith(".jsonl")


def _is_json(source: Source) -> bool:
    return source.layout == "wikipedia_json" or _is_json_name(source.path)


def _inspect(path: str, *, text_layout: str, language: str, text_field: str) -> Source:
    """Detects the layout and language of a file from its beginning, unless they are given."""
    sample = _sample(path, text_field)
    layout = text_layout
    if path.endswith(".parquet"):
        layout = "files" if text_layout == "auto" else text_layout
    elif _is_json_name(path) or EXTRACTED.fullmatch(os.path.basename(path)) and sample[:1] == "{":
        if text_layout == "wikipedia" or not _is_json_name(path):
            layout = "wikipedia_json"
        elif text_layout == "auto":
            layout = "files"
        sample = _text_of_first_line(sample, text_field)
    language = detect_language(sample) if language == "auto" else language
    if layout == "auto":
        layout = "wikipedia" if wikipedia.is_extracted(sample) else detect_layout(sample, language)
    return Source(path=path, layout=layout, language=language, text_field=text_field)


def _sample(path: str, text_field: str) -> str:
    if path.endswith(".parquet"):
        return next(_parquet_texts(Source(path=path, layout="files", language="en", text_field=text_field)), "")
    with open_text(path) as file:
        return file.read(SAMPLE_SIZE)


def _text_of_first_line(sample: str, text_field: str) -> str:
    first_line = sample.split("\n", 1)[0]
    try:
        return str(json_files.parse(first_line, lone_surrogates=True).get(text_field, ""))
    except (ValueError, AttributeError):
        return first_line  # truncated or malformed: reading the file will tell which


def _line_chunks(source: Source) -> Iterator[Chunk]:
    """Yields the lines of a text file; a long line is split into several chunks, of which only the last ends it."""
    with open_text(source.path, *_exact_range(source)) as file:
        while text := file.readline(MAX_CHUNK):
            if "\0" in text:
                raise UserError(corpus_files.describe_invalid_text(source.path))
            ends_line = text.endswith("\n")
            yield (text[:-1] if ends_line else text), ends_line
        yield "", True  # closes a last line without a line end


def _texts_as_sentences(texts: Iterable[str], source: Source) -> Iterator[str | None]:
    layout = "files" if source.layout.startswith("wikipedia") else source.layout
    for text in texts:
        chunks = ((part, True) for part in text.split("\n"))
        for sentence in iterate_sentences(chunks, layout=layout, language=source.language):
            if sentence is not None:
                yield sentence
        yield None


def _extracted_texts(source: Source) -> Iterator[str]:
    with open_text(source.path, *_exact_range(source)) as file:
        for title, lines in wikipedia.articles(file):
            yield "\n".join(wikipedia.clean(title, lines))


def _json_texts(source: Source, damage: list[str] | None) -> Iterator[str]:
    first, end = _exact_range(source)
    with open_text(source.path, first, end) as file:
        number = 0
        where = f" after byte {first:,}" if first else ""
        while line := file.readline(MAX_JSON_LINE):
            number += 1
            if len(line) == MAX_JSON_LINE:
                raise UserError(f"{source.path} line {number} is longer than {MAX_JSON_LINE >> 20} MB; split it up.")
            if not line.strip():
                continue
            try:
                yield _json_text(line, f"line {number}{where}", source)
            except UserError as error:
                if damage is None:
                    raise
                damage.append(f"{str(error).removesuffix('.')}. One document is lost.")


def _json_text(line: str, place: str, source: Source) -> str:
    """The text of one line of a .jsonl file; raises UserError with its place."""
    try:
        record = json_files.parse(line, lone_surrogates=True)
    except ValueError as error:
        raise UserError(f"{source.path} {place} is not JSON ({error}); pass one JSON object per line.") from None
    text = record.get(source.text_field) if isinstance(record, dict) else None
    if not isinstance(text, str):
        fields = ", ".join(record) if isinstance(record, dict) else f"none, it is a {type(record).__name__}"
        raise UserError(
            f'{source.path} {place} has no text in the field "{source.text_field}" (its fields: {fields}); '
            "name the field with --text_field."
        )
    text = text.encode("utf-8", "ignore").decode()  # drops escaped lone surrogates, which are not characters
    if source.layout == "wikipedia_json":
        return "\n".join(wikipedia.clean(str(record.get("title", "")), text.split("\n")))
    return text


def parquet_file(path: str) -> Any:
    """A pyarrow.parquet.ParquetFile; raises UserError without pyarrow, or for another kind of file."""
    opened = parquet.ParquetFile
    try:
        return opened(files.open_binary(path))
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"Cannot read {path} as Parquet: {error}.") from None


def _parquet_texts(source: Source) -> Iterator[str]:
    """The texts of a column of a .parquet file, 256 rows in memory at once."""
    file = parquet_file(source.path)
    if source.text_field not in file.schema_arrow.names:
        raise UserError(
            f'{source.path} has no column "{source.text_field}" (its columns: {", ".join(file.schema_arrow.names)}); '
            "name it with --text_field."
        )
    try:
        for batch in file.iter_batches(256, columns=[source.text_field]):
            for value in batch.column(0).to_pylist():
                yield "" if value is None else str(value)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{source.path} is damaged: {error}.") from None

"""Sources to documents: each a list of sentences, one at a time.

Nothing is read whole: a line of a gigabyte is read in chunks, a document above MAX_DOCUMENT characters is split into
several, each ending with a sentence.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from bert_tf.errors import UserError, count_text
from bert_tf.runtime import files, json_files
from bert_tf.runtime.lazy import module
from bert_tf.text import corpus_files, wikipedia
from bert_tf.text.corpus_files import open_text
from bert_tf.text.sentence_splitting import MAX_CHUNK, Chunk, iterate_sentences
from bert_tf.text.sources import Source, exact_range, is_json

parquet = module("pyarrow.parquet", "Parquet needs the package pyarrow: pip install 'bert-tf[parquet]'.")
pyarrow = module("pyarrow")
MAX_DOCUMENT = 1_000_000  # characters; bounds memory whatever the files contain
MAX_JSON_LINE = 64 * 1024 * 1024  # characters; json requires the whole line


def read_documents(source: Source, damage: list[str] | None = None) -> Iterator[list[str]]:
    """Yields the documents (lists of sentences) of a source.

    If the file is not text, raises UserError; or, if `damage` is a list, appends a sentence on the lost documents and
    resumes at the next line (.jsonl), or ends.
    """
    number = 0
    try:
        if source.path.endswith(".parquet"):
            sentences = _texts_as_sentences(parquet_texts(source), source)
        elif is_json(source):
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
    return f"{count_text(number, 'document')}{where} could be read; the rest is lost."


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


def _line_chunks(source: Source) -> Iterator[Chunk]:
    """Yields the lines of a text file; a long line is split into several chunks; only the last one ends it."""
    with open_text(source.path, *exact_range(source)) as file:
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
    with open_text(source.path, *exact_range(source)) as file:
        for title, lines in wikipedia.articles(file):
            yield "\n".join(wikipedia.clean(title, lines))


def _json_texts(source: Source, damage: list[str] | None) -> Iterator[str]:
    first, end = exact_range(source)
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
    """The text of one line of a .jsonl file; raises UserError that names the line."""
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
    """A pyarrow.parquet.ParquetFile; raises UserError without pyarrow, or for a file that is not Parquet."""
    opened = parquet.ParquetFile
    try:
        return opened(files.open_binary(path))
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"Cannot read {path} as Parquet: {error}.") from None


def parquet_texts(source: Source) -> Iterator[str]:
    """The texts in a column of a .parquet file, with 256 rows in memory at a time."""
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

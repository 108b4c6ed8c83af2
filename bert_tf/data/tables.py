"""Rows of TSV, CSV and JSONL files by the names of their columns, each with its line number. Free of TensorFlow.

In a TSV file every character is literal: a quote has no meaning, only tabs and line feeds separate. GLUE's files are
written like this, and a reader that interprets quotes loses rows of them. CSV follows RFC 4180; if its header has no
comma but a semicolon, semicolons separate the fields, as Excel writes it in many locales.
"""

import csv
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import files

EXTENSIONS = (".tsv", ".csv", ".jsonl")


def read(
    path: str, columns: Sequence[str] | None = None, *, malformed: list[int] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, {column: text}) of every row; a row of JSONL may hold numbers and lists too.

    Args:
        path: the file.
        columns: the names of the columns of a TSV or CSV file without a header. White space around the names in a
            header is dropped. Columns with an empty name may be repeated, and empty fields after the last one are
            ignored.
        malformed: a list to which the lines of rows with more or fewer fields than columns are added; these rows are
            skipped.

    Raises:
        UserError: with the line, for a row with more or fewer fields than columns, invalid UTF-8, NUL, malformed CSV
            or JSON; for a column name that is repeated; for a file that is missing, of another kind or without rows.
    """
    extension = os.path.splitext(path)[1].lower()
    if extension not in EXTENSIONS:
        raise UserError(f"{path} is no table that can be read; expected a name that ends in {', '.join(EXTENSIONS)}.")
    lines = read_lines(path)
    if extension == ".jsonl":
        rows = _objects(path, lines)
    else:
        rows = _named_rows(path, _fields(path, lines, extension), columns, malformed)
    is_empty = True
    for row in rows:
        is_empty = False
        yield row
    if is_empty:
        raise UserError(f"{path} holds no rows; expected at least one{'' if columns else ' below the header'}.")


def column_names(path: str) -> list[str]:
    """The names in the header of a TSV or CSV file, or the fields of the first object of a JSONL file."""
    return list(next(read(path))[1])


def check_columns(path: str, row: Mapping[str, Any], required: Iterable[str]) -> None:
    """Raises UserError if one of the required columns is not in a row."""
    missing = [name for name in required if name not in row]
    if missing:
        raise UserError(f"{path} has no column {', '.join(map(repr, missing))}; its columns: {', '.join(row)}.")


def row_id(row: Mapping[str, Any], column: str, location: str) -> str:
    """The id in a column of a row; UserError if it is neither a text nor a whole number, as JSON may have it."""
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UserError(f"In {location} the id is {value!r}; expected a text or a whole number in {column}.")
    return str(value)


def find_table(folder: str, name: str) -> str | None:
    """The path of the table `name` in a folder, whatever its extension; None if there is none. UserError if several."""
    candidates = [os.path.join(folder, name + extension) for extension in EXTENSIONS]
    paths = [path for path in candidates if files.is_file(path)]
    if len(paths) > 1:
        raise UserError(f"There are several files for {name!r}: {', '.join(paths)}; leave one of them.")
    return paths[0] if paths else None


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a UTF-8 file with their ends. Only a line feed ends one: rows hold U+0085 and U+2028."""
    try:
        file = files.open_binary(path)  # noqa: SIM115 (only errors of opening are caught)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give the path of a file.") from None
    with file:
        for number, raw in enumerate(file, 1):
            line = decode_line(raw, number, path)
            if "\0" in line:
                raise UserError(f"{path} is not text: line {number} holds NUL; expected UTF-8.")
            yield line


def decode_line(raw: bytes, number: int, name: str) -> str:
    """Decodes line `number`, from 1, of `name`, without a byte order mark; UserError if it is not UTF-8."""
    if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise UserError(f"{name} is UTF-16, as Excel's Unicode text; save it as UTF-8, a table as CSV UTF-8.")
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name} is not UTF-8: byte {error.start + 1} of line {number} is 0x{raw[error.start]:02x}; "
            "save it as UTF-8."
        ) from None


def _fields(path: str, lines: Iterator[str], extension: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, list of fields); empty lines are skipped."""
    if extension == ".tsv":
        for number, line in enumerate(lines, 1):
            line = line.removesuffix("\n").removesuffix("\r")
            if line:
                yield number, line.split("\t")
        return
    csv.field_size_limit(sys.maxsize)  # a field may be a whole document
    header = next(lines, "")
    is_semicolon = ";" in header and len(next(csv.reader([header]))) == 1
    reader = csv.reader(itertools.chain([header], lines), strict=True, delimiter=";" if is_semicolon else ",")
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UserError(
                f"{path} is not CSV at line {reader.line_num} ({error}): quote a text that has quotes, and double them."
            ) from None
        if row is None:
            return
        if row:
            yield reader.line_num, row


def _named_rows(
    path: str,
    rows: Iterable[tuple[int, list[str]]],
    columns: Sequence[str] | None,
    malformed: list[int] | None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, fields in rows:
        if columns is None:
            columns = _parse_header(path, fields)
            continue
        if len(fields) > len(columns) and not any(fields[len(columns) :]):  # a spreadsheet's empty columns
            fields = fields[: len(columns)]
        if len(fields) != len(columns):
            if malformed is not None:
                malformed.append(number)
                continue
            raise UserError(
                f"Line {number} of {path} has {len(fields)} fields; expected {len(columns)} ({', '.join(columns)})."
            )
        yield number, dict(zip(columns, fields, strict=True))


def _parse_header(path: str, fields: Sequence[str]) -> list[str]:
    names = [name.strip() for name in fields]
    repeated = sorted({name for name in names if name and names.count(name) > 1})
    if repeated:
        raise UserError(f"{path} has several columns {', '.join(map(repr, repeated))}; give each a name of its own.")
    return names


def _objects(path: str, lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"Line {number} of {path} is not JSON ({error}); expected one object per line.") from None
        if not isinstance(row, dict):
            raise UserError(f"Line {number} of {path} is a JSON {type(row).__name__}; expected an object.")
        yield number, row

"""Rows of tables by the names of their columns, each with its place in the file. Free of TensorFlow.

TSV, CSV and JSONL are read here; Excel workbooks, Parquet files and folders of texts in `bert_tf.data.table_files`.
In a TSV file every character is literal: a quote has no meaning, only tabs and line feeds separate. GLUE's files are
written like this, and a reader that interprets quotes loses rows of them. CSV follows RFC 4180; if its header has no
comma but a semicolon or a tab, that separates the fields, as Excel writes it in many locales.
"""

import codecs
import csv
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from bert_tf.data import table_files
from bert_tf.errors import UserError
from bert_tf.runtime import files, json_files

Rows = Iterator[tuple[str, dict[str, Any]]]


def read(path: str, columns: Sequence[str] | None = None, *, malformed: list[str] | None = None) -> Rows:
    """Yields (place, {column: text}) of every row, where place is "line 5 of reviews.csv", for messages.

    Rows of JSONL and Parquet may hold numbers and lists too. A folder with a folder of .txt files for each class is a
    table with the columns "text", "label" (the name of the inner folder) and "file".

    Args:
        path: the file or folder.
        columns: the names of the columns of a TSV or CSV file without a header. White space around the names in a
            header is dropped. Columns with an empty name may be repeated, and empty fields after the last one are
            ignored.
        malformed: a list to which the places of rows with more or fewer fields than columns are added; these rows are
            skipped.

    Raises:
        UserError: with the place, for a row with more or fewer fields than columns, an invalid encoding, NUL, malformed
            CSV or JSON; for a column name that is repeated; for a file that is missing, of another kind or without
            rows.
    """
    extension = _extension(path)
    if extension not in READERS:
        raise UserError(
            f"{path} is no table that can be read; expected a name that ends in {', '.join(EXTENSIONS)}, or a folder "
            "with a folder of .txt files for each class."
        )
    is_empty = True
    for row in READERS[extension](path, columns, malformed):
        is_empty = False
        yield row
    if is_empty:
        raise UserError(f"{path} holds no rows; expected at least one{'' if columns else ' below the header'}.")


def is_table(path: str) -> bool:
    """Whether a path has the name of a table, or is a folder of texts by class."""
    return _extension(path) in READERS


def _extension(path: str) -> str:
    """The key of READERS for a path."""
    extension = os.path.splitext(path)[1].lower()
    return FOLDER if extension not in READERS and table_files.is_folder_of_classes(path) else extension


def column_names(path: str) -> list[str]:
    """The names in the header of a table, or the fields of the first object of a JSONL file."""
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
    paths += filter(table_files.is_folder_of_classes, [os.path.join(folder, name)])
    if len(paths) > 1:
        raise UserError(f"There are several files for {name!r}: {', '.join(paths)}; leave one of them.")
    return paths[0] if paths else None


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a file in UTF-8, or UTF-16 with its mark, with their ends.

    Only a line feed ends a line: rows hold U+0085 and U+2028.
    """
    try:
        file = files.open_binary(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give the path of a file.") from None
    with file:
        is_utf16 = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        file.seek(0)
        lines = _utf16_lines(file, path) if is_utf16 else _utf8_lines(file, path)
        for number, line in enumerate(lines, 1):
            if "\0" in line:
                raise UserError(f"{path} is not text: line {number} holds NUL; expected UTF-8.")
            yield line


def _utf8_lines(file: IO[bytes], path: str) -> Iterator[str]:
    return (decode_line(raw, number, path) for number, raw in enumerate(file, 1))


def _utf16_lines(file: IO[bytes], path: str) -> Iterator[str]:
    """The lines of "Unicode text" as Excel saves it."""
    try:
        yield from io.StringIO(file.read().decode("utf-16"), newline="\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-16, as its first bytes say: {error.reason}; save it as UTF-8.") from None


def decode_line(raw: bytes, number: int, name: str) -> str:
    """Decodes line `number`, from 1, of `name`, without a byte order mark; UserError if it is not UTF-8."""
    if number == 1 and raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise UserError(f"{name} is UTF-16; save it as UTF-8.")
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        from_excel = ", which Excel calls CSV UTF-8" if name.lower().endswith(".csv") else ""
        raise UserError(
            f"{name} is not UTF-8: byte {error.start + 1} of line {number} is 0x{raw[error.start]:02x}; "
            f"save it as UTF-8{from_excel}."
        ) from None


def _read_tsv(path: str, columns: Sequence[str] | None, malformed: list[str] | None) -> Rows:
    lines = ((number, line.removesuffix("\n").removesuffix("\r")) for number, line in enumerate(read_lines(path), 1))
    return _named_rows(path, "line", ((number, line.split("\t")) for number, line in lines if line), columns, malformed)


def _read_csv(path: str, columns: Sequence[str] | None, malformed: list[str] | None) -> Rows:
    return _named_rows(path, "line", _csv_fields(path, read_lines(path)), columns, malformed)


def _csv_fields(path: str, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, list of fields); empty lines are skipped."""
    csv.field_size_limit(sys.maxsize)  # a field may be a whole document
    header = next(lines, "")
    reader = csv.reader(itertools.chain([header], lines), strict=True, delimiter=_delimiter(header))
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


def _delimiter(header: str) -> str:
    try:
        has_commas = len(next(csv.reader([header]), [])) > 1
    except csv.Error:  # the reader of the file names the line
        has_commas = True
    return "," if has_commas else next((sign for sign in ";\t" if sign in header), ",")


def _read_excel(path: str, columns: Sequence[str] | None, malformed: list[str] | None) -> Rows:
    return _named_rows(path, "row", table_files.excel_fields(path), columns, malformed)


def _read_parquet(path: str, columns: Sequence[str] | None, malformed: list[str] | None) -> Rows:
    return ((f"row {number} of {path}", row) for number, row in enumerate(table_files.parquet_rows(path), 1))


def _read_folder(path: str, columns: Sequence[str] | None, malformed: list[str] | None) -> Rows:
    return ((row["file"], row) for row in table_files.texts_by_class(path))


def _named_rows(
    path: str,
    unit: str,
    rows: Iterable[tuple[int, list[str]]],
    columns: Sequence[str] | None,
    malformed: list[str] | None,
) -> Rows:
    for number, fields in rows:
        if columns is None:
            columns = _parse_header(path, fields)
            continue
        if len(fields) > len(columns) and not any(fields[len(columns) :]):  # a spreadsheet's empty columns
            fields = fields[: len(columns)]
        place = f"{unit} {number} of {path}"
        if len(fields) != len(columns):
            if malformed is not None:
                malformed.append(place)
                continue
            raise UserError(
                f"{place[0].upper()}{place[1:]} has {len(fields)} fields; expected {len(columns)} "
                f"({', '.join(columns)})."
            )
        yield place, dict(zip(columns, fields, strict=True))


def _parse_header(path: str, fields: Sequence[str]) -> list[str]:
    names = [name.strip() for name in fields]
    repeated = sorted({name for name in names if name and names.count(name) > 1})
    if repeated:
        raise UserError(f"{path} has several columns {', '.join(map(repr, repeated))}; give each a name of its own.")
    return names


def _read_jsonl(path: str, columns: Sequence[str] | None, malformed: list[str] | None) -> Rows:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json_files.parse(line)
        except ValueError as error:
            raise UserError(f"Line {number} of {path} is not JSON ({error}); expected one object per line.") from None
        if not isinstance(row, dict):
            raise UserError(f"Line {number} of {path} is a JSON {type(row).__name__}; expected an object.")
        yield f"line {number} of {path}", row


Reader = Callable[[str, Sequence[str] | None, list[str] | None], Rows]  # the arguments of `read`
FOLDER = "/"
# A format is a row here.
READERS: dict[str, Reader] = {
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".xlsx": _read_excel,
    ".parquet": _read_parquet,
    FOLDER: _read_folder,
}
EXTENSIONS = tuple(name for name in READERS if name != FOLDER)

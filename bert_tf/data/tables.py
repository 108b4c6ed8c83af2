"""Rows of tables by column name, each with its place in the file. Free of TensorFlow.

TSV, CSV and JSON are read here; Excel workbooks, Parquet files and folders of texts in `bert_tf.data.table_files`.
In a TSV file every character is literal: quotes have no meaning, only tabs and line feeds separate. GLUE's files are
written like this, and a reader that interprets quotes loses rows. CSV follows RFC 4180; if the header has no comma but
a semicolon, tab or bar (Excel's output in many locales), that is the separator, as is the one of a first line such as
sep=;
"""

import csv
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_tf.data import table_files, text_lines
from bert_tf.data.table_files import without_nan
from bert_tf.errors import UserError, listed, meant
from bert_tf.runtime import files, json_files

Rows = Iterator[tuple[str, dict[str, Any]]]

SEPARATORS = ";\t|"  # separators of a CSV file whose header has no comma
SEPARATOR_LINE = re.compile(r'"?sep=(\\t|[^"]?)"?', re.IGNORECASE)  # read by Excel and written by some programs


def read(path: str, columns: Sequence[str] | None = None, *, malformed: list[str] | None = None) -> Rows:
    """Yields (place, {column: text}) for every row; place is for messages, such as "line 5 of reviews.csv".

    Rows of JSON and Parquet may contain numbers and lists too; NaN and null are None. A folder with a folder of .txt
    files for each class is a table with the columns "text", "label" (the name of the inner folder) and "file".

    Args:
        path: the file or folder.
        columns: the column names of a TSV or CSV file without a header. White space around the names in a header is
            dropped. Columns with an empty name may be repeated, and empty fields after the last one are ignored.
        malformed: a list that collects the places of rows with more or fewer fields than columns; these rows are
            skipped.

    Raises:
        UserError: for a row with more or fewer fields than columns, invalid encoding, NUL, malformed CSV or JSON, or
            bytes that are not text (all with the place); for a repeated column name; for a file that is missing, of an
            unsupported kind or without rows.
    """
    extension = _extension(path)
    if extension not in READERS:
        if not files.exists(path):
            raise UserError(f"There is no file or folder {path}: pass a table.")
        raise UserError(
            f"Cannot read {path} as a table; expected a name that ends in {', '.join(EXTENSIONS)}, or a folder "
            "with a folder of .txt files for each class."
        )
    is_empty = True
    for row in READERS[extension](path, columns, malformed):
        is_empty = False
        yield row
    if is_empty and malformed:
        raise UserError(f"No row of {path} has as many fields as columns: {malformed[0]} has more or fewer.")
    if is_empty:
        raise UserError(f"{path} contains no rows; expected at least one{'' if columns else ' below the header'}.")


def is_table(path: str) -> bool:
    """Returns whether a path is named like a table, or is a folder of texts by class."""
    return _extension(path) in READERS


def _extension(path: str) -> str:
    """The key of READERS for a path."""
    extension = os.path.splitext(path)[1].lower()
    return FOLDER if extension not in READERS and table_files.is_folder_of_classes(path) else extension


def column_names(path: str) -> list[str]:
    """The column names in the header of a table, or the fields of a JSONL file's first object."""
    return list(next(read(path))[1])


def check_columns(path: str, row: Mapping[str, Any], required: Iterable[str]) -> None:
    """Raises UserError if one of the required columns is not in a row."""
    missing = [name for name in required if name not in row]
    if missing:
        hint = "".join(meant(name, row, 1) for name in missing)
        raise UserError(f"{path} has no column {', '.join(map(repr, missing))}; its columns: {listed(row)}.{hint}")


def row_id(row: Mapping[str, Any], column: str, location: str) -> str:
    """The id in a column of a row; UserError for anything but text and whole numbers, possible in JSON."""
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
        raise UserError(f"There are several files for {name!r}: {', '.join(paths)}; keep one of them.")
    return paths[0] if paths else None


def require_table(folder: str, name: str) -> str:
    """Like `find_table`; UserError if there is none."""
    path = find_table(folder, name)
    if path is None:
        raise UserError(f"There is no {name} in data_dir={folder}; expected {name}.jsonl there, or another table.")
    return path


def _read_tsv(path: str, columns: Sequence[str] | None, malformed: list[str] | None) -> Rows:
    lines = (
        (number, line.removesuffix("\n").removesuffix("\r")) for number, line in enumerate(text_lines.read(path), 1)
    )
    return _named_rows(path, "line", ((number, line.split("\t")) for number, line in lines if line), columns, malformed)


def _csv_fields(path: str, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, list of fields); empty lines are skipped."""
    csv.field_size_limit(sys.maxsize)  # a field may be a whole document
    header, first = next(lines, ""), 0
    if separator := SEPARATOR_LINE.fullmatch(header.rstrip("\r\n")):
        header, first = next(lines, ""), 1
    delimiter = separator[1].replace(r"\t", "\t") if separator and separator[1] else _delimiter(header)
    reader = csv.reader(itertools.chain([header], lines), strict=True, delimiter=delimiter)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            reason = f"({error}): quote a text that has quotes, and double them"
            if "new-line character" in str(error):
                reason = "(a carriage return outside quotes): quote that text, or end all lines alike"
            raise UserError(f"{path} is not CSV at line {first + reader.line_num} {reason}.") from None
        if row is None:
            return
        if row:
            yield first + reader.line_num, row


def _delimiter(header: str) -> str:
    try:
        has_commas = len(next(csv.reader([header]), [])) > 1
    except csv.Error:  # the reader of the file reports the line
        has_commas = True
    most = max(SEPARATORS, key=header.count)
    return most if most in header and not has_commas else ","


def _named_rows(
    path: str,
    unit: str,
    rows: Iterable[tuple[int, list[str]]],
    columns: Sequence[str] | None,
    malformed: list[str] | None,
) -> Rows:
    for number, fields in rows:
        if columns is None:
            columns = [name.replace("\ufeff", "").strip() for name in fields]
            table_files.check_different(path, columns)
            continue
        if len(fields) > len(columns) and not any(fields[len(columns) :]):  # empty columns of a spreadsheet
            fields = fields[: len(columns)]
        place = f"{unit} {number} of {path}"
        if len(fields) != len(columns):
            if malformed is not None:
                malformed.append(place)
                continue
            raise UserError(
                f"{place[0].upper()}{place[1:]} has {len(fields)} fields; expected {len(columns)} ({listed(columns)})."
            )
        yield place, dict(zip(columns, fields, strict=True))


def _objects(path: str, lines: Iterable[str]) -> Rows:
    """The rows of lines with one object each."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _parse(line)
        except ValueError as error:
            raise UserError(f"Line {number} of {path} is not JSON ({error}); expected one object per line.") from None
        if not isinstance(row, dict):
            raise UserError(f"Line {number} of {path} is a JSON {type(row).__name__}; expected an object.")
        yield f"line {number} of {path}", row


def _parse(text: str) -> Any:
    value = json_files.parse(text, unique_names=True)
    return without_nan(value) if "NaN" in text else value


def _read_json(path: str, columns: Sequence[str] | None, malformed: list[str] | None) -> Rows:
    """A list of objects, also under "data" in an object; or lines with one object each, often named .json too."""
    lines = list(text_lines.read(path))
    try:
        content = _parse("".join(lines))
    except ValueError as error:
        if not any(line.strip() for line in lines[1:]) or not lines[0].lstrip().startswith("{"):
            raise UserError(f"{path} is not JSON ({error}); expected a list of objects.") from None
        yield from _objects(path, lines)
        return
    if isinstance(content, dict):
        content = content["data"] if isinstance(content.get("data"), list) else [content]
    if not isinstance(content, list):
        raise UserError(f"{path} is a JSON {type(content).__name__}; expected a list of objects.")
    for number, row in enumerate(content, 1):
        if not isinstance(row, dict):
            raise UserError(f"Row {number} of {path} is a JSON {type(row).__name__}; expected an object.")
        yield f"row {number} of {path}", row


Reader = Callable[[str, Sequence[str] | None, list[str] | None], Rows]  # the arguments of `read`
FOLDER = "/"
# One entry per format.
READERS: dict[str, Reader] = {
    ".tsv": _read_tsv,
    ".csv": lambda path, columns, malformed: _named_rows(
        path, "line", _csv_fields(path, text_lines.read(path)), columns, malformed
    ),
    ".jsonl": lambda path, columns, malformed: _objects(path, text_lines.read(path)),
    ".json": _read_json,
    ".xlsx": lambda path, columns, malformed: _named_rows(
        path, "row", table_files.excel_fields(path), columns, malformed
    ),
    ".parquet": lambda path, columns, malformed: (
        (f"row {number} of {path}", row) for number, row in enumerate(table_files.parquet_rows(path), 1)
    ),
    FOLDER: lambda path, columns, malformed: ((row["file"], row) for row in table_files.texts_by_class(path)),
}
EXTENSIONS = tuple(name for name in READERS if name != FOLDER)

"""Rows of TSV, CSV and JSONL files by the names of their columns, each with its line number. Free of TensorFlow.

In a TSV file every character stands for itself: a quote is no sign of the format, only tabs and line feeds are. So
are GLUE's files written, and a reader that takes quotes for signs loses rows of them. CSV follows RFC 4180; where its
header has no comma but a semicolon, semicolons part the fields: so Excel writes it in half of the world.
"""

import csv
import itertools
import json
import os
import sys

from bert_tf.errors import UserError

KINDS = (".tsv", ".csv", ".jsonl")


def read(path, columns=None, *, broken=None):
    """Yields (line number, {column: text}) of every row; a row of JSONL may hold numbers and lists too.

    columns: the names of the columns of a TSV or CSV file that has no header. Space around names is dropped.
        Columns whose name is empty may occur several times, and fields behind the last one if they are empty.
    broken: a list to put the lines of rows with more or fewer fields than columns into; these rows are passed over.
    Raises UserError, with the line, for a row with more or fewer fields than columns, for what is not UTF-8, NUL,
    broken CSV or JSON; for a name that two columns have; for a file that is missing, of another kind or without rows.
    """
    kind = os.path.splitext(path)[1].lower()
    if kind not in KINDS:
        raise UserError(f"{path} is no table that can be read; expected a name that ends in {', '.join(KINDS)}.")
    lines = text_lines(path)
    rows = _objects(path, lines) if kind == ".jsonl" else _named(path, _fields(path, lines, kind), columns, broken)
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise UserError(f"{path} holds no rows; expected at least one{'' if columns else ' below the header'}.")


def column_names(path):
    """The names in the header of a TSV or CSV file, or the fields of the first object of a JSONL file."""
    return list(next(read(path))[1])


def expect_columns(path, row, wanted):
    """Raises UserError if one of the wanted columns is not in a row."""
    missing = [name for name in wanted if name not in row]
    if missing:
        raise UserError(f"{path} has no column {', '.join(map(repr, missing))}; its columns: {', '.join(row)}.")


def identifier(row, column, place):
    """The id in a column of a row; UserError where there is none, as JSON may have it."""
    found = row.get(column)
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise UserError(f"In {place} the id is {found!r}; expected a text or a whole number in {column}.")
    return str(found)


def find(folder, name):
    """The path of the table `name` in a folder, whatever its kind; None if there is none. UserError if several."""
    found = [os.path.join(folder, name + kind) for kind in KINDS if os.path.isfile(os.path.join(folder, name + kind))]
    if len(found) > 1:
        raise UserError(f"There are several files for {name!r}: {', '.join(found)}; leave one of them.")
    return found[0] if found else None


def text_lines(path):
    """Yields the lines of a UTF-8 file with their ends. Only a line feed ends one: rows hold U+0085 and U+2028."""
    try:
        file = open(path, "rb")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give the path of a file.") from None
    with file:
        for number, raw in enumerate(file, 1):
            line = decoded(raw, number, path)
            if "\0" in line:
                raise UserError(f"{path} is not text: line {number} holds NUL; expected UTF-8.")
            yield line


def decoded(raw, number, name):
    """Line `number`, from 1, of what has this name as text, without a mark at the begin; UserError if not UTF-8."""
    if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise UserError(f"{name} is UTF-16, as Excel's Unicode text; save it as UTF-8, a table as CSV UTF-8.")
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name} is not UTF-8: byte {error.start + 1} of line {number} is 0x{raw[error.start]:02x}; "
            "save it as UTF-8."
        ) from None


def _fields(path, lines, kind):
    """Yields (line number, list of fields); lines without anything are left out."""
    if kind == ".tsv":
        for number, line in enumerate(lines, 1):
            line = line.removesuffix("\n").removesuffix("\r")
            if line:
                yield number, line.split("\t")
        return
    csv.field_size_limit(sys.maxsize)  # a field may be a whole document
    lines = iter(lines)
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


def _named(path, rows, columns, broken):
    for number, fields in rows:
        if columns is None:
            columns = _header(path, fields)
            continue
        if len(fields) > len(columns) and not any(fields[len(columns) :]):  # a spreadsheet's empty columns
            fields = fields[: len(columns)]
        if len(fields) != len(columns):
            if broken is not None:
                broken.append(number)
                continue
            raise UserError(
                f"Line {number} of {path} has {len(fields)} fields; expected {len(columns)} ({', '.join(columns)})."
            )
        yield number, dict(zip(columns, fields, strict=True))


def _header(path, fields):
    names = [name.strip() for name in fields]
    doubles = sorted({name for name in names if name and names.count(name) > 1})
    if doubles:
        raise UserError(f"{path} has several columns {', '.join(map(repr, doubles))}; give each a name of its own.")
    return names


def _objects(path, lines):
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"Line {number} of {path} is not JSON ({error}); expected an object a line.") from None
        if not isinstance(row, dict):
            raise UserError(f"Line {number} of {path} is a JSON {type(row).__name__}; expected an object.")
        yield number, row

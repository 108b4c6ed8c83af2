"""Excel workbooks, Parquet files and folders of texts as rows of tables. Free of TensorFlow."""

import collections
import contextlib
import datetime
import importlib
import math
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from bert_tf.data import text_lines
from bert_tf.errors import UserError, listed, reason_of
from bert_tf.runtime import files, json_files
from bert_tf.runtime.lazy import module

pyarrow_types = module("pyarrow.types")
MAX_UNPACKED = 200  # unpacked bytes per byte of a workbook file
MAX_ROWS = 1 << 20  # rows of a sheet


def require(package: str) -> Any:
    """The package openpyxl or pyarrow; UserError that names the pip extra if it is missing."""
    names = {"openpyxl": ("An Excel workbook", "excel"), "pyarrow": ("Parquet", "parquet")}
    try:
        if package == "pyarrow":
            importlib.import_module("pyarrow.parquet")
        return importlib.import_module(package)
    except ImportError:
        what, extra = names[package]
        raise UserError(f"{what} needs the package {package}: pip install 'bert-tf[{extra}]'.") from None


def check_different(path: str, names: Sequence[str]) -> None:
    """Raises UserError for repeated column names, unless they are empty."""
    repeated = sorted(name for name, count in collections.Counter(names).items() if name and count > 1)
    if repeated:
        raise UserError(f"{path} has several columns {listed(map(repr, repeated))}; pass each a name of its own.")


def without_nan(value: Any) -> Any:
    """A JSON value with None for NaN, also inside lists and objects."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return {name: without_nan(each) for name, each in value.items()} if isinstance(value, dict) else value


def excel_fields(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (row number, fields as text) of the first sheet of a workbook; empty rows are skipped.

    Rows have at least as many fields as the first one. Formulas are read as their last value.
    """
    openpyxl = require("openpyxl")

    with _open(path) as file:
        try:
            _check_in_proportion(file)
            sheet = openpyxl.load_workbook(file, read_only=True, data_only=True).worksheets[0]
            sheet.reset_dimensions()  # otherwise rows would be padded to the last column of the sheet
            width = 0
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                if number > MAX_ROWS:
                    raise ValueError(f"it has more than {MAX_ROWS:,} rows")
                fields = [_cell_text(cell) for cell in cells]
                if any(fields):
                    while len(fields) > width and not fields[-1]:
                        fields.pop()
                    width = width or len(fields)
                    yield number, fields + [""] * (width - len(fields))
        except Exception as error:  # openpyxl and its parsers raise various types for a damaged workbook
            raise UserError(
                f"Cannot read {path} as an Excel workbook ({reason_of(error)}); save it as .xlsx."
            ) from None


def _check_in_proportion(file: IO[bytes]) -> None:
    """Raises ValueError for a workbook that unpacks to far more than its size, unlike any with texts."""
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > MAX_UNPACKED * file.seek(0, os.SEEK_END) + 2**24:
        raise ValueError(f"it unpacks to {unpacked:,} bytes")


class NumberText(str):
    """The text of a number in a workbook; `value` is the number."""

    value: int | float


def _cell_text(value: Any) -> str:
    """The text of a cell without its format: 3 for 3.0, a date as 2026-11-23."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if not isinstance(value, int | float):
        return str(value)
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    text = NumberText(value)
    text.value = value
    return text


def parquet_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a Parquet file as {column: value}: bytes as text, NaN as None, dates and the like as text.

    Class numbers written by the library datasets become class names.

    UserError, with row and column, for bytes that are not UTF-8.
    """
    pyarrow = require("pyarrow")
    number = 0
    with _open(path) as file:
        try:
            table = pyarrow.parquet.ParquetFile(file)
            check_different(path, table.schema_arrow.names)
            classes = _classes_of_datasets(table.schema_arrow.metadata or {})
            for batch in table.iter_batches(batch_size=1024):
                columns = {name: _values(path, name, batch.column(name)) for name in batch.schema.names}
                for name in classes.keys() & columns.keys():
                    columns[name] = _named(columns[name], name, classes[name], path)
                for row in range(batch.num_rows):
                    number += 1
                    yield {name: _plain(values[row], name, number, path) for name, values in columns.items()}
        except UserError:
            raise
        except Exception as error:  # any type: pyarrow's own, text that is not UTF-8, an invalid date
            raise UserError(f"Cannot read {path} as Parquet: {reason_of(error)}.") from None


def _values(path: str, name: str, column: Any) -> list[Any]:
    """A column of a batch as Python values; times without a Python equivalent (nanoseconds, zones) as text."""
    kind = column.type
    try:
        if not pyarrow_types.is_timestamp(kind) or (kind.unit != "ns" and kind.tz is None):
            return list(column.to_pylist())
        return list(column.cast("string").to_pylist())
    except (ValueError, OverflowError) as error:
        raise UserError(
            f"The values in the column {name!r} of {path} cannot be read ({reason_of(error)}): remove it, or store it "
            "as text."
        ) from None


def _classes_of_datasets(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """{column: class names} from the metadata of the library datasets, also for lists of classes."""
    found = {}
    with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError):  # written by another program
        for name, feature in json_files.parse(metadata[b"huggingface"].decode())["info"]["features"].items():
            while isinstance(feature, list) or "feature" in feature:
                feature = feature[0] if isinstance(feature, list) else feature["feature"]
            if feature.get("_type") == "ClassLabel" and feature.get("names"):
                found[name] = list(map(str, feature["names"]))
    return found


def _named(value: Any, column: str, names: Sequence[str], path: str) -> Any:
    """The name of a class, None for -1 (unknown); for a list, the name of each."""
    if isinstance(value, list):
        return [_named(each, column, names, path) for each in value]
    if value is None or type(value) is not int:  # from a column replaced later
        return value
    if value == -1:
        return None
    if not 0 <= value < len(names):
        raise UserError(f"{path} has {value!r} in the column {column!r}, whose {len(names)} classes start at 0.")
    return names[value]


def _plain(value: Any, column: str, number: int, path: str) -> Any:
    """A Parquet value in JSON form."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise UserError(
                f"Row {number} of {path} has bytes that are not UTF-8 in the column {column!r}: store text there, or "
                "remove the column."
            ) from None
    if isinstance(value, list | tuple):
        return [_plain(each, column, number, path) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each, column, number, path) for name, each in value.items()}
    return str(value)


def is_folder_of_classes(path: str) -> bool:
    """Returns whether a path is a folder with two or more folders of .txt files."""
    return bool(path) and files.is_folder(path) and len(_classes(path)) > 1


def texts_by_class(path: str) -> Iterator[dict[str, str]]:
    """Yields {"text", "label", "file"} for each .txt file in the folders of a folder, sorted by name."""
    for label, names in _classes(path).items():
        for name in names:
            file = os.path.join(path, label, name)
            if not files.is_unicode(file):
                raise UserError(f"The name of {file!r} is not UTF-8: rename the file or its folder.")
            text = "".join(text_lines.read(file, announced_for=path))
            yield {"text": text.strip(), "label": label, "file": file}


def _classes(path: str) -> dict[str, list[str]]:
    """{folder: its .txt files} for each inner folder with .txt files."""
    texts = {
        folder: [name for name in files.names(os.path.join(path, folder)) if name.lower().endswith(".txt")]
        for folder in files.names(path)
        if not folder.startswith(".")
    }
    return {folder: names for folder, names in texts.items() if names}


def _open(path: str) -> IO[bytes]:
    try:
        return files.open_binary(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): pass the path of a file.") from None

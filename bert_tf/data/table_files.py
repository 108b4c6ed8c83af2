"""Excel workbooks, Parquet files and folders of texts as rows of tables. Free of TensorFlow."""

import os
import zipfile
from collections.abc import Iterator
from typing import IO, Any

from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import files

MOST_UNPACKED = 200  # bytes of a workbook for each byte of its file
PLAIN = (str, int, float, list, dict, type(None))


def excel_fields(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (row number, fields as text) of the first sheet of a workbook; empty rows are skipped.

    Rows have at least as many fields as the first one. Of a formula its last value is read.
    """
    try:
        import openpyxl
    except ImportError:
        raise UserError("An Excel workbook needs the package openpyxl: pip install 'bert-tf[excel]'.") from None

    with _open(path) as file:
        try:
            _expect_in_proportion(file)
            sheet = openpyxl.load_workbook(file, read_only=True, data_only=True).worksheets[0]
            width = 0
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                fields = [_cell_text(cell) for cell in cells]
                if any(fields):
                    while len(fields) > width and not fields[-1]:
                        fields.pop()
                    width = width or len(fields)
                    yield number, fields + [""] * (width - len(fields))
        except Exception as error:  # openpyxl and its parsers raise any type for a damaged workbook
            raise UserError(
                f"{path} is no Excel workbook that can be read ({reason_of(error)}); save it as .xlsx."
            ) from None


def _expect_in_proportion(file: IO[bytes]) -> None:
    """Raises ValueError for a workbook that unpacks to much more than its size, as none with texts does."""
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > MOST_UNPACKED * file.seek(0, os.SEEK_END) + 2**24:
        raise ValueError(f"it unpacks to {unpacked:,} bytes")


def _cell_text(value: Any) -> str:
    """What a cell shows, apart from its format: 3 for 3.0, a date as 2026-11-23."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def parquet_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a Parquet file as {column: value}; dates and other kinds that JSON lacks as text."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError("Parquet needs the package pyarrow: pip install 'bert-tf[parquet]'.") from None
    with _open(path) as file:
        try:
            for batch in pyarrow.parquet.ParquetFile(file).iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    yield {name: value if isinstance(value, PLAIN) else str(value) for name, value in row.items()}
        except Exception as error:  # any type: pyarrow's own, of a text that is not UTF-8, of a date that is none
            raise UserError(f"{path} is no Parquet file that can be read: {reason_of(error)}.") from None


def is_folder_of_classes(path: str) -> bool:
    """Whether a path is a folder with two or more folders that hold .txt files."""
    return bool(path) and files.is_folder(path) and len(_classes(path)) > 1


def texts_by_class(path: str) -> Iterator[dict[str, str]]:
    """Yields {"text", "label", "file"} for each .txt file in the folders of a folder, in the order of their names."""
    for label, names in _classes(path).items():
        for name in names:
            file = os.path.join(path, label, name)
            with _open(file) as opened:
                content = opened.read()
            try:
                text = content.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{file} is not UTF-8: byte {error.start + 1} is 0x{content[error.start]:02x}; save it as UTF-8."
                ) from None
            yield {"text": text.strip(), "label": label, "file": file}


def _classes(path: str) -> dict[str, list[str]]:
    """{folder: its .txt files} of those folders in a folder that have any."""
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
        raise UserError(f"{path} cannot be read ({error.strerror}): give the path of a file.") from None

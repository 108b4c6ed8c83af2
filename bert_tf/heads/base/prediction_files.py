"""Predictions as rows of files: for people, for programs, for a leaderboard. n examples."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_tf.data import table_files
from bert_tf.errors import UserError
from bert_tf.heads.base.answering import Answered
from bert_tf.runtime import files, json_values
from bert_tf.runtime.atomic_files import atomic_write, write_lines
from bert_tf.training.task import Predictions

PARQUET_ROWS = 10_000  # written together
EXCEL_ROWS, EXCEL_CHARACTERS = 1 << 20, 32_767  # limits of a sheet, including the header, and of a cell
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # not allowed in XML
FORMULA = re.compile(r"(?:^|(?<=[\r\n]))(?=[=+\-@\t\r])")  # before characters that start a spreadsheet formula


class PredictionRows:
    """Predictions of a live model for the examples of a split, with the labels if they are known.

    Rows are made when they are read: with thousands of classes they do not all fit into memory.
    """

    def __init__(self, head: Any, split: Any, predictions: Predictions, numbers: Sequence[int] | None = None) -> None:
        """predictions: {name: array [n, ...]} of a TextHead for TextRows. numbers: the examples, by default all."""
        self._head, self._split, self._predictions = head, split, predictions
        self._names = head.names(head.predicted(predictions))
        self._labels = head.names(split.labels) if split.is_known else [None] * len(self._names)
        self._numbers = range(len(self._names)) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Answered]:
        for number in self._numbers:
            example = self._split.examples[number]
            yield Answered(
                id=example.id,
                texts=texts_by_name(example.texts),
                answer=self._head.prediction(self._predictions, number, self._names[number]),
                truth=self._labels[number],
            )


def hardest(head: Any, split: Any, predictions: Predictions, most: int = 12) -> list[Answered]:
    """The examples with the largest loss, each with its loss, largest first.

    The loss is the negative log probability of the true class, its mean over several labels, or the
    squared error of a number. The split's labels must be known.
    """
    losses = head.losses(predictions, split.labels[: len(predictions["row_numbers"])])
    order = (-losses).argsort(kind="stable")[:most].tolist()
    rows = PredictionRows(head, split, predictions, order)
    return [dataclasses.replace(row, loss=float(losses[number])) for number, row in zip(order, rows, strict=True)]


def texts_by_name(texts: Sequence[str]) -> dict[str, Any]:
    """Texts named as the inputs of an export: one, a pair, or a first text and choices."""
    if len(texts) <= 2:
        return dict(zip(("text_a", "text_b"), texts, strict=False))
    return {"text_a": texts[0], "choices": list(texts[1:])}


def write(folder: str, name: str, rows: Iterable[Answered]) -> str:
    """Writes `name`.jsonl (everything), `name`.tsv (as a table) and test_results.tsv, as in google-research/bert.

    In .tsv files, tabs and line ends in a text become spaces. `rows` are read several times. Returns the path of the
    .tsv file.
    """
    write_rows(os.path.join(folder, f"{name}.jsonl"), rows)
    path = os.path.join(folder, f"{name}.tsv")
    write_rows(path, rows)
    results = name.replace("predictions", "test_results")
    lines = ("\t".join(map(str, row.answer.numbers())) + "\n" for row in rows)
    write_lines(os.path.join(folder, f"{results}.tsv"), lines)
    return path


def write_rows(path: str, rows: Iterable[Answered], *, shared: bool = False, has_mark: bool = False) -> None:
    """Writes rows as they come, in the format of the file name (JSON lines by default), completely or not at all.

    shared: whether other processes may write the same file at the same time. has_mark: whether a .csv begins with a
    byte order mark, which Excel needs to read it as UTF-8.
    """
    extension = os.path.splitext(path)[1].lower()
    if extension in TABLES:
        with atomic_write(path, shared=shared) as partial:
            TABLES[extension](partial, _table(path, rows))
        return
    of_json = (json_line(row.fields()) for row in rows)
    lines = map(LINES[extension], _table(path, rows)) if extension in LINES else of_json
    mark = ["\ufeff"] if has_mark and extension == ".csv" else []
    write_lines(path, itertools.chain(mark, lines), shared=shared)


def _write_excel(path: str, table: Iterable[list[Any]]) -> None:
    """Writes the first sheet of a workbook; numbers stay numbers, also from a workbook, and no text becomes a formula.

    Raises UserError for anything beyond Excel's limits: more rows, longer texts, control characters.
    """
    book = table_files.require("openpyxl").Workbook(write_only=True)
    sheet = book.create_sheet("predictions")
    with contextlib.closing(sheet):
        for number, values in enumerate(table):
            values = [x.value if isinstance(x, table_files.NumberText) else x for x in values]
            values = [str(x) if isinstance(x, float) and not math.isfinite(x) else x for x in values]  # infinity
            cells = [float(x) if isinstance(x, float) else _without_formula(x) for x in values]
            texts = [x for x in cells if isinstance(x, str)]
            if number >= EXCEL_ROWS or any(len(x) > EXCEL_CHARACTERS or CONTROL.search(x) for x in texts):
                raise UserError(
                    f"Row {number} of the predictions does not fit into an Excel workbook, with at most "
                    f"{EXCEL_ROWS:,} rows, texts of {EXCEL_CHARACTERS:,} characters and no control characters: write "
                    ".csv or .jsonl."
                )
            sheet.append(cells)
    book.save(path)


def _write_parquet(path: str, table: Iterator[list[Any]]) -> None:
    """Column types are inferred from the first rows; UserError for a later value of a different type."""
    pyarrow, writer, names = table_files.require("pyarrow"), None, next(table, [])
    try:
        while block := [dict(zip(names, cells, strict=True)) for cells in itertools.islice(table, PARQUET_ROWS)]:
            if writer is None:
                schema = pyarrow.Table.from_pylist(block).schema
                text = pyarrow.string()  # of a column without values
                fields = [each.with_type(text) if pyarrow.types.is_null(each.type) else each for each in schema]
                writer = pyarrow.parquet.ParquetWriter(path, pyarrow.schema(fields))
            writer.write_table(pyarrow.Table.from_pylist(block, writer.schema))
    except pyarrow.ArrowException as error:
        raise UserError(f"{path} cannot store these rows ({error}): write .jsonl or .csv instead.") from None
    finally:
        if writer is not None:
            writer.close()


def _cell(value: Any) -> Any:
    """A cell value: lists and objects as JSON; numbers, text and None, which is an empty cell, unchanged."""
    return json_values.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple | dict) else value


def json_line(values: Mapping[str, Any]) -> str:
    """A line of JSON."""
    return json_values.dumps(values, ensure_ascii=False) + "\n"


def _table(path: str, rows: Iterable[Answered]) -> Iterator[list[Any]]:
    """Yields the column names of the first row, then the cells of each row in their order, None for a missing column.

    Raises UserError for a column that the first row lacks: rows are streamed, so the names are written by then.
    """
    names: dict[str, None] = {}
    for number, row in enumerate(rows, 1):
        columns = row.columns()
        if number == 1:
            yield list(names := dict.fromkeys(columns))
        if new := [name for name in columns if name not in names]:
            raise UserError(
                f"Row {number} of {path} would have the column {new[0]!r}, which the first row lacks: write .jsonl, or "
                "add the column to the first row."
            )
        yield [_cell(columns.get(name)) for name in names]


def _csv_line(values: Iterable[Any]) -> str:
    """A line of CSV; a text that a spreadsheet would take for a formula gets a leading apostrophe.

    So does every such line in a text: programs that ignore quotes would take it for a row.
    """
    buffer = io.StringIO()
    # csv quotes carriage returns only if they are part of its line ends
    csv.writer(buffer, lineterminator="\r\n").writerow(map(_without_formula, values))
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def _without_formula(value: Any) -> Any:
    """The value, with an apostrophe before each line that begins like a formula; numbers stay."""
    if not isinstance(value, str) or not FORMULA.search(value):
        return value
    try:
        float(value)
    except ValueError:
        return FORMULA.sub("'", value)
    return value


def without_apostrophe(text: str) -> str:
    """A single-line text without the apostrophe added by `_without_formula`."""
    return text[1:] if text.startswith("'") and _without_formula(text[1:]) == text else text


def described(written: str, scores: Mapping[str, float]) -> list[str]:
    """Lines about written predictions, with their scores, if any. written: a sentence without its full stop."""
    if not scores:
        return [f"{written}."]
    return [f"{written}; their scores:", *(f"  {name:26} {value:.4f}" for name, value in scores.items())]


def write_submission(folder: str, name: str, rows: Iterable[Answered]) -> None:
    """Writes a file for GLUE's leaderboard: a header, then index and label (or number) of each example."""
    files.make_folder(folder)
    lines = [f"{number}\t{row.answer.shown}\n" for number, row in enumerate(rows)]
    write_lines(os.path.join(folder, name), ["index\tprediction\n", *lines])


def _tsv_line(values: Iterable[Any]) -> str:
    texts = ("" if value is None else str(value) for value in values)
    return "\t".join(text.replace("\t", " ").replace("\r", " ").replace("\n", " ") for text in texts) + "\n"


LINES = {".tsv": _tsv_line, ".csv": _csv_line}
TABLES = {".xlsx": _write_excel, ".parquet": _write_parquet}
EXTENSIONS = (".jsonl", *LINES, *TABLES)

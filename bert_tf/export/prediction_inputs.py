"""Reads the inputs of `predict`, `evaluate` and `extract` as Examples: lines of text, tables, SQuAD files.

Lines and tables are streamed, so files may have any length. Free of TensorFlow.
"""

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from bert_tf.data import questions, tables, text_lines
from bert_tf.data.examples import Example, joined_words, label_columns, label_of
from bert_tf.errors import UserError, listed
from bert_tf.runtime import files

STANDARD_INPUT = "-"
SQUAD = ".json"
EXTENSIONS = (".txt", *tables.EXTENSIONS)
FIRST, SECOND = "text_a", "text_b"  # for a pair
TEXT = "text"  # the column to read if none has the input's name

Inputs = Mapping[str, int | None]


def check_readable(path: str) -> None:
    """Raises UserError for a file that is missing, empty or has no known extension, before a model is loaded."""
    if path == STANDARD_INPUT or files.is_folder(path) and tables.is_table(path):
        return
    if files.exists(path) and _extension(path) not in EXTENSIONS:
        raise UserError(f"{path} cannot be read; expected a name that ends in {', '.join(EXTENSIONS)}, or - for lines.")
    if not files.is_file(path):
        raise UserError(f"There is no file {path}: pass texts as one of {', '.join(EXTENSIONS)}, or - for lines.")
    if not files.size(path):
        raise UserError(f"{path} is empty; expected texts.")


def count(path: str) -> int | None:
    """The approximate number of texts in a file, from its line ends; None if these do not determine it."""
    extension = _extension(path)
    if path == STANDARD_INPUT or extension not in (".txt", ".tsv", ".jsonl"):  # a text there may have many lines
        return None
    with files.open_binary(path) as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return lines - (extension == ".tsv")  # its header


def read(
    path: str,
    inputs: Inputs,
    *,
    columns: Sequence[str] = (),
    id_column: str | None = None,
    label: str | None = None,
    malformed: list[str] | None = None,
) -> Iterator[Example]:
    """Yields an Example for each line of a .txt file or standard input ("-"), row of a table or question of .json.

    Args:
        path: the file, or "-".
        inputs: {name: None, or the number of texts it takes} for a model: {"text_a": None, "choices": 4}. Columns of a
            table have these names; several texts are in columns "choice 0", "choice 1", ... or in a JSON list.
        columns: names of the columns in the order of the inputs, if they differ from the inputs' names.
        id_column: the column with the id; without it, the id is the number of the text, from 0.
        label: the column of a table with the label, or several, see `examples.label_of`.
        malformed: collects the places of malformed rows, as in `tables.read`; a missing text is then "".

    Raises:
        UserError: a column is missing, the file is empty, or a line is not UTF-8.
    """
    if _extension(path) == SQUAD and sorted(inputs) == ["context", "question"] and not (columns or id_column):
        return (
            Example(each.id, texts_of(each, inputs), None, f"question {each.id} of {path}")
            for each in questions.read(path)
        )
    if path != STANDARD_INPUT and tables.is_table(path):
        return _read_rows(path, inputs, columns, id_column, label, malformed)
    if columns or id_column:
        name = "standard input" if path == STANDARD_INPUT else path
        raise UserError(f"text_columns and id_column require a table, and {name} is not one: remove them.")
    return _read_lines(path, inputs)


def number_of_texts(path: str, columns: Sequence[str]) -> int | None:
    """Number of texts per example in a table: the number of names in `columns`, or of columns with the inputs' names.

    None if neither is known. A JSON list of choices counts by its length in the first row.
    """
    if columns or path == STANDARD_INPUT or not tables.is_table(path):
        return len(columns) or None
    row = next(tables.read(path))[1]
    names, listed = set(row), row.get("choices")
    choices = len(listed) if isinstance(listed, list) else sum(f"choice {n}" in names for n in range(len(names)))
    if FIRST not in names:
        return None
    return 1 + (choices or int(SECOND in names))


def read_words(path: str, column: str, *, id_column: str | None = None) -> Iterator[Example]:
    """Yields an Example for each sentence of a file, with its words as texts.

    Args:
        path: a .txt file or standard input ("-"), words between white space; or a table.
        column: the column of a table, with lists of words (JSONL, Parquet) or words between white space.
        id_column: as in `read`.

    Raises:
        UserError: as in `read`.
    """
    if path == STANDARD_INPUT or not tables.is_table(path):
        for example in read(path, {column: None}, id_column=id_column):
            yield dataclasses.replace(example, texts=tuple(example.texts[0].split()))
        return
    for number, (location, row) in enumerate(tables.read(path)):
        if not number:
            tables.check_columns(path, row, [column, *filter(None, [id_column])])
        words = row[column].split() if isinstance(row[column], str) else row[column]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UserError(f"In {location} there is {words!r}; expected a list of words, or a text, in {column}.")
        example_id = str(number) if id_column is None else tables.row_id(row, id_column, location)
        other = {name: value for name, value in row.items() if name not in (column, id_column)}
        yield Example(example_id, tuple(words), None, location, other, row)


def _extension(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def texts_of(question: questions.Question, inputs: Inputs) -> tuple[str, ...]:
    """The question and its context in the order of the inputs."""
    return tuple({"context": question.context, "question": question.question}[name] for name in inputs)


def _read_rows(
    path: str,
    inputs: Inputs,
    columns: Sequence[str],
    id_column: str | None,
    label: str | None,
    malformed: list[str] | None,
) -> Iterator[Example]:
    expected = sum(count or 1 for count in inputs.values())
    if columns and len(columns) != expected:
        raise UserError(f"text_columns names {len(columns)} columns; expected {expected}, for {', '.join(inputs)}.")
    for number, (location, row) in enumerate(tables.read(path, malformed=malformed)):
        if not number:
            columns = columns or _columns_of(path, inputs, row)
            tables.check_columns(path, row, [*columns, *label_columns(label, row), *filter(None, [id_column])])
        texts: list[Any] = []
        for name in columns:
            value = joined_words(row.get(name)) if len(columns) == expected else row.get(name)  # else a list of choices
            texts += value if isinstance(value, list) else ["" if value is None and malformed is not None else value]
        if len(texts) != expected or not all(isinstance(text, str) for text in texts):
            raise UserError(f"In {location} there is {texts!r}; expected {expected} texts in {', '.join(columns)}.")
        example_id = str(number) if id_column is None else tables.row_id(row, id_column, location)
        other = {name: value for name, value in row.items() if name not in (*columns, id_column)}
        yield Example(example_id, tuple(texts), label_of(label, row), location, other, row)


def _columns_of(path: str, inputs: Inputs, row: Mapping[str, Any]) -> list[str]:
    """Columns of a table named after the inputs, or "text" for a single one; UserError if one is missing."""
    names: list[str] = []
    for name, count in inputs.items():
        numbered = [f"{name.removesuffix('s')} {number}" for number in range(count or 0)]
        names += numbered if numbered and name not in row else [name]
    missing = [name for name in names if name not in row]
    if missing and len(names) == 1 and TEXT in row:
        return [TEXT]
    if missing:
        raise UserError(
            f"{path} has no column {', '.join(map(repr, missing))}; its columns: {listed(row)}. "
            "Name those with the texts: --text_columns=NAME."
        )
    if names == [FIRST] and SECOND in row:
        raise UserError(
            f"{path} has the columns {FIRST} and {SECOND}, and the model takes one text: pass "
            f"--text_columns={FIRST} to use only that, or export the model again with --num_texts=2."
        )
    return names


def _read_lines(path: str, inputs: Inputs) -> Iterator[Example]:
    name = "Standard input" if path == STANDARD_INPUT else path
    if len(inputs) > 1:
        extensions = ", ".join(tables.EXTENSIONS)
        raise UserError(
            f"{name} has one text per line, but the model takes {' and '.join(inputs)}: pass a table ({extensions})."
        )
    number, source = 0, "standard input" if path == STANDARD_INPUT else path
    with _open(path) as file:
        for number, line in enumerate(text_lines.decode(file, name), 1):
            text_lines.check_text(line, number, name)
            text = line.removesuffix("\n").removesuffix("\r")
            yield Example(str(number - 1), (text,), None, f"line {number} of {source}")
    if not number:
        raise UserError(f"{name} is empty; expected texts.")


def _open(path: str) -> IO[bytes]:
    return open(sys.stdin.fileno(), "rb", closefd=False) if path == STANDARD_INPUT else files.open_binary(path)

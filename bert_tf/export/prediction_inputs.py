"""The texts that a trained model is asked about: a text a line, a table, or questions in SQuAD's layout. No TensorFlow.

They are Examples, with a label where one is asked for; of lines and tables nothing holds more than one at a time, so
that a file may be of any length.
"""

import os
import sys

from bert_tf.data import tables
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.tasks.question_answering import questions

STANDARD_INPUT = "-"
SQUAD = ".json"
KINDS = (".txt", *tables.EXTENSIONS, SQUAD)


def expect_readable(path):
    """Raises UserError, before anything is loaded for it, for a file that is missing, empty or of no known kind."""
    if path == STANDARD_INPUT:
        return
    if _kind(path) not in KINDS:
        raise UserError(f"{path} cannot be read; expected a name that ends in {', '.join(KINDS)}, or - for lines.")
    if not os.path.isfile(path):
        raise UserError(f"There is no file {path}: give texts as one of {', '.join(KINDS)}, or - for lines.")
    if not os.path.getsize(path):
        raise UserError(f"{path} is empty; expected texts.")


def count(path):
    """About how many texts a file holds, by its ends of lines; None where that cannot be known beforehand."""
    kind = _kind(path)
    if path == STANDARD_INPUT or kind in (".csv", SQUAD):  # a text there may have many lines
        return None
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) - (kind == ".tsv")


def read(path, inputs, *, columns=(), id_column=None, label=None):
    """Yields an Example for each text of a file: of a .txt file and of standard input ("-") a line, of a table a row.

    Of a .json file it is a question with its context.

    inputs: {name: None, or how many texts it takes}, what a model takes: {"text_a": None, "choices": 4}. Columns of a
        table have these names, and "choice 0", "choice 1", ... or a list in JSON where there are several texts.
    columns: the names of the columns in the order of the inputs, where they have others. id_column: the column with
        the id; without it, the number of the text, from 0. label: the column of a table with the label.
    Raises UserError for a missing column, an empty file, and what is not UTF-8, with the line.
    """
    if path != STANDARD_INPUT and _kind(path) in tables.EXTENSIONS:
        return _rows(path, inputs, columns, id_column, label)
    if columns or id_column:
        name = "standard input" if path == STANDARD_INPUT else path
        raise UserError(f"text_columns and id_column are for tables, and {name} is none: leave them out.")
    return _questions(path, inputs) if _kind(path) == SQUAD else _lines(path, inputs)


def _kind(path):
    return os.path.splitext(path)[1].lower()


def _questions(path, inputs):
    if sorted(inputs) != ["context", "question"]:
        raise UserError(f"{path} holds questions in SQuAD's layout; the model takes {' and '.join(inputs)}.")
    for one in questions.read(path):
        texts = tuple({"context": one.context, "question": one.question}[name] for name in inputs)
        yield Example(one.id, texts, None, f"question {one.id} of {path}")


def _rows(path, inputs, columns, id_column, label):
    expected = sum(count or 1 for count in inputs.values())
    if columns and len(columns) != expected:
        raise UserError(f"text_columns names {len(columns)} columns; expected {expected}, for {', '.join(inputs)}.")
    for number, (line, row) in enumerate(tables.read(path)):
        if not number:
            columns = columns or _named(path, inputs, row)
            tables.check_columns(path, row, [*columns, *filter(None, [id_column, label])])
        found = []
        for name in columns:
            found += row.get(name) if isinstance(row.get(name), list) else [row.get(name)]
        place = f"line {line} of {path}"
        if len(found) != expected or not all(isinstance(text, str) for text in found):
            raise UserError(f"In {place} there is {found!r}; expected {expected} texts in {', '.join(columns)}.")
        identifier = str(number) if id_column is None else tables.row_id(row, id_column, place)
        yield Example(identifier, tuple(found), row.get(label) if label else None, place)


def _named(path, inputs, row):
    """The columns of a table whose header has the names of the inputs; UserError where it has others."""
    names = []
    for name, count in inputs.items():
        several = [f"{name.removesuffix('s')} {number}" for number in range(count or 0)]
        names += several if several and name not in row else [name]
    missing = [name for name in names if name not in row]
    if missing:
        raise UserError(
            f"{path} has no column {', '.join(map(repr, missing))}; its columns: {', '.join(row)}. "
            "Name those with the texts as text_columns."
        )
    return names


def _lines(path, inputs):
    name = "Standard input" if path == STANDARD_INPUT else path
    if len(inputs) > 1:
        kinds = ", ".join(tables.EXTENSIONS)
        raise UserError(f"{name} has one text a line, the model takes {' and '.join(inputs)}: give a table ({kinds}).")
    number, place = 0, "standard input" if path == STANDARD_INPUT else path
    with _opened(path) as file:
        for number, raw in enumerate(file, 1):
            text = tables.decode_line(raw, number, name).removesuffix("\n").removesuffix("\r")
            yield Example(str(number - 1), (text,), None, f"line {number} of {place}")
    if not number:
        raise UserError(f"{name} is empty; expected texts.")


def _opened(path):
    return open(sys.stdin.fileno() if path == STANDARD_INPUT else path, "rb", closefd=path != STANDARD_INPUT)

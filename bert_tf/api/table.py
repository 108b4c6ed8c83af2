"""Writes labeled texts from Python, such as a DataFrame, as a run's table. Free of TensorFlow and pandas."""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_tf import heads
from bert_tf.api import texts as given_texts
from bert_tf.api.texts import is_frame, is_missing
from bert_tf.data import conll_files
from bert_tf.data.examples import label_columns, label_of
from bert_tf.errors import UserError
from bert_tf.heads.classes import Classes
from bert_tf.recipes.finetuning import starting_point, sweep, table_choice
from bert_tf.runtime import atomic_files, files, plugins, terminal
from bert_tf.runtime.files import make_folder
from bert_tf.tasks import labelled_rows
from bert_tf.tasks.task_options import TagOptions, of_task
from bert_tf.training.run_directory import RunFolder, next_free

TEXT, LABEL = "text", "label"  # the default columns of tuples
THE_DATA = "the data"  # the name of the data in messages
NAME = "table"  # of the folder in runs for data from Python


def write(
    data: Any,
    path: str,
    columns: Sequence[str],
    label: str | None,
    options: Mapping[str, Any],
    called: str = THE_DATA,
) -> tuple[Sequence[str], str | None]:
    """Writes data as JSON lines, atomically; a run keeps its table, so that it can be resumed.

    Rows without text or label are skipped, and reported by their number, from 0. Returns the text columns and the label
    column; () and None for tagged words, whose columns have their own names.

    Args:
        data: a DataFrame, a dictionary of columns, a tf.data.Dataset, or an iterable of dictionaries or of tuples that
            end in the label.
        path: the file.
        columns: the text columns; (): chosen as in `bert-tf finetune` on a table, or TEXT if options name a task or
            rows are tuples.
        label: the label column, or comma-separated columns of 0 and 1; None: as for columns.
        called: the name of the data in messages.
        options: see `fine_tune`; bad_rows="stop" refuses rows without text or label.

    Raises:
        UserError: a row has the wrong form, lacks a column, or contains a value that is not a text, a label or Unicode.
    """
    each = iter(_each(data))
    first = list(itertools.islice(each, table_choice.ROWS))
    if _are_tagged(first, options) and not (columns or label):
        names = conll_files.tag_columns(first[0])
        write_lines(path, rows(itertools.chain(first, each), (), names))
        return (), None
    if first and isinstance(first[0], Mapping) and "task_name" not in options:
        known = list(_all_columns(first))
        label = label or table_choice.label_column(called, known)
        columns = columns or table_choice.text_column(called, known, label_columns(label, known[0])).split(",")
    columns, label = columns or [TEXT], label or LABEL
    labels = label_columns(label, first[0]) if first and isinstance(first[0], Mapping) else [label]
    label_type = options.get("label_type") or Classes.kind
    with plugins.trusting([label_type]):  # named by the caller
        missing = heads.of_texts(label_type).missing
    stops = options.get("bad_rows") == "stop"
    complete = _complete(called, rows(itertools.chain(first, each), columns, labels), label, missing, stops=stops)
    write_lines(path, complete)
    return columns, label


def _are_tagged(first: Sequence[Any], options: Mapping[str, Any]) -> bool:
    """Returns whether rows contain tagged words, or are for a tagging task."""
    task = options.get("task_name", "")
    if not all(isinstance(row, Mapping) for row in first) or not first:
        return False
    is_found = not task and "label_type" not in options and conll_files.are_tagged(list(_all_columns(first)))
    return is_found or of_task(task) is TagOptions


def _all_columns(several: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for row in several:
        if isinstance(row, Mapping):
            values = ((name, value.tolist() if hasattr(value, "tolist") else value) for name, value in row.items())
            yield {name: None if is_missing(value) else value for name, value in values}


def _complete(
    called: str, found: Iterable[dict[str, Any]], label: str, missing: Sequence[Any], *, stops: bool
) -> Iterator[dict[str, Any]]:
    """The rows with text and label; reports the skipped ones."""
    reasons, number = [], -1
    labels: list[str] = []
    for number, row in enumerate(found):
        labels = labels or label_columns(label, row)
        is_unlabelled = label_of(label, row) in missing
        if is_unlabelled or not any(_has_text(text) for name, text in row.items() if name not in labels):
            reasons.append(f"row {number} has no {'label' if is_unlabelled else 'text'}")
        else:
            yield row
    labelled_rows.report_bad(called, reasons, stops=stops)
    if len(reasons) == number + 1:
        raise UserError(f"No row of {called} has a text and a label.")


def _has_text(text: Any) -> bool:
    return bool(text.strip() if isinstance(text, str) else text)


def rows(data: Iterable[Any], columns: Sequence[str], labels: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields {column: value} for each row: its texts and its label, which may be several columns of 0 and 1."""
    names = [*columns, *labels]
    for number, row in enumerate(_each(data)):
        if isinstance(row, Mapping):
            lacking = [name for name in names if name not in row]
            if lacking:
                raise UserError(f"Row {number} has no {lacking[0]!r}; it has {', '.join(map(str, row))}.")
            values = [row[name] for name in names]
        elif isinstance(row, tuple | list) and len(row) == len(names):
            values = list(row)
        else:
            raise UserError(f"Row {number} is {row!r}; expected a dictionary, or a tuple of {', '.join(names)}.")
        yield dict(zip(names, _checked(number, values, columns), strict=True))


def _checked(number: int, values: Sequence[Any], columns: Sequence[str]) -> list[Any]:
    """The values of a row for JSON, texts first; UserError for values that are not a text, a label or Unicode."""
    try:
        plain = [_plain(value) for value in values]
        json.dumps(plain, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise UserError(f"Row {number} contains bytes that are not UTF-8 ({error.reason}); expected text.") from None
    except UnicodeEncodeError as error:
        raise UserError(
            f"Row {number} is not Unicode: it has half a surrogate pair, {error.object[error.start]!r}; correct the "
            "text, or remove the row."
        ) from None
    except TypeError:
        raise UserError(f"Row {number} has the label {values[-1]!r}; expected a text, a number or a list.") from None
    for name, value in zip(columns, plain, strict=False):
        if not _is_text(value):
            raise UserError(f"Row {number} has {value!r} in {name!r}; expected text.")
    return plain


def _each(data: Any) -> Iterable[Any]:
    """The rows of any data; numeric column names, as in pandas, become strings."""
    return map(given_texts.by_names, _rows_of(data))


def _rows_of(data: Any) -> Iterable[Any]:
    if is_frame(data) or isinstance(data, Mapping):
        names = list(map(str, data if isinstance(data, Mapping) else data.columns))
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise UserError(f"Several columns are called {', '.join(repeated)}; pass each a name of its own.")
        if isinstance(data, Mapping):
            return (dict(zip(names, values, strict=True)) for values in zip(*data.values(), strict=True))
        return data.to_dicts() if hasattr(data, "to_dicts") else data.to_dict("records")
    if hasattr(data, "as_numpy_iterator"):
        return data.as_numpy_iterator()
    if not isinstance(data, Iterable):
        raise UserError(f"The data is {data!r}; expected a path, a DataFrame, a tf.data.Dataset, or rows.")
    return data


def _plain(value: Any) -> Any:
    """A value for JSON: bytes as text, NumPy numbers as Python's, arrays as lists, NaN and pandas' NA as None.

    Raises UnicodeDecodeError.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if is_missing(value):
        return None
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _is_text(value: Any) -> bool:
    """Returns whether a value is a text, a text split into words, or missing."""
    is_words = isinstance(value, list) and all(isinstance(word, str) for word in value)
    return value is None or isinstance(value, str) or is_words


def write_lines(path: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as JSON lines, atomically."""
    make_folder(os.path.dirname(path))
    atomic_files.write_lines(path, (json.dumps(row, ensure_ascii=False) + "\n" for row in found))


def place(new: str, name: str, folder: str, *, takes_next: bool = False) -> str:
    """Moves a run's training rows to their name in its folder; returns the folder.

    new: their current path. takes_next: if the folder has a run on other data, use the next one, folder-2, ...;
    otherwise raise UserError.
    """

    def is_other(each: str) -> bool:
        run, path = RunFolder(each), os.path.join(each, name)
        is_begun = starting_point.is_trained(run) or sweep.is_in(run)
        return is_begun and (not _same(path, new) if files.exists(path) else takes_next)

    chosen = folder
    if is_other(folder):
        if not takes_next:
            files.remove(new)
            raise UserError(
                f"{folder} has a run on other data: pass another output_dir, such as {next_free(folder)}, or the "
                "same data to continue it."
            )
        chosen = next(each for number in itertools.count(2) if not is_other(each := f"{folder}-{number}"))
        terminal.say(f"{folder} has a run on other data; this run is {chosen}.")
    target = os.path.join(chosen, name)
    make_folder(os.path.dirname(target))
    files.rename(new, target)
    return chosen


def _same(first: str, second: str) -> bool:
    with files.open_binary(first) as one, files.open_binary(second) as other:
        return all(line == its for line, its in itertools.zip_longest(one, other))

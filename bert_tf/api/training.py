"""The training recipes for programs: `bert_tf.fine_tune` and `bert_tf.pretrain`."""

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bert_tf.config import flags
from bert_tf.errors import UserError
from bert_tf.recipes import finetune as finetune_recipe
from bert_tf.recipes import pretrain as pretrain_recipe
from bert_tf.recipes.finetuning import run as finetuning
from bert_tf.runtime import atomic_files
from bert_tf.runtime.files import make_folder
from bert_tf.runtime.json_files import read_json
from bert_tf.training.run_directory import Callback, calling

if TYPE_CHECKING:
    from bert_tf.api.bert import Bert

Data = Any  # a path, rows, a pandas DataFrame or a tf.data.Dataset


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run.

    Attributes:
        path: its folder, as the scripts write it: checkpoints, metrics, report.html, README.md, the export.
        scores: {metric: value} on the held-out data; {} without.
    """

    path: str
    scores: Mapping[str, float]

    def load(self, *, trust_code: bool = False) -> "Bert":
        """The trained model. trust_code: as for `bert_tf.load`."""
        from bert_tf.api import bert

        return bert.load(self.path, trust_code=trust_code)


def fine_tune(
    data: Data,
    *,
    output_dir: str | os.PathLike[str],
    text: str | Sequence[str] = "text",
    label: str = "label",
    eval_data: Data = None,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> Run:
    """Fine-tunes a model on labelled texts; see `bert_tf.fine_tune`."""
    columns = [text] if isinstance(text, str) else list(text)
    folder = os.fspath(output_dir)
    values = {
        "task_name": "table",
        "train_file": _table(data, columns, label, os.path.join(folder, "data", "train.jsonl")),
        "eval_file": _table(eval_data, columns, label, os.path.join(folder, "data", "eval.jsonl")),
        "text_columns": ",".join(columns),
        "label_column": label,
        "output_dir": folder,
        **options,
    }
    with flags.given_by_program(finetune_recipe.Flags, _without_defaults(values)), calling(callbacks):
        finetuning.main(finetune_recipe.Flags)
    return _finished(folder)


def pretrain(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "",
    *,
    output_dir: str | os.PathLike[str],
    texts: Iterable[str] | None = None,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> Run:
    """Pre-trains a model on raw text; see `bert_tf.pretrain`."""
    folder = os.fspath(output_dir)
    if (texts is None) == (not files):
        raise UserError("Give either files or texts to train on.")
    if texts is None:
        paths = [files] if isinstance(files, str | os.PathLike) else list(files)
        source = ",".join(os.fspath(path) for path in paths)
    else:
        source = _write(os.path.join(folder, "data", "texts.jsonl"), ({"text": each} for each in texts))
    values = {"input_file": source, "output_dir": folder, **options}
    with flags.given_by_program(pretrain_recipe.Flags, values), calling(callbacks):
        pretrain_recipe.main()
    return _finished(folder)


def _without_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values but for a table that is not there."""
    return {name: value for name, value in values.items() if value is not None}


def _finished(folder: str) -> Run:
    return Run(path=folder, scores=read_json(os.path.join(folder, "eval_results.json")) or {})


def _table(data: Data, columns: Sequence[str], label: str, path: str) -> str | None:
    """The path of a table with the data, which is written unless the data are a path."""
    if data is None or isinstance(data, str | os.PathLike):
        return None if data is None else os.fspath(data)
    return _write(path, _rows(data, columns, label))


def _rows(data: Data, columns: Sequence[str], label: str) -> Iterator[dict[str, Any]]:
    """Rows of a DataFrame, a tf.data.Dataset, or an iterable of dictionaries or of tuples that end in the label."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        data = data.to_dict("records")
    elif hasattr(data, "as_numpy_iterator"):
        data = data.as_numpy_iterator()
    names = [*columns, label]
    for number, row in enumerate(data):
        if isinstance(row, Mapping):
            missing = [name for name in names if name not in row]
            if missing:
                raise UserError(f"Row {number} has no {missing[0]!r}; it has {', '.join(map(str, row))}.")
            values = [row[name] for name in names]
        elif isinstance(row, tuple | list) and len(row) == len(names):
            values = list(row)
        else:
            raise UserError(f"Row {number} is {row!r}; expected a dictionary, or a tuple of {', '.join(names)}.")
        try:
            yield dict(zip(names, map(_plain, values), strict=True))
        except UnicodeDecodeError as error:
            raise UserError(f"Row {number} holds bytes that are not UTF-8 ({error.reason}); expected text.") from None


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes as text, numbers of NumPy as Python's, arrays as lists, NaN and pandas' NA as null.

    Raises UnicodeDecodeError.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _write(path: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Writes rows as JSON lines, whole or not at all; the table of a run stays with it, so that it can be resumed."""
    make_folder(os.path.dirname(path))
    atomic_files.write_lines(path, (_line(number, row) for number, row in enumerate(rows)))
    return path


def _line(number: int, row: Mapping[str, Any]) -> str:
    line = json.dumps(row, ensure_ascii=False) + "\n"
    try:
        line.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"Row {number} is not Unicode: it holds half a surrogate pair, {line[error.start]!r}; mend the text, or "
            "leave the row out."
        ) from None
    return line

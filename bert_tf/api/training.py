"""The training recipes as Python functions: `bert_tf.fine_tune` and `bert_tf.pretrain`."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from bert_tf.api import bert, processes, python_words, table
from bert_tf.api import texts as given_texts
from bert_tf.api.bert import Bert
from bert_tf.api.options import FineTuneOptions, PretrainOptions
from bert_tf.errors import UserError
from bert_tf.recipes import finetune as finetune_recipe
from bert_tf.recipes import pretrain as pretrain_recipe
from bert_tf.recipes.finetuning import table_choice
from bert_tf.runtime import terminal
from bert_tf.runtime.json_files import read_json
from bert_tf.training.run_directory import Callback, calling

GIVEN = {"train_file": table.THE_DATA, "eval_file": "eval_data"}  # {flag of a table: its name in messages}
ROWS = {"train_file": "data/train.jsonl", "eval_file": "data/eval.jsonl"}  # files of a run on data from Python
TEXTS = "data/texts.jsonl"
OF_TASKS = {"task_name", "data_dir", "tfds_name"}  # options that name data, so that `data` may be None
Data = Any  # a path, rows, a pandas DataFrame or a tf.data.Dataset


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run.

    Attributes:
        path: the run folder, with checkpoints, metrics, report.html, README.md and the export.
        scores: {metric: value} on the validation set; {} without one.
    """

    path: str
    scores: Mapping[str, float]

    def load(self) -> "Bert":
        """The trained model."""
        return bert.load(self.path)


def fine_tune(
    data: Data,
    *,
    output_dir: str | os.PathLike[str] | None = None,
    text: str | int | Sequence[str | int] | None = None,
    label: str | int | None = None,
    eval_data: Data = None,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[FineTuneOptions],
) -> Run:
    """Fine-tunes a model on labeled texts; see `bert_tf.fine_tune`."""
    processes.check()
    _check_no_dry_run(options)
    if data is None and not options.keys() & OF_TASKS:
        raise UserError("data is None; expected the path of a table, or rows, such as a DataFrame.")
    given = finetune_recipe.Flags.of_program(options)  # wrong options fail before anything is written
    name = os.fspath(data) if isinstance(data, str | os.PathLike) else table.NAME
    folder = table_choice.run_folder(name) if output_dir is None else os.fspath(output_dir)
    columns: Sequence[str] = [str(text)] if isinstance(text, str | int) else list(map(str, text or ()))
    label_name = None if label is None else str(label)
    values: dict[str, Any] = {}
    called: dict[str, str] = {}  # {path: its name in messages}
    with terminal.plain_warnings(), python_words.spoken(called):
        for (flag, title), each in zip(GIVEN.items(), (data, eval_data), strict=True):
            if isinstance(each, str | os.PathLike):
                values[flag] = os.fspath(each)
            elif each is not None:
                is_train = flag == "train_file"
                path = os.path.join(folder, ROWS[flag])
                new = f"{path}.new" if is_train else path
                columns, label_name = table.write(each, new, columns, label_name, options, title)
                if is_train:
                    takes_next = output_dir is None and options.get("do_train", True)
                    folder = table.place(new, ROWS[flag], folder, takes_next=takes_next)
                values[flag] = os.path.join(folder, ROWS[flag])
                called[values[flag]] = title
        values["output_dir"] = folder
        if "task_name" in options:
            columns, label_name = columns or [table.TEXT], label_name or table.LABEL
        chosen = {"text_columns": ",".join(columns), "label_column": label_name}
        read = finetune_recipe.Flags.flags_of(options.get("task_name", ""))
        values |= {name: value for name, value in chosen.items() if value and name in read}
        given = finetune_recipe.Flags.of_program({**values, **options})
        with given.trusting(), calling(callbacks):
            finetune_recipe.main(given)
    return _finished(folder)


def pretrain(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "",
    *,
    output_dir: str | os.PathLike[str] = pretrain_recipe.Flags.output_dir,
    texts: Iterable[str] | None = None,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[PretrainOptions],
) -> Run:
    """Pre-trains a model on raw text; see `bert_tf.pretrain`."""
    processes.check()
    _check_no_dry_run(options)
    folder = os.fspath(output_dir)
    if (texts is None) == (not files):
        raise UserError("Pass either files or texts to train on.")
    if texts is None:
        paths = [files] if isinstance(files, str | os.PathLike) else list(files)
        source = ",".join(os.fspath(path) for path in paths)
    else:
        source = os.path.join(folder, TEXTS)
    values = {"input_file": source, "output_dir": folder, **options}
    given = pretrain_recipe.Flags.of_program(values)
    with given.trusting(), calling(callbacks), terminal.plain_warnings(), python_words.spoken():
        if texts is not None:
            rows = enumerate(given_texts.elements(texts, "texts"))
            lines = ({"text": given_texts.as_text(each, f"Text {number}")} for number, each in rows)
            table.write_lines(f"{source}.new", lines)
            table.place(f"{source}.new", TEXTS, folder)
        pretrain_recipe.main(given)
    return _finished(folder)


def _check_no_dry_run(options: Mapping[str, Any]) -> None:
    if options.get("dry_run"):
        raise UserError(
            "dry_run=True is for commands, because functions return finished runs: `bert-tf finetune FILE --dry_run` "
            "prints the plan."
        )


def _finished(folder: str) -> Run:
    return Run(path=folder, scores=read_json(os.path.join(folder, "eval_results.json")) or {})

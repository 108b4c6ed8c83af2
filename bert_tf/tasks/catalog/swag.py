"""SWAG (Zellers et al. 2018): which of four endings follows a sentence (Devlin et al. 2018, section 4.4)."""

import dataclasses
from collections.abc import Sequence

from bert_tf.data import examples, tables
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.table_options import SentenceOptions
from bert_tf.heads.choice import MultipleChoice
from bert_tf.tasks.catalog import TokenizerFor
from bert_tf.tasks.task import FineTuningTask, text_task

ENDINGS = ("ending0", "ending1", "ending2", "ending3")
NAMES = {"train": ("train",), "dev": ("val", "dev"), "test": ("test",)}  # official file names, then common ones


def task(options: SentenceOptions, tokenizer_for: TokenizerFor) -> FineTuningTask:
    """SWAG, or other data with its columns (HellaSwag); see bert_tf.tasks.catalog for the arguments.

    options.data_dir contains train.csv, val.csv and test.csv, or the same as .tsv or .jsonl.
    The paper trains with batches of 16, learning rate 2e-5, 3 epochs.
    """
    splits = {split: lambda names=names: read(_path(options.data_dir, names)) for split, names in NAMES.items()}
    return text_task("swag", splits, MultipleChoice(len(ENDINGS)), tokenizer_for, options, texts=1 + len(ENDINGS))


def read(path: str) -> list[Example]:
    """The examples in a file: texts are sent1, then sent2 with each of the endings."""
    columns = tables.column_names(path)
    rows = examples.read(
        path,
        texts=("sent1", "sent2", *ENDINGS),
        label="label" if "label" in columns else None,
        id_column=next((name for name in ("", "ind") if name in columns), None),  # the first column has no name
    )
    choices = [[f"{row.texts[1]} {ending}".strip() for ending in row.texts[2:]] for row in rows]
    return [dataclasses.replace(row, texts=(row.texts[0], *each)) for row, each in zip(rows, choices, strict=True)]


def _path(data_dir: str, names: Sequence[str]) -> str:
    path = next(filter(None, (tables.find_table(data_dir, name) for name in names)), None) if data_dir else None
    if path is None:
        raise UserError(f"There is no {names[0]}.csv in data_dir={data_dir}; expected SWAG's files there.")
    return path


TASKS = {"swag": task}

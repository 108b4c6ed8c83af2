"""Text embeddings from tables: texts that belong together, texts with a score, or only texts."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

from bert_tf.config.flag_parsers import comma_separated
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.data import examples, tables
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.vectors.goals import Positives, Similarities, TwoDropouts, VectorGoal
from bert_tf.runtime import files
from bert_tf.tasks import table_splits
from bert_tf.tasks.catalog import TokenizerFor
from bert_tf.tasks.task import FineTuningTask
from bert_tf.tasks.task_options import VectorOptions

COLUMNS = {  # of texts: the smallest and the largest number, and an example
    "pairs": (2, 2, "ANCHOR,POSITIVE"),
    "triplets": (3, 20, "ANCHOR,POSITIVE,NEGATIVE"),
    "sts": (2, 2, "FIRST,SECOND"),
    "simcse": (1, 1, "TEXT"),
}


def task(options: VectorOptions, tokenizer_for: TokenizerFor, *, name: str) -> FineTuningTask:
    """Learns embeddings from `text_columns` of tables; see bert_tf.tasks.catalog for the first two arguments.

    name: "pairs" (an anchor and its positive), "triplets" (and hard negatives in additional columns), "sts" (two
        texts, and their similarity in label_column), or "simcse" (one text, paired with itself; also a file
        with one text per line).
    options: the tables as for the task "table", pooling, normalize_vectors, similarity_scale, similarity_loss,
        largest_score, matryoshka_dims, eval_text_columns.
    """
    columns = _columns(options, name)
    partial = functools.partial(_read, options, columns=columns, name=name)
    read: dict[str, Callable[[], list[Example]]] = {
        split: functools.cache(functools.partial(partial, split)) for split in table_splits.SPLITS
    }
    has_dev = table_splits.find(options, "dev")
    if name != "simcse" and table_splits.needs_held_out(options):
        path = table_splits.require(options, "train")
        read |= table_splits.held_out(path, read["train"], options.eval_fraction)
    tokenizer = tokenizer_for(lambda: (text for example in read["train"]() for text in example.texts))
    head = _head(options, name, len(columns)).configured(
        max_seq_length=options.max_seq_length, texts=len(columns), criterion=options.criterion, loss=options.loss
    )
    head.sizes = _sizes(options.matryoshka_dims)
    head.stride = (options.doc_stride or options.max_seq_length // 2) if options.long_texts == "windows" else 0
    eval_splits = {"": "dev"} if name != "simcse" or has_dev else {}
    return FineTuningTask(f"vectors/{name}", read, head, tokenizer, eval_splits=eval_splits)


def _columns(options: VectorOptions, name: str) -> list[str]:
    """The names in text_columns; UserError for too many or too few."""
    columns = comma_separated(options.text_columns)
    least, most, example = COLUMNS[name]
    if name == "simcse" and not columns:
        columns = ["text"]
    if not least <= len(columns) <= most:
        raise UserError(f"text_columns is {options.text_columns!r}; expected text_columns={example} for {name}.")
    return columns


def _sizes(text: str) -> tuple[int, ...]:
    """The numbers in matryoshka_dims, largest first."""
    sizes = comma_separated(text)
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise UserError(f"matryoshka_dims is {text!r}; expected whole numbers above 0, such as 384,128,64.")
    return tuple(sorted(map(int, sizes), reverse=True))


def _head(options: VectorOptions, name: str, columns: int) -> VectorGoal:
    vectors = SentenceVectors(options.pooling or "mean", options.normalize_vectors != "false")
    if name == "sts":
        return Similarities(
            vectors,
            scale=options.similarity_scale,
            loss_kind=options.similarity_loss,
            largest_score=options.largest_score,
        )
    if name == "simcse":
        return TwoDropouts(vectors, scale=options.similarity_scale)
    return Positives(vectors, columns, options.similarity_scale)


def _read(options: VectorOptions, split: str, columns: Sequence[str], name: str) -> list[Example]:
    """The examples of a split; for SimCSE the training texts twice, and scored pairs for evaluation."""
    path = table_splits.require(options, split)
    label = options.label_column if name == "sts" else None
    if name == "simcse" and split == "train":
        return [dataclasses.replace(row, texts=row.texts * 2) for row in _texts(path, columns)]
    if name == "simcse":
        columns, label = options.eval_text_columns.split(","), options.label_column
        if len(columns) != 2:
            raise UserError(f"eval_text_columns is {options.eval_text_columns!r}; expected two names of columns.")
    if split == "test" and label not in tables.column_names(path):
        label = None
    rows = examples.read(path, texts=columns, label=label, id_column=options.id_column or None, none_is_empty=True)
    return _check_texts(path, rows)


def _texts(path: str, columns: Sequence[str]) -> list[Example]:
    """Single texts, from a table or from the lines of a file."""
    if tables.is_table(path):
        return _check_texts(path, examples.read(path, texts=columns, none_is_empty=True))
    try:
        with files.open_text(path) as file:
            lines = [(number, line.strip()) for number, line in enumerate(file, 1) if line.strip()]
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: pass a table, or texts, one per line.") from None
    except FileNotFoundError:
        raise UserError(f"There is no file {path}: pass a table, or texts, one per line.") from None
    rows = [Example(str(row), (text,), None, f"line {number} of {path}") for row, (number, text) in enumerate(lines)]
    return _check_texts(path, rows)


def _check_texts(path: str, rows: list[Example]) -> list[Example]:
    """The rows; UserError if there are none, or a text is empty."""
    if not rows:
        raise UserError(f"{path} contains no text.")
    empty = [row.location for row in rows if not all(text.strip() for text in row.texts)]
    if empty:
        raise UserError(f"{len(empty)} rows have an empty text, the first is {empty[0]}: fill it, or remove the row.")
    return rows


TASKS = {f"vectors/{name}": functools.partial(task, name=name) for name in COLUMNS}

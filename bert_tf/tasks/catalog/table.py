"""The user's own table: CSV, TSV or JSONL files with columns of text and one of labels."""

import functools
import logging
import zlib

from bert_tf.data import examples, tables
from bert_tf.errors import UserError
from bert_tf.tasks.text_classification import classification
from bert_tf.tasks.text_classification.goals import Choice, Classes, Labels, Number, as_text, given_threshold, parted

FLAGS = {"train": "train_file", "dev": "eval_file", "test": "predict_file"}
log = logging.getLogger("bert_tf")


def task(options, tokenizer_for):
    """Sorts the texts of `text_columns` by `label_column`; see bert_tf.tasks.catalog for the arguments.

    options: data_dir with train, dev and test as .csv, .tsv or .jsonl, or train_file, eval_file and predict_file;
        label_type "class" (one of several), "several" (any number of labels, parted by label_separator) or "number" of
        one text or of two; or "choice": the first column is a text, the others are what may go on from it, and the
        label says which does, from 0;
        label_threshold: above which probability one of several labels holds, else 0.5;
        labels, with commas: their order, else they are found in the training data and sorted;
        id_column: what predictions carry as id, else the number of the row;
        eval_fraction: the part of the training rows that is held out to evaluate on where no table is given for that.
    The file to predict may be without the label column. An empty text is a text.
    """
    columns = [name.strip() for name in options.text_columns.split(",") if name.strip()]
    _expect_columns(columns, options)
    splits = {split: functools.partial(_examples, options, split, columns) for split in FLAGS}
    goal = _goal(options, columns, splits["train"])  # of all rows: a label may be in a held-out one only
    if options.do_eval and _find(options, "train") and not _find(options, "dev"):
        splits |= _held_out(_path(options, "train"), splits["train"], options.eval_fraction)
    return classification.task(
        "table",
        splits,
        goal,
        tokenizer_for(lambda: (text for example in splits["train"]() for text in example.texts)),
        texts=len(columns),
        **classification.settings(options),
    )


def _expect_columns(columns, options):
    if options.label_type == "choice":
        if len(columns) < 3 or not options.label_column:
            raise UserError(
                f"text_columns is {options.text_columns!r}; expected FIRST,CHOICE,CHOICE,..., the text and two or more "
                "columns of which one is right, and as label_column the one that says which, from 0."
            )
    elif len(columns) not in (1, 2) or not options.label_column:
        raise UserError(
            "Name the columns of the table: text_columns=TEXT or text_columns=FIRST,SECOND and label_column."
        )


def _examples(options, split, columns):
    path = _path(options, split)
    label = options.label_column
    if split == "test" and label not in tables.column_names(path):
        label = None
    return examples.read(path, texts=columns, label=label, id_column=options.id_column or None)


def _held_out(path, read, fraction):
    """{split: function that reads its examples}, both of one table; rows with the same texts are on the same side."""
    if not 0 < fraction < 1:
        raise UserError(f"eval_fraction is {fraction}; expected more than 0 and less than 1, or a table as eval_file.")

    @functools.cache
    def shared_out():
        parts = {"train": [], "dev": []}
        for example in read():
            drawn = zlib.crc32(b"\n".join(example.encode())) / 2**32
            parts["dev" if drawn < fraction else "train"].append(example)
        counts = {split: len(rows) for split, rows in parts.items()}
        if not all(counts.values()):
            raise UserError(
                f"With eval_fraction={fraction}, {counts['train']} rows of {path} are left to train on and "
                f"{counts['dev']} to evaluate on: choose another, or give a table as eval_file."
            )
        log.warning("%d of the %d rows of %s are held out to evaluate on.", counts["dev"], sum(counts.values()), path)
        return parts

    return {split: lambda split=split: shared_out()[split] for split in ("train", "dev")}


def _find(options, split):
    return getattr(options, FLAGS[split]) or (tables.find_table(options.data_dir, split) if options.data_dir else None)


def _path(options, split):
    path = _find(options, split)
    if path is None:
        raise UserError(
            f"There is no {split}.csv, {split}.tsv or {split}.jsonl in data_dir={options.data_dir!r}: give the table "
            f"as {FLAGS[split]}{', or do_eval=false' if split == 'dev' else ''}."
        )
    return path


def _goal(options, columns, training):
    if options.label_type == "choice":
        return Choice(len(columns) - 1)
    if options.label_type == "number":
        return Number()
    labels = options.labels  # a list of those that a model was trained with, or the flag
    if isinstance(labels, str):
        labels = [label.strip() for label in labels.split(",") if label.strip()]
    if options.label_type == "several":
        separator = options.label_separator
        if not separator:
            raise UserError("label_separator is ''; expected what parts the labels of a cell, such as a comma.")
        labels = labels or _found(part for e in training() for part in parted(e.label, separator))
    else:
        labels = labels or _found(as_text(example.label) for example in training())
    if len(labels) < 2:
        raise UserError(
            f"{_path(options, 'train')} has {f'only the label {labels[0]!r}' if labels else 'no label'} in its column "
            f"{options.label_column!r}; expected two or more to tell apart."
        )
    if options.label_type == "several":
        return Labels(labels, separator, given_threshold(options.label_threshold) or 0.5)
    return Classes(labels)


def _found(labels):
    """The labels there are, numbers by size and before words."""
    return sorted(
        set(labels) - {None, ""},
        key=lambda label: (not label.isdecimal(), int(label) if label.isdecimal() else 0, label),
    )


TASKS = {"table": task}

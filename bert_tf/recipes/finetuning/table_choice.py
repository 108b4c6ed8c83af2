"""Defaults for fine-tuning on just a table: columns, run folder, checkpoint, and length of training."""

import collections
import itertools
import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints import published
from bert_tf.checkpoints.sentence_transformers import MODULES
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.data import conll_files, tables
from bert_tf.data.examples import HOLDS, HOLDS_NOT, Example, joined_words, label_columns, label_of
from bert_tf.errors import UserError, count_text, listed
from bert_tf.heads.base.table_options import RowOptions
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import LIST, MultiLabel
from bert_tf.heads.regression import Regression
from bert_tf.recipes.finetuning import few_examples, sweep
from bert_tf.recipes.finetuning.finetuning_flags import FEW_EXAMPLES
from bert_tf.runtime import files, terminal
from bert_tf.tasks import labelled_rows
from bert_tf.training import confidence

CHOSEN = ("text_columns", "label_column", "label_type", "output_dir", "init_checkpoint", "max_seq_length")  # flags
RECIPE = (  # flags with separate defaults for a small table
    "eval_fraction",
    "train_batch_size",
    "num_train_epochs",
    "eval_steps",
    "early_stop_patience",
    "class_weights",
    "criterion",
    "start",
    "refit",
    "temperature",
)
REASONS = {  # for the flags chosen by `defaults`
    **few_examples.REASONS,
    "task_name": "train_file is a table",
    "text_columns": "the column of the longest texts",
    "label_column": "the column of few different values",
    "label_separator": "cells contain several labels",
    "label_type": "the values of the label column",
    "output_dir": "the name of the table",
    "init_checkpoint": "quick on a CPU, with scores close to BERT-base",
    "max_seq_length": "nearly all texts fit",
    "eval_fraction": "there are no other rows to evaluate on",
    "class_weights": "one class is rare",
    "criterion": "one class is rare",
    "start": "the checkpoint makes sentence embeddings",
    "refit": "few rows: training again with the held-out ones pays off",
    "temperature": "so that probabilities are calibrated",
}
HELD_OUT = ((1000, 0.2),)  # (below this many examples, share to evaluate on); else the default
REFIT_BELOW = 1000  # with fewer examples, training again on all of them pays off
UNEVEN = 0.5  # a class is rare below this part of its even share
MAX_MISTYPED = 2  # a class with this few rows may be a typo; nothing is learned from it
FOLDS_BELOW = 500  # with fewer rows, cross-validation is suggested
ROWS = 1000  # rows read to distinguish texts from labels
MAX_LABELS, MAX_LABELS_PER_ROW, MAX_LENGTH = 50, 0.3, 40  # distinct values in a label column; their characters
FEW_NUMBERS = 10  # up to this many distinct numbers with fractions are classes
SEPARATORS = (";", "|", ",")  # between labels in a cell
START = "MiniLM-L12-H384-uncased"  # quick on a CPU, with scores close to BERT-base
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
LENGTHS = (128, 256, 512)
FITTING = 0.95  # share of the texts that fit into the chosen length
CHARACTERS_PER_TOKEN = 4  # in English; fewer in other languages, whose length is underestimated


def defaults(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Default flags for a table; prints the choices.

    path: the table, or a folder with a train table. options: {name: value} of those of CHOSEN set by the user.

    Raises:
        UserError: the table cannot be read, lacks a column named by the user, or it is not clear which columns
            contain texts and labels.
    """
    table = path if tables.is_table(path) else tables.find_table(path, "train") or path
    each_row = (row for _, row in tables.read(table, malformed=[]))  # bad rows are reported later
    rows = list(itertools.islice(each_row, ROWS))
    is_alone = not (options.get("eval_file") or table != path and tables.find_table(path, "dev"))
    if conll_files.are_tagged(rows) and not options.keys() & {"text_columns", "label_column", "label_type"}:
        return _tag_defaults(table, path, itertools.chain(rows, each_row), options, is_alone=is_alone)
    label = options.get("label_column") or label_column(table, rows)
    columns = dict.fromkeys(name for row in rows for name in row)
    labels = label_columns(label, columns)
    text = options.get("text_columns") or text_column(table, rows, labels)
    tables.check_columns(table, columns, [*(name.strip() for name in text.split(",")), *labels])
    kind, separator = label_kind([label_of(label, row) for row in rows])
    chosen: dict[str, Any] = {
        "task_name": "table",
        "label_column": label,
        "text_columns": text,
        "output_dir": run_folder(path),
        "init_checkpoint": START,
        "label_type": kind,
        "max_seq_length": length(rows, text.split(",")),
    }
    chosen |= options
    used = _used_labels(itertools.chain(rows, each_row), chosen)
    if chosen["label_type"] == Classes.kind and len(used) < FEW_EXAMPLES and "labels" not in options:
        labelled_rows.check_several(list(dict.fromkeys(used)), table, label)
    if separator and chosen["label_type"] == MultiLabel.kind:
        chosen.setdefault("label_separator", separator)
    terminal.say(
        f"{table}: {_text_choice(chosen, options)}, {_label_choice(chosen, options, _values(rows, label))}; the run "
        f"is {chosen['output_dir']}, from {chosen['init_checkpoint'] or 'scratch'}, with rows of "
        f"{chosen['max_seq_length']} tokens."
    )
    return chosen | recipe(used, chosen["label_type"], options, is_alone=is_alone)


def _tag_defaults(
    table: str, path: str, rows: Iterable[Mapping[str, Any]], options: Mapping[str, Any], *, is_alone: bool
) -> dict[str, Any]:
    """Like `defaults`, for a table with tagged words."""
    chosen = {"task_name": "ner/table", "output_dir": run_folder(path), "init_checkpoint": START, **options}
    sentences = conll_files.sentences((("", dict(row)) for row in rows), table)
    count = len(list(itertools.islice(sentences, FEW_EXAMPLES)))
    terminal.say(
        f"{table}: tagged words; the run is {chosen['output_dir']}, from {chosen['init_checkpoint'] or 'scratch'}."
    )
    others = {"eval_fraction": RowOptions.eval_fraction, "start": "", "refit": False, "folds": 0}
    return chosen | recipe([""] * count, "", {**options, **others}, is_alone=is_alone, row="tagged sentence")


def _used_labels(rows: Iterable[Mapping[str, Any]], chosen: Mapping[str, Any]) -> list[str]:
    """The labels of the rows with text and label, which training reads; at most FEW_EXAMPLES."""
    head, given = heads.of_texts(chosen["label_type"]), chosen.get("labels") or ()
    named = comma_separated(given) if isinstance(given, str) else given
    names = [name.strip() for name in chosen["text_columns"].split(",")]
    examples = (
        Example(
            "", tuple(str(joined_words(row.get(name)) or "") for name in names), label_of(chosen["label_column"], row)
        )
        for row in rows
    )
    read = (labelled_rows.with_value(each, named, head) for each in examples)
    used = (str(each.label) for each in read if not labelled_rows.lacking(each, head))
    return list(itertools.islice(used, FEW_EXAMPLES))


def run_folder(path: str) -> str:
    """The default run folder for a table."""
    return os.path.join("runs", os.path.splitext(os.path.basename(path.rstrip("/")))[0])


def recipe(
    labels: Sequence[str],
    label_type: str,
    given: Mapping[str, Any],
    *,
    is_alone: bool = True,
    row: str = "labeled row",
) -> dict[str, Any]:
    """{flag: value} of RECIPE suited to a small table: several hundred steps; prints the choices.

    labels: one per row, at most FEW_EXAMPLES; with that many, the defaults for large tables are used. given: flags set
    by the user, which are omitted; includes do_train and do_eval. is_alone: a part is held out to evaluate on.
    row: the word for a row.
    """
    count = len(labels)
    if not 0 < count < FEW_EXAMPLES or not given.get("do_train", True):
        return {}
    is_scored = given.get("do_eval", True)
    folds, fraction = given.get("folds", 0), 0.0
    if is_scored and (is_alone or folds):
        fraction = given.get("eval_fraction") or next((part for most, part in HELD_OUT if count < most), 0.1)
        fraction = 1 / folds if folds else fraction
    chosen, steps = few_examples.length(count, given, held_out=fraction, is_scored=is_scored)
    if fraction and not folds:
        chosen["eval_fraction"] = fraction
    sizes = collections.Counter(" ".join(label.split()).lower() for label in labels)  # merges spellings of one label
    learned = {label: size for label, size in sizes.items() if size > MAX_MISTYPED} or sizes
    rarest, rare = min(learned.items(), key=lambda each: each[1])
    is_uneven = label_type == Classes.kind and rare * len(learned) < UNEVEN * count
    if _makes_vectors(given.get("init_checkpoint", START)):
        chosen["start"] = "best"
    if is_uneven:
        chosen |= {"class_weights": "balanced", "criterion": "macro_f1"}
    if label_type in (Classes.kind, MultiLabel.kind) and is_scored and not folds:
        chosen["temperature"] = confidence.BEST
    is_one = not folds and all(given.get(name, value) == value for name, value in sweep.ONE_RUN.items())
    if fraction and is_one and count < REFIT_BELOW:
        chosen["refit"] = True
    chosen = {name: value for name, value in chosen.items() if name not in given}
    if chosen:
        named = " ".join(f"--{name}={value}".removesuffix(".0").removesuffix("=True") for name, value in chosen.items())
        reason = f"; only {100 * rare / count:.1f}% are {rarest.strip()!r}" if is_uneven else ""
        terminal.say(f"For {count_text(count, row)}, about {count_text(steps, 'step')}{reason}: {named}.")
        if is_one:  # folds and seeds cannot be combined
            hint = "" if count >= FOLDS_BELOW or "folds" in given else "--folds=5 scores every row; "
            terminal.say(f"{hint}--num_seeds=3 shows how much depends on chance.")
    return chosen


def _makes_vectors(checkpoint: str) -> bool:
    """Returns whether this is a sentence-transformers model, with embeddings suited to a linear model."""
    name = published.handle(checkpoint) or checkpoint
    return "sentence-transformers/" in name or files.exists(os.path.join(name, MODULES))


def _text_choice(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    names = [name.strip() for name in chosen["text_columns"].split(",")]
    if len(names) == 1:
        return f"texts from the column {names[0]!r}"
    other = "" if "text_columns" in given else f" (--text={shlex.quote(names[0])} takes one of them)"
    return f"texts from the columns {' and '.join(map(repr, names))}{other}"


def _label_choice(chosen: Mapping[str, Any], given: Mapping[str, Any], values: Sequence[str]) -> str:
    """The kind of labels, and the flag for a different interpretation if they are ambiguous."""
    kind, name = chosen["label_type"], chosen["label_column"]
    separator = f", separated by {chosen['label_separator']!r}" if "label_separator" in chosen else ""
    what = {Regression.kind: "numbers", MultiLabel.kind: "several labels"}.get(kind, "labels")
    other = ""
    if "label_type" in given:
        pass
    elif kind == Regression.kind or separator:
        other = f" (--label_type=classes takes each {'combination' if separator else 'number'} as a class)"
    elif kind == Classes.kind and _are_all_numbers(values) and len(set(values)) > 2:
        other = " (--label_type=regression takes them as numbers)"
    return f"{what} from {name!r}{separator}{other}"


def length(rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> int:
    """The shortest of LENGTHS that nearly all texts fit into, estimated from their characters."""
    names = [name.strip() for name in columns]
    tokens = sorted(sum(len(str(row.get(name) or "")) for name in names) / CHARACTERS_PER_TOKEN for row in rows)
    most = tokens[int(FITTING * (len(tokens) - 1))]
    return next((length for length in LENGTHS if length >= most), LENGTHS[-1])


def label_column(path: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The column named label, the only one with few different short values or with numbers, or columns of 0 and 1.

    Several columns of 0 and 1 (or true and false, yes and no) are one label each, and more than one may apply; their
    names are joined by commas.
    """
    if "label" in rows[0]:
        return "label"
    values = {name: _values(rows, name) for name in rows[0]}
    candidates = [name for name in values if _is_label(values[name])]
    bits = [name for name in candidates if {value.strip().lower() for value in values[name]} <= {*HOLDS, *HOLDS_NOT}]
    if len(bits) > 1 and bits == candidates and not any("," in name for name in bits):
        return ",".join(bits)
    if not candidates:
        candidates = [name for name in values if separator_of(values[name]) or _are_numbers(values[name])]
    return _only(path, candidates, rows, "labels", "label")


def label_kind(labels: Sequence[Any]) -> tuple[str, str]:
    """The head kind for the cells of a label column, and the separator of cells with several labels."""
    if any(isinstance(label, list) for label in labels):
        return MultiLabel.kind, ""
    cells = [str(label) for label in labels if not labelled_rows.is_blank(label)]
    if cells and all(LIST.fullmatch(cell.strip()) for cell in cells):
        return MultiLabel.kind, ""
    if separator := separator_of(cells):
        return MultiLabel.kind, separator
    return (Regression.kind if _are_numbers(cells) else Classes.kind), ""


def separator_of(cells: Sequence[str]) -> str:
    """Separator of the labels in cells such as "acting;humor"; "" for one label per cell.

    The parts between separators are few and short, and occur in more combinations than there are parts.
    """
    for separator in SEPARATORS:
        parts = [tuple(part.strip() for part in cell.split(separator)) for cell in cells]
        several = {each for each in parts if len(each) > 1}
        labels = collections.Counter(part for each in parts for part in each if part)
        if len(several) < 2 or not all(all(each) and len(set(each)) == len(each) for each in several):
            continue
        if len(labels) < len(set(parts)) and len(labels) <= MAX_LABELS and max(map(len, labels)) <= MAX_LENGTH:
            return separator
    return ""


def text_column(path: str, rows: Sequence[Mapping[str, Any]], labels: Collection[str]) -> str:
    """The column named text, or the one with by far the longest values; if there are two, both as a pair."""
    if "text" in rows[0]:
        return "text"
    lengths = {name: sum(map(len, _values(rows, name))) for name in rows[0] if name not in labels}
    longest = max(lengths.values(), default=0)
    names = [name for name in lengths if longest and lengths[name] * 2 > longest]
    if len(names) == 2 and min(lengths[name] for name in names) > MAX_LENGTH * len(rows) / 2:
        return ",".join(names)
    return _only(path, names, rows, "texts", "text")


def _values(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    return [str(row[name]) for row in rows if not labelled_rows.is_blank(row.get(name))]


def _is_label(values: Sequence[str]) -> bool:
    """Returns whether there are several values, each frequent enough, and all short."""
    different = set(values)
    few = min(MAX_LABELS, max(2, MAX_LABELS_PER_ROW * len(values)))
    return 2 <= len(different) <= few and max(map(len, different)) <= MAX_LENGTH


def _are_numbers(values: Sequence[str]) -> bool:
    """Returns whether these are numbers, too many to be class names; integers that all differ are ids."""
    count, has_fractions = len(set(values)), any("." in value for value in values)
    if not _are_all_numbers(values) or (len(values) == count and not has_fractions):
        return False
    return count > (FEW_NUMBERS if has_fractions else MAX_LABELS)


def _are_all_numbers(values: Sequence[str]) -> bool:
    return bool(values) and all(NUMBER.fullmatch(value.strip()) for value in values)


def _only(path: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]], kind: str, flag: str) -> str:
    if len(names) != 1:
        reason = f"candidates: {listed(names)}" if names else "none looks like it"
        raise UserError(
            f"Which column of {path} contains the {kind}? {reason}; its columns: {listed(rows[0])}. Pass --{flag}=NAME."
        )
    return names[0]

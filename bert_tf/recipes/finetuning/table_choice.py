"""What a table that is given alone is fine-tuned with: columns, run folder, checkpoint, and for how long."""

import collections
import itertools
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_tf.data import tables
from bert_tf.errors import UserError, listed
from bert_tf.recipes.finetuning.finetuning_flags import FEW_EXAMPLES
from bert_tf.reports.wording import count_text

CHOSEN = ("text_columns", "label_column", "label_type", "output_dir", "init_checkpoint", "max_seq_length")  # flags
RECIPE = (  # flags that a small table has defaults of its own for
    "eval_fraction",
    "train_batch_size",
    "num_train_epochs",
    "eval_steps",
    "early_stop_patience",
    "class_weights",
    "criterion",
)
STEPS, MAX_EPOCHS, MIN_EPOCHS = 400, 60, 3  # of training on a small table
BATCH_SIZES = ((200, 8), (2000, 16))  # (examples below which, rows of a step); else the default
EVALUATIONS, PATIENCE, FEWEST_STEPS = 12, 4, 10  # in all, without improvement, and steps between two
HELD_OUT = ((1000, 0.2),)  # (examples below which, part of them to evaluate on); else the default
UNEVEN = 0.5  # part of its even share below which a class is rare
FOLDS_BELOW = 500  # rows for which cross-validation is suggested
ROWS = 1000  # read to tell texts from labels
MAX_LABELS, MAX_LABELS_PER_ROW = 50, 0.3  # different values in a column of labels
START = "MiniLM-L12-H384-uncased"  # quick on a CPU, and nearly as good as BERT-base
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
LENGTHS = (128, 256, 512)
FITTING = 0.95  # of the texts, in the length that is chosen
CHARACTERS_PER_TOKEN = 4  # of English; less elsewhere, where a longer row is chosen too late


def defaults(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Default flags for a table, and lines that say what was chosen, which are printed.

    path: the table, or a folder that holds it as train. options: {name: value} of those of CHOSEN that the
    user gave.

    Raises:
        UserError: the table cannot be read, lacks a column that the user named, or it is not clear which columns hold
            texts and labels.
    """
    table = path if tables.is_table(path) else tables.find_table(path, "train") or path
    all_rows = [row for _, row in itertools.islice(tables.read(table, malformed=[]), FEW_EXAMPLES)]
    rows = all_rows[:ROWS]  # bad rows are reported later
    label = options.get("label_column") or label_column(table, rows)
    text = options.get("text_columns") or text_column(table, rows, label)
    columns = dict.fromkeys(name for row in rows for name in row)
    tables.check_columns(table, columns, [*(name.strip() for name in text.split(",")), label])
    chosen: dict[str, Any] = {
        "task_name": "table",
        "label_column": label,
        "text_columns": text,
        "output_dir": os.path.join("runs", os.path.splitext(os.path.basename(path.rstrip("/")))[0]),
        "init_checkpoint": START,
        "label_type": "regression" if _are_numbers(_values(rows, label)) else "classes",
        "max_seq_length": length(rows, text.split(",")),
    }
    chosen |= options
    kind = "numbers" if chosen["label_type"] == "regression" else "labels"
    print(
        f"{table}: texts from the column {chosen['text_columns']!r}, {kind} from {chosen['label_column']!r}; the run "
        f"is {chosen['output_dir']}, from {chosen['init_checkpoint'] or 'scratch'}, with rows of "
        f"{chosen['max_seq_length']} tokens.",
        flush=True,
    )
    is_alone = not (options.get("eval_file") or table != path and tables.find_table(path, "dev"))
    labels = _values(all_rows, chosen["label_column"])
    return chosen | recipe(labels, chosen["label_type"], options, is_alone=is_alone)


def recipe(
    labels: Sequence[str], label_type: str, given: Mapping[str, Any], *, is_alone: bool = True
) -> dict[str, Any]:
    """{flag: value} of RECIPE with which a small table learns: several hundred steps; prints what was chosen.

    labels: those of the rows, FEW_EXAMPLES at most; with so many, the defaults for large tables do. given: flags that
    the user gave, which are left out; do_train and do_eval among them. is_alone: a part is held out to evaluate on.
    """
    count = len(labels)
    if not 0 < count < FEW_EXAMPLES or not given.get("do_train", True):
        return {}
    batch_size = given.get("train_batch_size") or next((size for most, size in BATCH_SIZES if count < most), 32)
    fitting = min(max(math.ceil(STEPS * batch_size / count), MIN_EPOCHS), MAX_EPOCHS)
    epochs = float(given.get("num_train_epochs") or fitting)
    is_scored = given.get("do_eval", True)
    folds, fraction = given.get("folds", 0), 0.0
    if is_scored and (is_alone or folds):
        fraction = given.get("eval_fraction") or next((part for most, part in HELD_OUT if count < most), 0.1)
        fraction = 1 / folds if folds else fraction
    trained = count - round(count * fraction)
    steps = max(1, int(trained * epochs / batch_size))
    chosen: dict[str, Any] = {"train_batch_size": batch_size, "num_train_epochs": epochs}
    if fraction and not folds:
        chosen["eval_fraction"] = fraction
    if is_scored:
        chosen |= {"eval_steps": max(FEWEST_STEPS, steps // EVALUATIONS), "early_stop_patience": PATIENCE}
    sizes = collections.Counter(" ".join(label.split()).lower() for label in labels)  # spellings of one are joined
    rarest, rare = min(sizes.items(), key=lambda each: each[1])
    is_uneven = label_type == "classes" and rare * len(sizes) < UNEVEN * count
    if is_uneven:
        chosen |= {"class_weights": "balanced", "criterion": "macro_f1"}
    chosen = {name: value for name, value in chosen.items() if name not in given}
    if chosen:
        named = " ".join(f"--{name}={value}".removesuffix(".0") for name, value in chosen.items())
        reason = f"; only {100 * rare / count:.1f}% are {rarest.strip()!r}" if is_uneven else ""
        print(
            f"For {count_text(count, 'labelled row')}, about {count_text(steps, 'step')}{reason}: {named}. "
            f"{'' if folds or count >= FOLDS_BELOW else '--folds=5 scores every row; '}--num_seeds=3 shows how much "
            "depends on chance.",
            flush=True,
        )
    return chosen


def length(rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> int:
    """The shortest of LENGTHS that nearly all texts fit in, by their characters."""
    names = [name.strip() for name in columns]
    tokens = sorted(sum(len(str(row.get(name) or "")) for name in names) / CHARACTERS_PER_TOKEN for row in rows)
    most = tokens[int(FITTING * (len(tokens) - 1))]
    return next((length for length in LENGTHS if length >= most), LENGTHS[-1])


def label_column(path: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The column called label, or the only one with few different short values."""
    if "label" in rows[0]:
        return "label"
    candidates = [name for name in rows[0] if _is_label(_values(rows, name))]
    return _only(path, candidates, rows, "labels", "label")


def text_column(path: str, rows: Sequence[Mapping[str, Any]], label: str) -> str:
    """The column called text, or the one with by far the longest values."""
    if "text" in rows[0]:
        return "text"
    lengths = {name: sum(map(len, _values(rows, name))) for name in rows[0] if name != label}
    longest = max(lengths.values(), default=0)
    return _only(path, [name for name in lengths if longest and lengths[name] * 2 > longest], rows, "texts", "text")


def _values(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    return [str(row[name]) for row in rows if row.get(name) not in (None, "")]


def _is_label(values: Sequence[str]) -> bool:
    """Returns whether there are several values, each of them often enough, and all short."""
    different = set(values)
    few = min(MAX_LABELS, max(2, MAX_LABELS_PER_ROW * len(values)))
    return 2 <= len(different) <= few and max(map(len, different)) <= 40


def _are_numbers(values: Sequence[str]) -> bool:
    """Returns whether the values are numbers, too many to be names of classes."""
    return len(set(values)) > MAX_LABELS and all(NUMBER.fullmatch(value.strip()) for value in values)


def _only(path: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]], kind: str, flag: str) -> str:
    if len(names) != 1:
        reason = f"{listed(names)} may hold them" if names else "none looks like it"
        raise UserError(
            f"Which column of {path} holds the {kind}? {reason}; its columns: {listed(rows[0])}. Pass --{flag}=NAME."
        )
    return names[0]

"""The tables of a task's splits: the flag or file of each, and the rows held out of the training data."""

import collections
import functools
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence

from bert_tf.data import preprocessed_examples, tables, tfds_datasets
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.table_options import SPLIT_FLAGS, RowOptions
from bert_tf.runtime import files

TFDS_SPLITS = {"train": ("train",), "dev": ("validation", "valid", "dev"), "test": ("test",)}
SPLITS = tuple(SPLIT_FLAGS)
log = logging.getLogger("bert_tf")


def find(options: RowOptions, split: str) -> str | None:
    """The table of a split: from its flag, or in data_dir, or in train_file if that is such a folder.

    With tfds_name it is DATASET/SPLIT.
    """
    if options.tfds_name:
        known = tfds_datasets.split_names(options.tfds_name, options.tfds_dir)
        return next((f"{options.tfds_name}/{name}" for name in TFDS_SPLITS[split] if name in known), None)
    path, folder = options.file_of(split), options.data_dir
    if options.train_file and files.is_folder(options.train_file) and not tables.is_table(options.train_file):
        folder = options.train_file
        path = "" if split == "train" else path
    return path or (tables.find_table(folder, split) if folder else None)


def needs_held_out(options: RowOptions) -> bool:
    """Returns whether to hold out part of the training table, because there is no other to evaluate on.

    Not for preprocessed examples, whose rows are not texts to divide.
    """
    if not options.do_eval or preprocessed_examples.is_file_of_them(options.train_file):
        return False
    return bool(find(options, "train") and not find(options, "dev"))


def require(options: RowOptions, split: str) -> str:
    """Like `find`; UserError if there is no table."""
    path = find(options, split)
    if path is None and options.tfds_name:
        raise UserError(
            f"{options.tfds_name} has no split {' or '.join(TFDS_SPLITS[split])}: remove the flags that need it."
        )
    if path is None:
        raise UserError(
            f"There is no table {split} ({', '.join(tables.EXTENSIONS)}) in data_dir={options.data_dir!r}: pass it as "
            f"{SPLIT_FLAGS[split]}{', or do_eval=false' if split == 'dev' else ''}."
        )
    return path


def held_out(
    path: str,
    read: Callable[[], list[Example]],
    fraction: float,
    *,
    is_stratified: bool = False,
    folds: int = 0,
    fold: int = 0,
) -> dict[str, Callable]:
    """{split: function that reads its examples}, both from one table; rows with the same texts are on the same side.

    A text in more rows than are to be held out stays in the training data.

    is_stratified: whether to hold out that fraction of each label, so that the splits have the same shares of labels.
    folds, fold: hold out this fold of that many instead, counted from 1; every row is in one of them.
    """
    if not 0 < fraction < 1:
        raise UserError(f"eval_fraction is {fraction}; expected more than 0 and less than 1, or a table as eval_file.")

    @functools.cache
    def divided() -> dict[str, list[Example]]:
        parts: dict[str, list[Example]] = {"train": [], "dev": []}
        examples = read()
        drawn = [zlib.crc32(b"\n".join(example.encode())) / 2**32 for example in examples]
        if fold:
            chosen = _of_fold(_by_label(examples, drawn), folds, fold)
        elif is_stratified:
            chosen = _stratified(_by_label(examples, drawn), fraction)
        else:
            chosen = _below(collections.Counter(drawn), fraction)
        for example, number in zip(examples, drawn, strict=True):
            parts["dev" if number in chosen else "train"].append(example)
        counts = {split: len(rows) for split, rows in parts.items()}
        if not all(counts.values()):
            raise UserError(
                f"With eval_fraction={fraction}, {counts['train']} rows of {path} are left to train on and "
                f"{counts['dev']} to evaluate on (rows with the same texts stay together): choose another, or pass a "
                "table as eval_file."
            )
        log.warning("%d of the %d rows of %s are held out to evaluate on.", counts["dev"], sum(counts.values()), path)
        return parts

    return {"train": lambda: divided()["train"], "dev": lambda: divided()["dev"]}


Rows = Mapping[float, int]  # {number drawn for a text: its number of rows}


def _by_label(examples: Sequence[Example], drawn: Sequence[float]) -> list[Rows]:
    """The texts of each label; labels with a single text are grouped together."""
    labels: dict[float, collections.Counter[str]] = {}
    for example, number in zip(examples, drawn, strict=True):
        labels.setdefault(number, collections.Counter())[str(example.label)] += 1
    by_label: dict[str, dict[float, int]] = {}
    for number, counts in labels.items():  # a text with several labels counts for the most common one
        by_label.setdefault(counts.most_common(1)[0][0], {})[number] = counts.total()
    groups: list[Rows] = [rows for rows in by_label.values() if len(rows) > 1]
    groups.append({number: count for rows in by_label.values() if len(rows) == 1 for number, count in rows.items()})
    return groups


def _stratified(groups: Sequence[Rows], fraction: float) -> set[float]:
    """The held-out texts: in each group, the smallest numbers that fit in its share of rows.

    Two texts or more have a share of at least one row.
    """
    chosen = set()
    for rows in groups:
        share = max(round(fraction * sum(rows.values())), int(len(rows) > 1))
        for number in sorted(rows):
            if rows[number] <= share:
                chosen.add(number)
                share -= rows[number]
    return chosen


def _below(rows: Rows, fraction: float) -> set[float]:
    """The held-out texts of one group, independent of other texts unless some are in several rows.

    Thus adding rows to a table does not move other rows to the other side.
    """
    share = fraction * sum(rows.values())
    fitting = sum(count for count in rows.values() if count <= max(share, 1))
    limit = fraction * (sum(rows.values()) / max(fitting, 1))
    chosen = set()
    for number in sorted(number for number in rows if number < limit):
        if rows[number] == 1 or rows[number] <= share:
            chosen.add(number)
            share -= rows[number]
    return chosen


def _of_fold(groups: Sequence[Rows], folds: int, fold: int) -> set[float]:
    """The texts of a fold, counted from 1; each goes to the fold with the fewest rows of its group, then in total."""
    chosen, in_all = set(), [0] * folds
    for rows in groups:
        in_group = [0] * folds
        for number in sorted(rows, key=lambda number: (-rows[number], number)):
            place = min(range(folds), key=lambda place: (in_group[place], in_all[place]))
            in_group[place] += rows[number]
            in_all[place] += rows[number]
            if place == fold - 1:
                chosen.add(number)
    return chosen

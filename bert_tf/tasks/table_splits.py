"""The tables of a task's splits: which flag or file holds which, and what is held out of the training data."""

import functools
import logging
import zlib
from collections.abc import Callable, Sequence

from bert_tf.data import preprocessed_examples, tables, tfds_datasets
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.table_options import SPLIT_FLAGS, RowOptions
from bert_tf.runtime import files

TFDS_SPLITS = {"train": ("train",), "dev": ("validation", "valid", "dev"), "test": ("test",)}
SPLITS = tuple(SPLIT_FLAGS)
log = logging.getLogger("bert_tf")


def find(options: RowOptions, split: str) -> str | None:
    """The table of a split: that of its flag, or the one in data_dir, or in train_file if that is such a folder.

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
    """Returns whether part of the training table is to be held out, as there is no other to evaluate on.

    Not of preprocessed examples, whose rows are not texts to divide.
    """
    if not options.do_eval or preprocessed_examples.is_file_of_them(options.train_file):
        return False
    return bool(find(options, "train") and not find(options, "dev"))


def require(options: RowOptions, split: str) -> str:
    """As `find`; UserError if there is no table."""
    path = find(options, split)
    if path is None and options.tfds_name:
        raise UserError(f"{options.tfds_name} has no split {' or '.join(TFDS_SPLITS[split])}: leave out what needs it.")
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
    """{split: function that reads its examples}, both of one table; rows with the same texts are on the same side.

    is_stratified: hold out that part of each label, so that the splits have the same shares of labels.
    folds, fold: instead of that part hold out this one of so many, counted from 1; every row is in one of them.
    """
    if not 0 < fraction < 1:
        raise UserError(f"eval_fraction is {fraction}; expected more than 0 and less than 1, or a table as eval_file.")

    @functools.cache
    def divided() -> dict[str, list[Example]]:
        parts: dict[str, list[Example]] = {"train": [], "dev": []}
        examples = read()
        drawn = [zlib.crc32(b"\n".join(example.encode())) / 2**32 for example in examples]
        groups = _by_label(examples, drawn) if is_stratified or fold else []
        if fold:
            order = [number for numbers in groups for number in sorted(numbers)]
            is_held_out = {number: place % folds == fold - 1 for place, number in enumerate(order)}
        elif is_stratified:
            is_held_out = _stratified(groups, fraction)
        else:
            is_held_out = {number: number < fraction for number in drawn}
        for example, number in zip(examples, drawn, strict=True):
            parts["dev" if is_held_out[number] else "train"].append(example)
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


def _by_label(examples: Sequence[Example], drawn: Sequence[float]) -> list[set[float]]:
    """The numbers of the texts of each label; labels of a single text are taken together."""
    by_label: dict[str, set[float]] = {}
    seen: set[float] = set()
    for example, number in zip(examples, drawn, strict=True):
        if number not in seen:  # a text with several labels counts for the first one
            seen.add(number)
            by_label.setdefault(str(example.label), set()).add(number)
    groups = [numbers for numbers in by_label.values() if len(numbers) > 1]
    groups.append({number for numbers in by_label.values() if len(numbers) == 1 for number in numbers})
    return groups


def _stratified(groups: Sequence[set[float]], fraction: float) -> dict[float, bool]:
    """{number of a text: whether it is held out}: of the texts of each label those with the smallest numbers.

    Of two texts of a label or more, one is held out at least.
    """
    is_held_out: dict[float, bool] = {}
    for numbers in groups:
        count = max(round(fraction * len(numbers)), int(len(numbers) > 1))
        is_held_out |= {number: place < count for place, number in enumerate(sorted(numbers))}
    return is_held_out

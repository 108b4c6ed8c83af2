"""The user's own table: files with text columns and a label column, or a folder of texts for each class."""

import collections
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bert_tf import heads
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.data import examples, tables, tfds_datasets
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.base.table_options import TableOptions
from bert_tf.heads.base.text_head import TextHead
from bert_tf.heads.classes import Classes
from bert_tf.tasks import labelled_rows, table_splits
from bert_tf.tasks.catalog import TokenizerFor
from bert_tf.tasks.task import FineTuningTask, text_task

RARE = 0.5  # share of the most common spelling's rows: if all others together have no more, they are slips
log = logging.getLogger("bert_tf")


def task(options: TableOptions, tokenizer_for: TokenizerFor) -> FineTuningTask:
    """Predicts `label_column` from `text_columns`; see bert_tf.tasks.catalog for the arguments.

    options: data_dir with train, dev and test as tables, or train_file, eval_file and predict_file; or tfds_name and
        tfds_dir, a dataset of tensorflow-datasets, whose features are the columns;
        label_type: a kind of `bert_tf.heads`; "classes", "multi_label" (several, with label_separator)
        and "regression" take one text or two; for "choice" the first column is a text, the others are possible
        continuations, and the label is the number of the right one, from 0;
        label_threshold: the probability above which one of several labels applies, else 0.5;
        labels: their order, separated by commas; by default the labels of the training data, sorted;
        id_column: the id of predictions, else the number of the row;
        eval_fraction: the fraction of the training rows held out for evaluation if there is no table for it.
        bad_rows: "skip" skips rows without text or label, "stop" raises an error; normalize_labels: lower-case
        labels and join their spaces; join_labels: rare spellings of a class become the common one.
    The file to predict may lack the label column, and all of its rows are predicted.
    """
    columns = comma_separated(options.text_columns)
    goal_class = heads.of_texts(options.label_type)
    goal_class.check_columns(columns, options)
    splits: dict[str, Callable[[], list[Example]]] = {
        split: functools.cache(functools.partial(_examples, options, split, columns)) for split in table_splits.SPLITS
    }
    labels = _labels(options, goal_class, splits["train"])  # from all rows: a label may occur only in held-out ones
    if options.join_labels and goal_class is Classes:
        spelled = labelled_rows.spelling(labels)
        splits = {split: functools.cache(functools.partial(_each, spelled, read)) for split, read in splits.items()}
    if not 0 <= options.fold <= options.folds:
        raise UserError(f"fold is {options.fold}; expected a number from 1 to folds={options.folds}.")
    if options.folds and options.do_eval and table_splits.find(options, "dev"):
        raise UserError("folds divides the training table: remove folds, or the evaluation table.")
    if options.refit and options.do_train and not (options.do_eval and table_splits.needs_held_out(options)):
        raise UserError("refit trains on the rows held out for evaluation, but there are none: remove it.")
    if table_splits.needs_held_out(options):
        splits |= table_splits.held_out(
            table_splits.require(options, "train"),
            splits["train"],
            options.eval_fraction,
            is_stratified=options.stratify and goal_class.is_labelled,
            folds=options.folds,
            fold=options.fold,
        )
    return text_task(
        "table", splits, goal_class.from_table(labels, columns, options), tokenizer_for, options, texts=len(columns)
    )


def _each(change: Callable[[Example], Example], read: Callable[[], list[Example]]) -> list[Example]:
    return [change(row) for row in read()]


def _examples(options: TableOptions, split: str, columns: Sequence[str]) -> list[Example]:
    path = table_splits.require(options, split)
    label: str | None = options.label_column
    if split == "test":
        name, folder = options.tfds_name, options.tfds_dir
        names = dict.fromkeys(tfds_datasets.feature_names(name, folder) if name else tables.column_names(path))
        label = label if set(examples.label_columns(label, names)) <= set(names) else None
    malformed: list[str] | None = [] if options.bad_rows == "skip" and split != "test" else None
    same: dict[str, Any] = {"texts": columns, "label": label}
    if options.tfds_name:
        rows = tfds_datasets.read(
            options.tfds_name,
            path.rpartition("/")[2],
            data_dir=options.tfds_dir,
            named=True,
            id_feature=options.id_column or None,
            **same,
        )
    else:
        same |= {"id_column": options.id_column or None, "malformed": malformed}
        rows = examples.read(path, none_is_empty=True, **same)
    if split != "test":
        goal_class = heads.of_texts(options.label_type)
        rows = [labelled_rows.with_value(row, _given(options.labels), goal_class) for row in rows]
        rows = _without_bad_rows(path, rows, malformed, goal_class)
    if options.normalize_labels:
        rows = [dataclasses.replace(row, label=labelled_rows.normalized(row.label)) for row in rows]
    return rows


def _without_bad_rows(
    path: str, rows: list[Example], malformed: list[str] | None, goal_class: type[TextHead]
) -> list[Example]:
    """The rows with text and label; reports skipped rows, or UserError if none may be skipped (malformed: None)."""
    reasons = [f"{place} has too many or too few fields" for place in malformed or ()]
    kept = []
    is_labelled = any(row.label not in goal_class.missing for row in rows)  # a table without labels can be predicted
    for row in rows:
        lacks = labelled_rows.lacking(row, goal_class, needs_label=is_labelled)
        if lacks:
            reasons.append(f"{row.location} has no {lacks}")
        else:
            kept.append(row)
    labelled_rows.report_bad(path, reasons, stops=malformed is None)
    if not kept:
        raise UserError(f"No row of {path} has a text{' and a label' * is_labelled}.")
    return kept


def _with_joined_variants(labels: Iterable[str], rows: Iterable[Example], *, joins: bool) -> list[str]:
    """The labels without rare spellings, which differ from a common one only in case or spaces; names all spellings.

    joins: whether to drop rare ones, instead of only naming them.
    """
    counts = collections.Counter(row.label.strip() for row in rows if isinstance(row.label, str))
    variants: dict[str, list[str]] = collections.defaultdict(list)
    for label in labels:
        variants[labelled_rows.normalized(label)].append(label)
    left_out: set[str] = set()
    for same in variants.values():
        common = max(same, key=lambda label: counts[label])
        rare = [label for label in same if label != common]
        if not joins or sum(counts[label] for label in rare) > RARE * counts[common]:
            rare = []
        left_out.update(rare)
        named = ", ".join(f"{label!r} (in {counts[label]})" for label in rare)
        if rare:
            log.warning(
                "%s merged into %r (in %d rows), differing only in case or spaces: --nojoin_labels undoes that.",
                f"{named} {'is' if len(rare) == 1 else 'are'}",
                common,
                counts[common],
            )
        elif len(same) > 1:
            log.warning(
                "The labels %s differ only in case or spaces: --normalize_labels merges them.",
                ", ".join(map(repr, same)),
            )
    return [label for label in labels if label not in left_out]


def _labels(options: TableOptions, goal_class: type[TextHead], training: Callable[[], list[Example]]) -> list[str]:
    """The names of the labels: from the flag or a trained model, else from the training data."""
    if not goal_class.is_labelled:
        return []
    labels = _given(options.labels)
    if not labels:
        names = goal_class.names_in(training(), options)
        labels = names if isinstance(names, list) else _sorted(names)
        labels = _with_joined_variants(labels, training(), joins=options.join_labels and goal_class is Classes)
    elif isinstance(options.labels, str) and len(labels) < 2:
        raise UserError(f"labels is {options.labels!r}; expected two or more names with commas, or remove it.")
    labelled_rows.check_several(labels, table_splits.find(options, "train") or "the table", options.label_column)
    return labels


def _given(labels: str | list[str]) -> list[str]:
    """The names in the flag, or from a trained model."""
    return comma_separated(labels) if isinstance(labels, str) else labels


def _sorted(labels: Iterable[str | None]) -> list[str]:
    """Sorted: numbers by size, then words."""
    names = {label for label in labels if label}
    return sorted(names, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))


TASKS = {"table": task}

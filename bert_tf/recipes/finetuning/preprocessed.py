"""Preprocessed examples of a run: written by --write_examples, read if a flag names a file of them."""

import functools
import os
from collections.abc import Iterable
from typing import Any

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.data import preprocessed_examples
from bert_tf.errors import UserError
from bert_tf.heads.base.table_options import LabelOptions
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.runtime import files
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text import vocabulary

# Flags that define a row: a file and the run that reads it must agree on them.
DECISIVE = (
    *("label_type", "max_seq_length", "doc_stride", "max_query_length", "version_2_with_negative"),
    *("long_texts", "max_windows", "truncation", "document_context", "tag_scheme"),
)
# More flags, used as defaults of that run.
RECORDED = (*DECISIVE, "task_name", "text_columns", "label_column", "label_separator", "special_tokens_in_strings")


def default_flags(path: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns {flag: value} used to make the rows of a file, and its labels, and {flag: reason}."""
    about = preprocessed_examples.about_of(path)
    values = dict(about.get("flags") or {})
    if about.get("names_labels"):
        values["labels"] = about.get("labels") or []
    return values, dict.fromkeys(values, f"the rows of {path} were made with it")


def check_vocabulary(options: FineTuningFlags, start: Checkpoint) -> None:
    """Raises UserError if a vocabulary would have to be learned from preprocessed examples."""
    if preprocessed_examples.is_file_of_them(options.train_file) and start.vocabulary is None:
        raise UserError(f"{options.train_file} contains ids: pass their vocabulary as vocab_file.")


def attach(task: FineTuningTask, options: FineTuningFlags, start: Checkpoint) -> FineTuningTask:
    """The task with the preprocessed examples named by flags as its source, if their metadata matches.

    Raises UserError for a file of a different task, vocabulary or length, and if the task needs more than rows.
    """
    evaluated = next(iter(task.eval_splits.values()), "dev")
    splits = {"train_file": "train", "eval_file": evaluated, "predict_file": next(iter(task.test_splits), "test")}
    values = options.values()
    paths = {flag: values.get(flag, "") for flag in splits}
    paths = {flag: path for flag, path in paths.items() if path and preprocessed_examples.is_file_of_them(path)}
    known = task.head.training.stored_splits
    for flag, path in paths.items():
        if known is not None and splits[flag] not in known:
            raise UserError(
                f"{flag} is {path}, whose rows lack the fields that {task.name} is scored on: pass the original data."
            )
        _check(path, task, options, start)
    stored = {
        splits[flag]: functools.partial(preprocessed_examples.StoredExamples, path) for flag, path in paths.items()
    }
    return task.replaced(source={**task.source, **stored})


def _check(path: str, task: FineTuningTask, options: FineTuningFlags, start: Checkpoint) -> None:
    about, now = preprocessed_examples.about_of(path), _about(task, options, start)
    flags = about.get("flags") or {}
    for name in DECISIVE:
        if name in flags and name in now["flags"] and now["flags"][name] != flags[name]:
            raise UserError(
                f"{path} was written with {name}={flags[name]}, and {name} is {now['flags'][name]}: pass the same."
            )
    for name, words in (
        ("task", "for a different task"),
        ("labels", "with different labels"),
        ("vocabulary", "with a different vocabulary"),
        ("lower_case", "with a different do_lower_case"),
        ("special_tokens", "with a different special_tokens_in_strings"),
    ):
        if name in about and about[name] != now[name]:
            raise UserError(f"{path} was written {words} from this run: write it again, or pass the same.")


def _about(task: FineTuningTask, options: FineTuningFlags, start: Checkpoint) -> dict[str, Any]:
    """The settings used to make a task's rows."""
    values = options.values() | {"task_name": options.task_name}
    return {
        "task": task.name,
        "kind": task.head.kind,
        "labels": list(task.head.labels),
        "names_labels": isinstance(options, LabelOptions) and bool(task.head.labels),
        "vocabulary": preprocessed_examples.digest(vocabulary.content_of(task.tokenizer.vocabulary)),
        "lower_case": start.lowers_case,
        "special_tokens": list(task.tokenizer.special_tokens),
        "flags": {name: values[name] for name in RECORDED if name in values},
    }


def write(task: FineTuningTask, options: FineTuningFlags, start: Checkpoint, splits: Iterable[str]) -> None:
    """Writes the preprocessed examples of splits into the folder of `write_examples`."""
    folder, about = options.write_examples, _about(task, options, start)
    files.make_folder(folder)
    for split in splits:
        rows = task.split(split)
        if rows.stored:
            continue
        path = os.path.join(folder, f"{split}{preprocessed_examples.EXTENSIONS[0]}")
        about["is_known"] = rows.is_known
        batches = task.eval_batches(preprocessed_examples.ROWS_AT_ONCE, split)
        count = preprocessed_examples.write(path, batches, about, rows.extras())
        print(f"{count:,} preprocessed examples are in {path}.", flush=True)

"""The JSON files of a run folder; reading checks their values."""

import os
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.json_files import read_json
from bert_tf.runtime.settings import (
    FLAG,
    LIST,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXTS,
    Kind,
    Settings,
    list_of,
    map_of,
    number,
    one_of,
    shortened,
    whole,
)

RUN, TASK, DETAILS = "run.json", "task.json", "eval_details.json"
ANY_NUMBER: Kind[float] = Kind("a number", lambda value: isinstance(value, int | float))  # includes NaN
SCORES = map_of(ANY_NUMBER, "numbers")
Kinds = Mapping[str, Any]  # {name: a Kind, or Kinds for the object with that name}
FLAGS: Kinds = dict.fromkeys(
    ("task_name", "train_file", "data_dir", "text_columns", "label_column", "label_type", "init_checkpoint"), TEXT
)
OF_RUN: Kinds = {
    **dict.fromkeys(("name", "criterion", "evaluated_on", "started", "finished"), TEXT),
    **dict.fromkeys(("command", "complete", "not_beaten"), TEXTS),
    **dict.fromkeys(("decisive", "versions", "machine", "config", "training"), OBJECT),
    **dict.fromkeys(("selection", "refit", "baseline"), OBJECT),
    **dict.fromkeys(("process", "micro_batches"), whole(0)),
    **dict.fromkeys(("parameters", "replicas", "all_reduced_bytes", "budget_seconds"), number(0)),
    "phases": map_of(number(), "numbers"),
    "text_statistics": map_of(OBJECT, "objects"),
    "baselines": Kind(
        "a list of objects with name and scores",
        lambda value: (
            OBJECTS.holds(value)
            and all(TEXT.holds(each.get("name")) and SCORES.holds(each.get("scores")) for each in value)
        ),
    ),
    "flags": FLAGS,
    "data": {"splits": TEXTS, "notes": TEXTS},
}
HEAD_KINDS: Mapping[str, Kind[Any]] = {
    **dict.fromkeys(("task", "kind"), TEXT),
    "labels": TEXTS,
    "temperature": number(above=0),
    "thresholds": list_of(number(0, 1), "numbers from 0 to 1"),
}
LENGTH, POSITIVE = whole(3, 1 << 20), whole(1, 1 << 20)
OF_HOST: Kinds = {  # `host_settings` of the heads
    "stages": TEXT,
    "scheme": TEXT,
    "texts": whole(1, 1000),
    "max_seq_length": LENGTH,
    "stride": whole(0, 1 << 20),
    "truncation": one_of("longest_first", "only_first", "only_second"),
    "windows": {
        **dict.fromkeys(("stride", "most", "doc_stride", "separators"), POSITIVE),
        "max_seq_length": LENGTH,
        "max_query_length": whole(0, 1 << 20),
        "pooling": one_of("mean", "max"),
    },
    "search": {
        **dict.fromkeys(("n_best_size", "max_answer_length"), POSITIVE),
        "temperature": number(above=0),
        "threshold": number(),
        "has_null": FLAG,
    },
}
OF_TASK: Kinds = {**HEAD_KINDS, "host": OF_HOST, "calibration": OBJECT}
OF_SPLIT: Kinds = {
    **dict.fromkeys(("per_class", "hardest", "most_confused"), OBJECTS),
    **dict.fromkeys(("confidence", "questions"), OBJECT),
    "confusion": list_of(LIST, "lists"),
    "values": LIST,
}


def read_run(folder: files.StrPath) -> dict[str, Any]:
    """run.json: how a run was made; {} if missing or unreadable."""
    return _read(folder, RUN, OF_RUN)


def read_task(folder: files.StrPath) -> dict[str, Any]:
    """task.json: the task and its head's output, see `Checkpoint.answers`; {} if missing or unreadable."""
    return _read(folder, TASK, OF_TASK)


def check_task(values: Settings) -> None:
    """Raises UserError for a value of an unexpected kind in task.json or labels.json."""
    _check(values, OF_TASK)
    check_thresholds(values)


def check_thresholds(values: Settings) -> None:
    """Raises UserError unless there are as many thresholds as labels, or no thresholds."""
    labels, thresholds = values.get("labels"), values.get("thresholds")
    if labels and thresholds and len(labels) != len(thresholds):
        raise UserError(
            f"{values.source} has {len(thresholds)} thresholds for {len(labels)} labels; expected one for each."
        )


def read_details(folder: files.StrPath) -> dict[str, Any]:
    """eval_details.json: {split: tables}; {} if missing or unreadable."""
    details = _read(folder, DETAILS, {})
    for split in details:
        _check(details.inside(split), OF_SPLIT)
    return details


def _read(folder: files.StrPath, name: str, kinds: Kinds) -> Settings:
    """The content of a file; UserError, with the place, for a value of an unexpected kind."""
    path = os.path.join(folder, name)
    content = read_json(path)
    if not isinstance(content, dict | None):
        raise UserError(f"{path} is {shortened(content)}; expected an object.")
    settings = Settings(content or {}, path)
    _check(settings, kinds)
    return settings


def _check(settings: Settings, kinds: Kinds) -> None:
    for name, kind in kinds.items():
        if isinstance(kind, Kind):
            settings.value(name, kind)
        else:
            _check(settings.inside(name), kind)

"""The JSON files of a run folder; reading checks their values."""

import os
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.json_files import read_json
from bert_tf.runtime.settings import (
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
    shortened,
    whole,
)

RUN, DETAILS = "run.json", "eval_details.json"
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
    "data": dict.fromkeys(("splits", "notes", "rows"), TEXTS),
}
OF_SPLIT: Kinds = {
    **dict.fromkeys(("per_class", "hardest", "most_confused"), OBJECTS),
    **dict.fromkeys(("confidence", "questions"), OBJECT),
    "confusion": list_of(LIST, "lists"),
    "values": LIST,
}


def read_run(folder: files.StrPath) -> dict[str, Any]:
    """run.json: how a run was made; {} if missing or unreadable."""
    return read_checked(folder, RUN, OF_RUN)


def read_details(folder: files.StrPath) -> dict[str, Any]:
    """eval_details.json: {split: tables}; {} if missing or unreadable."""
    details = read_checked(folder, DETAILS, {})
    for split in details:
        check_known(details.inside(split), OF_SPLIT)
    return details


def read_checked(folder: files.StrPath, name: str, kinds: Kinds) -> Settings:
    """The content of a file; UserError, with the place, for a value of an unexpected kind."""
    path = os.path.join(folder, name)
    content = read_json(path)
    if not isinstance(content, dict | None):
        raise UserError(f"{path} is {shortened(content)}; expected an object.")
    settings = Settings(content or {}, path)
    check_known(settings, kinds)
    return settings


def check_known(settings: Settings, kinds: Kinds) -> None:
    """Raises UserError for a value of an unexpected kind; values may be missing."""
    for name, kind in kinds.items():
        if isinstance(kind, Kind):
            settings.value(name, kind)
        else:
            check_known(settings.inside(name), kind)

"""about.json: the description of an export."""

import os
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import json_files
from bert_tf.runtime.head_records import HEAD_KINDS, check_thresholds
from bert_tf.runtime.settings import OBJECT, TEXT, Kind, Settings, shortened, whole

NAME, EXTRA = "about.json", "assets.extra"  # TensorFlow's loaders ignore the files in this folder
HEAD = os.path.join(EXTRA, "labels.json")  # entries of about.json about the head at the time of the export
OF_HEAD = ("labels", "kind", "temperature", "thresholds")
# Kinds of values in about.json, and in its "reads".
KINDS: dict[str, Kind[Any]] = {
    **HEAD_KINDS,
    **dict.fromkeys(("text_columns", "label_column", "label_separator"), TEXT),
    "inputs": Kind(
        "an object of whole numbers and null",
        lambda value: isinstance(value, dict) and all(x is None or whole(1).holds(x) for x in value.values()),
    ),
    "reads": OBJECT,
}


def read(folder: str) -> dict[str, Any]:
    """The content; {} if the file is missing or damaged, because an export works without it.

    Raises UserError for a value of the wrong kind, or one that differs from the value at the time of the export.
    """
    path = os.path.join(folder, NAME)
    values = json_files.read_json(path)
    if not isinstance(values, dict):
        return {}
    settings = Settings(values, path)
    for each in (settings, settings.inside("reads")):
        for name, kind in KINDS.items():
            each.value(name, kind)
    check_thresholds(settings)
    _check_unchanged(path, values, json_files.read_json(os.path.join(folder, HEAD)))
    return values


def of_head(about: Mapping[str, Any]) -> dict[str, Any]:
    """The content of HEAD."""
    return {name: about[name] for name in OF_HEAD if name in about} | {"labels": list(about.get("labels") or ())}


def _check_unchanged(path: str, values: dict[str, Any], exported: Any) -> None:
    """exported: the content of HEAD; older exports have only labels and kind there."""
    exported = exported if isinstance(exported, dict) else {}
    for name in OF_HEAD:
        known = exported.get(name)
        if known and values.get(name) and values[name] != known:
            raise UserError(
                f"{path}: {name} is {shortened(values[name])}, but the model was exported with {shortened(known)}: "
                "undo the change, or export it again."
            )

"""about.json: what an export says of itself."""

import os
from typing import Any

from bert_tf import heads
from bert_tf.errors import UserError
from bert_tf.runtime import json_files

NAME = "about.json"
# Of values in about.json, and in its "reads".
TYPES: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("task", "kind", "text_columns", "label_column", "label_separator"), (str, "a text")),
    **dict.fromkeys(("inputs", "reads"), (dict, "an object")),
    **dict.fromkeys(("labels", "thresholds"), (list, "a list of texts, or of numbers")),
    "temperature": ((int, float), "a number"),
}


def read(folder: str) -> dict[str, Any]:
    """The content; {} where the file is missing or damaged, as an export works without it.

    Raises UserError for a value of another type than exports have.
    """
    path = os.path.join(folder, NAME)
    values = json_files.read_json(path)
    if not isinstance(values, dict):
        return {}
    reads: Any = values["reads"] if isinstance(values.get("reads"), dict) else {}
    for name, (kind, expected) in TYPES.items():
        value = values.get(name, reads.get(name))
        is_right = isinstance(value, kind) and (name != "labels" or all(isinstance(label, str) for label in value))
        if value is not None and not is_right:
            raise UserError(f"{path}: {name} is {value!r:.80}; expected {expected}.")
    if values.get("kind"):
        values["kind"] = heads.current(values["kind"])
    return values

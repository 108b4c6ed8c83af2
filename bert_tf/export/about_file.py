"""about.json: what an export says of itself."""

import os
from typing import Any

from bert_tf.runtime import json_files

NAME = "about.json"


def read(folder: str) -> dict[str, Any]:
    """The content; {} where the file is missing or damaged, as an export works without it."""
    values = json_files.read_json(os.path.join(folder, NAME))
    return values if isinstance(values, dict) else {}

"""Reading JSON files, UTF-8 with or without a byte order mark; `atomic_files.write_json` writes them."""

import json
import os
from typing import Any

from bert_tf.errors import UserError


def read_json(path: str | os.PathLike[str]) -> Any:
    """Returns the content of a JSON file, or None if there is none that can be read."""
    try:
        return _load(path)
    except (OSError, ValueError):
        return None


def require_json(path: str | os.PathLike[str], expected: str, *, kind: type = dict) -> Any:
    """Returns the content of a JSON file: an object, or another `kind`.

    expected: what the file should hold and what to do if it does not, to end the sentence of a UserError.
    """
    try:
        content = _load(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): expected {expected}.") from None
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON ({error}): expected {expected}.") from None
    if not isinstance(content, kind):
        raise UserError(f"{path} holds a JSON {type(content).__name__}: expected {expected}.")
    return content


def _load(path: str | os.PathLike[str]) -> Any:
    with open(path, encoding="utf-8-sig") as file:
        return json.load(file)

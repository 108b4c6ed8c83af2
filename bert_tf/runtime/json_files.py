"""JSON texts, and UTF-8 JSON files with or without a byte order mark; `atomic_files.write_json` writes files."""

import collections
import json
import re
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import files, stores

ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: files.StrPath) -> Any:
    """Returns the content of a JSON file, or None if it is missing or unreadable.

    Raises UserError for an unreachable store.
    """
    try:
        return _load(path)
    except FileNotFoundError:
        return None
    except stores.RemoteError:
        raise
    except (OSError, ValueError):
        return None


def require_json(
    path: files.StrPath, expected: str, *, kind: type | tuple[type, ...] = dict, has_lines: bool = False
) -> Any:
    """Returns the content of a JSON file: an object, or a value of `kind`; with `has_lines` a list, one per line.

    expected: the expected content and a remedy, to end the sentence of a UserError.
    """
    try:
        content = _load(path, has_lines)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): expected {expected}.") from None
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON ({error}): expected {expected}.") from None
    if not isinstance(content, kind):
        raise UserError(f"{path} contains a JSON {type(content).__name__}: expected {expected}.")
    return content


def parse(text: str, *, lone_surrogates: bool = False, unique_names: bool = False) -> Any:
    r"""Returns the value of a JSON text.

    Raises ValueError if it is invalid, nested too deeply for Python's parser, or, unless `lone_surrogates`, contains
    half a surrogate pair ("\ud800"), which UTF-8 cannot encode; with `unique_names` also for repeated names in an
    object, where Python takes the last one.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique if unique_names else None)
        if not lone_surrogates and ESCAPED_SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError as error:
        raise ValueError(f"a text in it contains half a surrogate pair, {error.object[error.start]!r}") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) < len(pairs):
        counts = collections.Counter(name for name, _ in pairs)
        raise ValueError(f"it has several {max(counts, key=lambda name: counts[name])!r}")
    return names


def dumps(value: Any, **options: Any) -> str:
    """Returns the JSON text of a value; JSON has no NaN and infinity: they become "NaN", "Infinity" and "-Infinity".

    Python reads infinity for 1e400. The texts are those of Protocol Buffers' JSON. options: of `json.dumps`.
    """
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value, **options), parse_constant=str), **options)


def _load(path: files.StrPath, has_lines: bool = False) -> Any:
    with files.open_text(path, encoding="utf-8-sig") as file:
        text = file.read()
    try:
        return parse(text)
    except json.JSONDecodeError as error:
        if not has_lines or error.msg != "Extra data":
            raise
    return [parse(line) for line in text.splitlines() if line.strip()]


def plain(value: Any) -> Any:
    """A NumPy or TensorFlow value in JSON form: Python numbers, arrays as lists, bytes as text."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

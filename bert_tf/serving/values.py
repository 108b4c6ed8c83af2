"""Converts JSON of TensorFlow Serving's REST interface to arrays and back, and estimates their size in tokens.

B instances per request. Follows the "RESTful API" page of TensorFlow Serving: `instances` and `predictions` are by row,
`inputs` and `outputs` by column; {"b64": ...} is bytes, as are outputs whose name ends in _bytes.
"""

import base64
import binascii
import itertools
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

BYTES = "_bytes"  # suffix of output names
MAX_CITED, MAX_NAMES = 60, 8  # characters per client-supplied name, and number of names, in messages

Arrays = dict[str, np.ndarray]
Specs = Mapping[str, tuple[Any, tuple[int | None, ...] | None]]  # {name: ("string" or NumPy dtype, shape)}
# A word of up to six letters, the next six letters of a longer word, a CJK character, or punctuation.
TOKEN = re.compile(r"[^\W\u3040-\u9fff\uac00-\ud7ff]{1,6}|\S")


class BadRequest(Exception):
    """An invalid request; the message is sent to the client."""


def count(body: Any) -> int:
    """The number of instances of a request, without converting them; 0 if it is invalid."""
    instances = body.get("instances", body.get("inputs")) if isinstance(body, dict) else None
    if isinstance(instances, dict):
        instances = max((each for each in instances.values() if isinstance(each, list)), key=len, default=None)
    return len(instances) if isinstance(instances, list) else 0


def read(body: Any, specs: Specs) -> tuple[Arrays, bool]:
    """Converts a request; raises BadRequest.

    body: the JSON object. specs: the inputs of the signature, shapes with None for free dimensions.
    Returns {name: array [B, ...]}, strings as bytes in object arrays, and whether the response is by row.
    """
    if not isinstance(body, dict):
        raise BadRequest(f"The request is {kind_of(body)}; expected a JSON object with instances or inputs.")
    if ("instances" in body) == ("inputs" in body):
        raise BadRequest("The request has both or none of instances and inputs; expected one of them.")
    by_row = "instances" in body
    columns = _columns_of_rows(body["instances"], specs) if by_row else _columns(body["inputs"], specs)
    arrays = {name: _array(name, columns[name], dtype, shape or ()) for name, (dtype, shape) in specs.items()}
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        counts = ", ".join(f"{size} of {name}" for name, size in sizes.items())
        raise BadRequest(f"There are {counts}; expected equal numbers.")
    return arrays, by_row


def _columns_of_rows(rows: Any, specs: Specs) -> dict[str, list]:
    if not isinstance(rows, list) or not rows:
        raise BadRequest(f"instances is {kind_of(rows)}; expected a list with one instance or more.")
    columns: dict[str, list] = {name: [] for name in specs}
    for number, row in enumerate(rows):
        if len(specs) == 1 and not _is_named(row):
            row = {next(iter(specs)): row}
        if not isinstance(row, dict) or set(row) != set(specs):
            raise BadRequest(f"Instance {number} has {_names(row)}; expected {', '.join(specs)}.")
        for name, value in row.items():
            columns[name].append(value)
    return columns


def _columns(inputs: Any, specs: Specs) -> dict[str, list]:
    if len(specs) == 1 and not _is_named(inputs):
        inputs = {next(iter(specs)): inputs}
    if not isinstance(inputs, dict) or set(inputs) != set(specs):
        raise BadRequest(f"inputs has {_names(inputs)}; expected {', '.join(specs)}.")
    for name, values in inputs.items():
        if not isinstance(values, list) or not values:
            raise BadRequest(f"{name} is {kind_of(values)}; expected a list of one value or more.")
    return inputs


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and set(value) != {"b64"}


def _array(name: str, values: list, dtype: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    values = _bytes_in(name, values) if dtype == "string" else values
    try:
        array = np.array(values, object if dtype == "string" else None)
    except ValueError:
        array = np.array(0)
    if (
        array.ndim != len(shape)  # first, because arrays with more than 32 dimensions have no `flat`
        or any(known not in (None, size) for known, size in zip(shape, array.shape, strict=True))
        or (dtype == "string" and any(isinstance(value, list) for value in array.flat))
    ):
        expected = "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"
        raise BadRequest(f"{name} has the shape {list(array.shape)}, or rows of different length; expected {expected}.")
    if dtype == "string":
        return array
    if array.dtype.kind not in "iufb" or (np.dtype(dtype).kind in "iu" and array.dtype.kind not in "iu"):
        raise BadRequest(f"{name} has values that are not {np.dtype(dtype).name}.")
    converted = array.astype(dtype)
    if converted.dtype.kind in "iu" and (converted != array).any():
        raise BadRequest(f"{name} has values that are too large or too small for {converted.dtype.name}.")
    return converted


def _bytes_in(name: str, value: Any) -> Any:
    """Converts strings and {"b64": ...} in nested lists to bytes."""
    if isinstance(value, list):
        return [_bytes_in(name, each) for each in value]
    if isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except binascii.Error:
            raise BadRequest(f"{name} has an invalid b64 value.") from None
    if not isinstance(value, str):
        raise BadRequest(f"{name} has {kind_of(value)}; expected strings.")
    return value.encode()


def to_json(outputs: Arrays, by_row: bool) -> dict[str, Any]:
    """The JSON of a response: {"predictions": [...]} by row, or {"outputs": ...}.

    outputs: {name: array [B, ...]}. The name of a single output is omitted.
    """
    columns = {name: _column(name, array) for name, array in outputs.items()}
    is_single = len(columns) == 1
    if not by_row:
        return {"outputs": next(iter(columns.values())) if is_single else columns}
    if is_single:
        return {"predictions": next(iter(columns.values()))}
    names, lists = list(columns), list(columns.values())
    return {"predictions": [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]}


def _column(name: str, array: np.ndarray) -> Any:
    """An array as nested lists of JSON values."""
    is_plain = array.dtype.kind in "iub" or (array.dtype.kind == "f" and np.isfinite(array).all())
    return array.tolist() if is_plain else _plain(name, array.tolist())


def plain(value: Any) -> Any:
    """A value from `Served.answers` as JSON, without NaN and infinity."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(name, each) for each in value]
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()} if name.endswith(BYTES) else value.decode("utf-8", "replace")
    return plain(value)


def _names(value: Any) -> str:
    """The names in an object, for a message; for anything else its type."""
    if not isinstance(value, dict):
        return kind_of(value)
    names = [cite(name) for name in itertools.islice(value, MAX_NAMES)]
    return ", ".join(names) + (f" and {len(value) - MAX_NAMES:,} more" if len(value) > MAX_NAMES else "") or "nothing"


def cite(text: str) -> str:
    """A client-supplied text for a message, shortened so that the message stays short."""
    return text if len(text) <= MAX_CITED else text[:MAX_CITED] + "..."


def kind_of(value: Any) -> str:
    """The kind of a JSON value, for a message."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return "an empty list" if value == [] else names.get(type(value), "a number")


def has_more_tokens(arrays: Arrays, most: int) -> bool:
    """Returns whether the strings of a request have more than `most` tokens, by TOKEN."""
    texts = [text for array in arrays.values() if array.dtype == object for text in array.flat]
    if sum(map(len, texts)) <= most:  # a token has at least one byte
        return False
    left = most
    for text in texts:
        for _ in TOKEN.finditer(text.decode("utf-8", "replace")):
            left -= 1
            if left < 0:
                return True
    return False

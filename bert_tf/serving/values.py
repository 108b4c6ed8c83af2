"""JSON of TensorFlow Serving's REST interface to tensors and back.

B instances of a request. Follows the "RESTful API" page of TensorFlow Serving: `instances` and `predictions` are row by
row, `inputs` and `outputs` column by column; {"b64": ...} is bytes, and outputs whose name ends in _bytes are told so.
"""

import base64
import binascii

import numpy as np

BYTES = "_bytes"  # at the end of the name of an output


class BadRequest(Exception):
    """A request that cannot be answered as it is; the message goes to whoever sent it."""


def count(body):
    """How many instances a request has, as far as one sees without reading it; 0 for one that cannot be read."""
    given = body.get("instances", body.get("inputs")) if isinstance(body, dict) else None
    if isinstance(given, dict):
        given = max((each for each in given.values() if isinstance(each, list)), key=len, default=None)
    return len(given) if isinstance(given, list) else 0


def read(body, specs):
    """The tensors of a request.

    body: the JSON object; specs: {name: (NumPy dtype, or "string", and shape with None for what is free)}.
    Returns {name: array [B, ...]}, strings as bytes in object arrays, and whether the answer is row by row.
    """
    if not isinstance(body, dict):
        raise BadRequest(f"The request is {_kind(body)}; expected a JSON object with instances or inputs.")
    if ("instances" in body) == ("inputs" in body):
        raise BadRequest("The request has both or none of instances and inputs; expected one of them.")
    by_row = "instances" in body
    columns = _columns_of_rows(body["instances"], specs) if by_row else _columns(body["inputs"], specs)
    arrays = {name: _array(name, columns[name], *specs[name]) for name in specs}
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} of {name}" for name, size in sizes.items())
        raise BadRequest(f"There are {told}; expected as many of each.")
    return arrays, by_row


def _columns_of_rows(rows, specs):
    if not isinstance(rows, list) or not rows:
        raise BadRequest(f"instances is {_kind(rows)}; expected a list with one instance or more.")
    columns = {name: [] for name in specs}
    for number, row in enumerate(rows):
        if len(specs) == 1 and not _is_named(row):
            row = {next(iter(specs)): row}
        if not isinstance(row, dict) or set(row) != set(specs):
            found = ", ".join(row) if isinstance(row, dict) else _kind(row)
            raise BadRequest(f"Instance {number} has {found or 'nothing'}; expected {', '.join(specs)}.")
        for name, value in row.items():
            columns[name].append(value)
    return columns


def _columns(inputs, specs):
    if len(specs) == 1 and not _is_named(inputs):
        inputs = {next(iter(specs)): inputs}
    if not isinstance(inputs, dict) or set(inputs) != set(specs):
        found = ", ".join(inputs) if isinstance(inputs, dict) else _kind(inputs)
        raise BadRequest(f"inputs has {found or 'nothing'}; expected {', '.join(specs)}.")
    for name, values in inputs.items():
        if not isinstance(values, list) or not values:
            raise BadRequest(f"{name} is {_kind(values)}; expected a list of one value or more.")
    return inputs


def _is_named(value):
    return isinstance(value, dict) and set(value) != {"b64"}


def _array(name, values, dtype, shape):
    values = _bytes_in(name, values) if dtype == "string" else values
    try:
        array = np.array(values, object if dtype == "string" else None)
    except ValueError:
        array = np.array(0)
    ragged = dtype == "string" and any(isinstance(value, list) for value in array.flat)
    if (
        ragged
        or array.ndim != len(shape)
        or any(known not in (None, size) for known, size in zip(shape, array.shape, strict=True))
    ):
        wanted = "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"
        raise BadRequest(f"{name} has the shape {list(array.shape)}, or rows of different length; expected {wanted}.")
    if dtype == "string":
        return array
    if array.dtype.kind not in "iufb" or (np.dtype(dtype).kind in "iu" and array.dtype.kind not in "iu"):
        raise BadRequest(f"{name} has values that are no {np.dtype(dtype).name}.")
    made = array.astype(dtype)
    if made.dtype.kind in "iu" and (made != array).any():
        raise BadRequest(f"{name} has values that are too large or too small for {made.dtype.name}.")
    return made


def _bytes_in(name, value):
    """Strings and {"b64": ...} in nested lists, as bytes."""
    if isinstance(value, list):
        return [_bytes_in(name, each) for each in value]
    if isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except binascii.Error:
            raise BadRequest(f"{name} has a b64 that is no base64.") from None
    if not isinstance(value, str):
        raise BadRequest(f"{name} has {_kind(value)}; expected strings.")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{name} has a text that is not Unicode: half a surrogate pair.") from None


def written(outputs, by_row):
    """The JSON of an answer: {"predictions": [...]} row by row or {"outputs": ...}.

    outputs: {name: array [B, ...]}. Of a single output its values stand alone, without the name.
    """
    columns = {name: _column(name, array) for name, array in outputs.items()}
    alone = len(columns) == 1
    if not by_row:
        return {"outputs": next(iter(columns.values())) if alone else columns}
    if alone:
        return {"predictions": next(iter(columns.values()))}
    names, lists = list(columns), list(columns.values())
    return {"predictions": [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]}


def _column(name, array):
    """An array as nested lists that JSON can say."""
    is_plain = array.dtype.kind in "iub" or (array.dtype.kind == "f" and np.isfinite(array).all())
    return array.tolist() if is_plain else _plain(name, array.tolist())


def _plain(name, value):
    if isinstance(value, list):
        return [_plain(name, each) for each in value]
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()} if name.endswith(BYTES) else value.decode("utf-8", "replace")
    return value if value == value and abs(value) != float("inf") else None  # JSON has no word for these


def _kind(value):
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return "an empty list" if value == [] else names.get(type(value), "a number")

"""Values that JSON lacks, as JSON: arrays, and numbers that are not finite."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np


def arrays_as_json(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """{name: array} as plain data."""
    return {
        name: {"shape": list(array.shape), "base64": base64.b64encode(np.asarray(array, "<f4").tobytes()).decode()}
        for name, array in arrays.items()
    }


def arrays_from_json(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of `arrays_as_json`. Raises ValueError, KeyError or TypeError for other content."""
    return {
        name: np.frombuffer(base64.b64decode(value["base64"], validate=True), "<f4").reshape(value["shape"])
        for name, value in values.items()
    }


def dumps(value: Any, **options: Any) -> str:
    """Returns the JSON text of a value; JSON has no NaN and infinity: they become "NaN", "Infinity" and "-Infinity".

    Python reads infinity for 1e400. Protocol Buffers' JSON has the same texts. options: of `json.dumps`.
    """
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value, **options), parse_constant=str), **options)

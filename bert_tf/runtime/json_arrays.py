"""Float32 arrays as JSON."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np


def as_json(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """{name: array} as plain data."""
    return {
        name: {"shape": list(array.shape), "base64": base64.b64encode(np.asarray(array, "<f4").tobytes()).decode()}
        for name, array in arrays.items()
    }


def from_json(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of `as_json`. Raises ValueError, KeyError or TypeError for other content."""
    return {
        name: np.frombuffer(base64.b64decode(value["base64"], validate=True), "<f4").reshape(value["shape"])
        for name, value in values.items()
    }

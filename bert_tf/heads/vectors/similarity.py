"""Similarities of text embeddings, computed as in sentence-transformers (`util/similarity.py`)."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bert_tf.errors import UserError

LEAST = 1e-12  # smallest length that a vector is divided by


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST)


def _distances(order: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda a, b: -np.stack([np.linalg.norm(b - row, order, axis=1) for row in a])


FUNCTIONS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "cosine": lambda a, b: _unit(a) @ _unit(b).T,
    "dot": lambda a, b: a @ b.T,
    "euclidean": _distances(2),
    "manhattan": _distances(1),
}


def matrix(name: str, a: Any, b: Any) -> np.ndarray:
    """Similarities float32 [A, B] between vectors [A, D], or [D] for one, and vectors [B, D].

    Distances are negated, so that larger means more similar. UserError for anything but vectors of one size.
    """
    a, b = (_rows(each) for each in (a, b))
    if a.shape[1] != b.shape[1]:
        raise UserError(
            f"similarity got vectors of {a.shape[1]} and {b.shape[1]} dimensions; expected the same number."
        )
    return FUNCTIONS[name](a, b).astype(np.float32) if len(a) else np.zeros([0, len(b)], np.float32)


def _rows(vectors: Any) -> np.ndarray:
    try:
        rows = np.atleast_2d(np.asarray(vectors, np.float32))
    except (TypeError, ValueError):
        rows = np.zeros([], np.float32)
    if rows.ndim != 2:
        raise UserError("similarity compares vectors, such as embed(texts) returns: pass one, or an array of several.")
    return rows

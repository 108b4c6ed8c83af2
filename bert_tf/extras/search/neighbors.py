"""Nearest neighbors among many vectors: exact, by a matrix product, or approximate, by a faiss graph.

n vectors, q queries, k neighbors for each, E dimensions. Vectors are compared by dot product, which is the cosine if
all have length 1.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from bert_tf.errors import UserError, reason_of
from bert_tf.runtime.lazy import module

faiss = module(
    "faiss",
    'Approximate search needs the package faiss-cpu ({reason}): pip install "bert-tf[search]", or search exactly with '
    "approximate=false.",
)
APPROXIMATE_ABOVE = 1_000_000  # vectors
ROWS_AT_ONCE = 65_536  # of the matrix product: limits memory
LINKS, CONSTRUCTION, SEARCHED = 32, 100, 128  # per node of the graph; candidates during construction and during search
ADDED_AT_ONCE = 50_000

Found = tuple[np.ndarray, np.ndarray]


def exact(vectors: np.ndarray, queries: np.ndarray, count: int) -> Found:
    """Numbers int64 [q, k] and dot products float32 [q, k] of the nearest vectors, nearest first; k is at most n.

    vectors: float32 [n, E], may be memory-mapped. queries: float32 [q, E]. Equally near vectors keep their order.
    """
    return best((len(queries), len(vectors)), lambda rows: queries @ vectors[rows].T, count)


def best(shape: tuple[int, int], scores_of: Callable[[slice], np.ndarray], count: int) -> Found:
    """The same for scores from scores_of(rows), float32 [q, rows]. shape: (q, n)."""
    count = min(count, shape[1])
    numbers: np.ndarray = np.empty([shape[0], 0], np.int64)
    scores: np.ndarray = np.empty([shape[0], 0], np.float32)
    for first in range(0, shape[1], ROWS_AT_ONCE):
        block = scores_of(slice(first, first + ROWS_AT_ONCE))  # [q, rows]
        found = np.argpartition(-block, min(count, block.shape[1]) - 1)[:, :count] if count < block.shape[1] else None
        rows = np.broadcast_to(np.arange(block.shape[1]), block.shape) if found is None else np.sort(found, 1)
        scores = np.concatenate([scores, np.take_along_axis(block, rows, 1)], 1)
        numbers = np.concatenate([numbers, rows + first], 1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        numbers, scores = (np.take_along_axis(each, order, 1) for each in (numbers, scores))
    return numbers, scores


def build_graph(vectors: np.ndarray, path: str, report: Callable[[int], None]) -> dict[str, Any]:
    """Writes a neighbor graph (HNSW: Malkov & Yashunin 2018) of float32 [n, E]; returns its parameters.

    report(count): called as vectors are added.
    """
    graph = faiss.IndexHNSWFlat(vectors.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = CONSTRUCTION
    for first in range(0, len(vectors), ADDED_AT_ONCE):
        graph.add(np.ascontiguousarray(vectors[first : first + ADDED_AT_ONCE]))
        report(graph.ntotal)
    faiss.write_index(graph, path)
    return {"library": "faiss", "kind": "HNSW", "links": LINKS, "construction": CONSTRUCTION}


class Graph:
    """A graph written by `build_graph`."""

    def __init__(self, path: str, shape: tuple[int, int]) -> None:
        """Loads it; UserError if it is damaged, or not a graph of `shape`: n vectors with E dimensions."""
        read_index = faiss.read_index
        try:
            self._graph = read_index(path)
        except (RuntimeError, MemoryError) as error:
            raise UserError(f"{path} cannot be read ({reason_of(error)}): rebuild the index.") from None
        graph, kind = self._graph, (faiss.IndexHNSWFlat, faiss.METRIC_INNER_PRODUCT)
        if not isinstance(graph, kind[0]) or graph.metric_type != kind[1] or (graph.ntotal, graph.d) != shape:
            raise UserError(
                f"{path} is not the graph of this index; expected one of {shape[0]:,} vectors of {shape[1]} numbers: "
                "rebuild the index."
            )

    def __call__(self, queries: np.ndarray, count: int) -> Found:
        """Like `exact`, for the vectors of the graph; nearly always the same result."""
        self._graph.hnsw.efSearch = max(SEARCHED, 2 * count)
        scores, numbers = self._graph.search(np.ascontiguousarray(queries), min(count, self._graph.ntotal))
        if not np.isfinite(scores[numbers >= 0]).all():
            raise UserError("The graph has a vector with NaN or infinity: rebuild the index.")
        return numbers, scores

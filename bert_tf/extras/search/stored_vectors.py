"""Storage of an index's vectors: float32, or one byte or bit per dimension; queries stay float32.

Bytes and bits are the same as from sentence-transformers' `quantize_embeddings`.

n vectors, q queries, k neighbors for each, E dimensions.
"""

import abc
import os
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from bert_tf.extras.search import neighbors
from bert_tf.extras.search.neighbors import Found

FLOATS = "vectors.f32"
ROWS_AT_ONCE = 65_536
RESCORED = 4  # factor of the requested number of texts, for candidates found by bits
ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1, dtype=np.uint8)  # bits of a byte
SAME, SAME_BITS = 0.999, 0.95  # minimum cosine, and share of equal signs, of a text's stored and new vector


class Stored(abc.ABC):
    """The vectors of an index folder, memory-mapped.

    Attributes:
        FILE: file name. BITS: bits per dimension. DTYPE: description recorded in the folder.
    """

    FILE: ClassVar[str]
    BITS: ClassVar[int]
    DTYPE: ClassVar[str]

    def __init__(self, folder: str, count: int, dimensions: int) -> None:
        self.folder, self.shape = folder, (count, dimensions)

    def __len__(self) -> int:
        return self.shape[0]

    @classmethod
    def files(cls, count: int, dimensions: int) -> dict[str, int]:
        """{name: bytes} for the files of n vectors."""
        return {cls.FILE: count * (dimensions * cls.BITS // 8 + (dimensions * cls.BITS % 8 > 0))}

    @classmethod
    @abc.abstractmethod
    def write(cls, vectors: np.ndarray, folder: str) -> None:
        """Writes the files for float32 [n, E]."""

    @abc.abstractmethod
    def nearest(self, queries: np.ndarray, count: int) -> Found:
        """Like `neighbors.exact`, for queries float32 [q, E]."""

    @abc.abstractmethod
    def is_first(self, vector: np.ndarray) -> bool:
        """Returns whether float32 [E] is the first vector, up to rounding."""

    def first_not_finite(self) -> int | None:
        """The number of the first vector with NaN or infinity; None if there is none."""
        return None

    def _mapped(self, dtype: str, width: int) -> np.ndarray:
        return np.memmap(os.path.join(self.folder, self.FILE), dtype, "r", shape=(self.shape[0], width))


class Float32(Stored):
    """Unquantized vectors."""

    FILE, BITS, DTYPE = FLOATS, 32, "float32, little endian"

    def __init__(self, folder: str, count: int, dimensions: int) -> None:
        super().__init__(folder, count, dimensions)
        self.vectors = self._mapped("<f4", dimensions)

    @classmethod
    def write(cls, vectors: np.ndarray, folder: str) -> None:
        """Does nothing: building an index has written them."""

    def nearest(self, queries: np.ndarray, count: int) -> Found:
        return neighbors.exact(self.vectors, queries, count)

    def is_first(self, vector: np.ndarray) -> bool:
        return _is_same(self.vectors[0], vector)

    def first_not_finite(self) -> int | None:
        for number, block in enumerate(_blocks(self.vectors)):
            is_finite = np.isfinite(block).all(1)
            if not is_finite.all():
                return number * ROWS_AT_ONCE + int(is_finite.argmin())
        return None


class Int8(Stored):
    """One byte per dimension: one of 256 steps between the dimension's minimum and maximum.

    Scores are dot products of queries with the midpoints of steps.
    """

    FILE, BITS, DTYPE = "vectors.i8", 8, "int8: steps from ranges.f32[0] to ranges.f32[1], from -128"
    RANGES = "ranges.f32"

    def __init__(self, folder: str, count: int, dimensions: int) -> None:
        super().__init__(folder, count, dimensions)
        self.codes = self._mapped("i1", dimensions)
        ranges = np.fromfile(os.path.join(folder, self.RANGES), "<f4").reshape(2, dimensions)
        self.starts, self.steps = ranges[0], _steps(*ranges)

    @classmethod
    def files(cls, count: int, dimensions: int) -> dict[str, int]:
        return {**super().files(count, dimensions), cls.RANGES: 8 * dimensions}

    @classmethod
    def write(cls, vectors: np.ndarray, folder: str) -> None:
        starts = np.min([block.min(0) for block in _blocks(vectors)], 0)
        ends = np.max([block.max(0) for block in _blocks(vectors)], 0)
        np.stack([starts, ends]).astype("<f4").tofile(os.path.join(folder, cls.RANGES))
        with open(os.path.join(folder, cls.FILE), "wb") as file:
            for block in _blocks(vectors):
                steps = np.clip(np.floor((block - starts) / _steps(starts, ends)), 0, 255)
                (steps - 128).astype(np.int8).tofile(file)

    def nearest(self, queries: np.ndarray, count: int) -> Found:
        offset = queries @ (self.starts + 128.5 * self.steps)
        scaled = queries * self.steps
        shape = len(queries), len(self)
        return neighbors.best(
            shape, lambda rows: scaled @ self.codes[rows].T.astype(np.float32) + offset[:, None], count
        )

    def first_not_finite(self) -> int | None:
        """0 if the ranges, which all vectors share, are not finite."""
        return None if np.isfinite(self.starts).all() and np.isfinite(self.steps).all() else 0

    def is_first(self, vector: np.ndarray) -> bool:
        return _is_same(self.starts + (self.codes[0] + 128.5) * self.steps, vector)


class Binary(Stored):
    """One bit per dimension: whether the value is above 0.

    The texts whose bits differ least from the query's are compared with the query itself: scores are dot products with
    vectors of length 1 whose values differ only in sign.
    """

    FILE, BITS, DTYPE = "vectors.bits", 1, "bits: whether numbers are above 0, the first in the highest bit of a byte"

    def __init__(self, folder: str, count: int, dimensions: int) -> None:
        super().__init__(folder, count, dimensions)
        self.bits = self._mapped("u1", -(-dimensions // 8))

    @classmethod
    def write(cls, vectors: np.ndarray, folder: str) -> None:
        with open(os.path.join(folder, cls.FILE), "wb") as file:
            for block in _blocks(vectors):
                np.packbits(block > 0, axis=1).tofile(file)

    def nearest(self, queries: np.ndarray, count: int) -> Found:
        asked = np.packbits(queries > 0, axis=1)
        numbers, _ = neighbors.best(
            (len(queries), len(self)), lambda rows: -_differing(asked, self.bits[rows]), RESCORED * count
        )
        scores = np.einsum("qe,qke->qk", queries, self._signs(numbers)) / np.float32(self.shape[1] ** 0.5)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(numbers, order, 1), np.take_along_axis(scores, order, 1)

    def is_first(self, vector: np.ndarray) -> bool:
        signs = self._signs(np.zeros(1, np.int64))[0]
        return signs.shape == vector.shape and float(np.mean((vector > 0) == (signs > 0))) > SAME_BITS

    def _signs(self, numbers: np.ndarray) -> np.ndarray:
        """1 and -1, float32 [..., E], for the vectors with these numbers."""
        bits = np.unpackbits(self.bits[numbers], axis=-1, count=self.shape[1])
        return 2 * bits.astype(np.float32) - 1


STORAGES: dict[str, type[Stored]] = {"float32": Float32, "int8": Int8, "binary": Binary}


def _blocks(vectors: np.ndarray) -> Iterator[np.ndarray]:
    return (vectors[first : first + ROWS_AT_ONCE] for first in range(0, len(vectors), ROWS_AT_ONCE))


def _steps(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    steps = (ends - starts) / np.float32(255)
    return np.where(steps == 0, np.float32(1), steps)


def _is_same(first: np.ndarray, second: np.ndarray) -> bool:
    if first.shape != second.shape:
        return False
    return bool(first @ second > SAME * np.linalg.norm(first) * np.linalg.norm(second))


def _differing(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The number of differing bits of bytes [q, W] and [n, W], float32 [q, n]."""
    return np.stack([ONES[row ^ second].sum(1, dtype=np.float32) for row in first])

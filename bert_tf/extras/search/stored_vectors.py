"""Vectors as an index holds them: as they are, or with a byte or a bit for each number, while queries stay as they are.

Bytes and bits are those of `quantize_embeddings` of sentence-transformers.

n vectors, q queries, k neighbors of each, E numbers of a vector.
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
RESCORED = 4  # times as many texts as are asked for, which are found by bits
ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1, dtype=np.uint8)  # bits of a byte
SAME, SAME_BITS = 0.999, 0.95  # least cosine, and part of equal signs, of the vectors of one text now and before


class Stored(abc.ABC):
    """The vectors of an index folder, memory-mapped.

    Attributes:
        FILE: its name. BITS: of a number. DTYPE: what the folder says of it.
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
        """{name: bytes} of the files of n vectors."""
        return {cls.FILE: count * (dimensions * cls.BITS // 8 + (dimensions * cls.BITS % 8 > 0))}

    @classmethod
    @abc.abstractmethod
    def write(cls, vectors: np.ndarray, folder: str) -> None:
        """Writes the files, of float32 [n, E]."""

    @abc.abstractmethod
    def nearest(self, queries: np.ndarray, count: int) -> Found:
        """As `neighbors.exact`, of float32 [q, E]."""

    @abc.abstractmethod
    def is_first(self, vector: np.ndarray) -> bool:
        """Returns whether float32 [E] is the first vector, up to rounding."""

    def first_not_finite(self) -> int | None:
        """The number of the first vector with NaN or infinity; None if there is none."""
        return None

    def _mapped(self, dtype: str, width: int) -> np.ndarray:
        return np.memmap(os.path.join(self.folder, self.FILE), dtype, "r", shape=(self.shape[0], width))


class Float32(Stored):
    """Vectors as they are."""

    FILE, BITS, DTYPE = FLOATS, 32, "float32, little endian"

    def __init__(self, folder: str, count: int, dimensions: int) -> None:
        super().__init__(folder, count, dimensions)
        self.vectors = self._mapped("<f4", dimensions)

    @classmethod
    def write(cls, vectors: np.ndarray, folder: str) -> None:
        """Nothing: building an index writes them."""

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
    """A byte for each number: in which of 256 steps it is from the least number of its place to the largest.

    Scores are dot products of queries and the middles of steps.
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
        """0 for ranges that are not finite, which all vectors have."""
        return None if np.isfinite(self.starts).all() and np.isfinite(self.steps).all() else 0

    def is_first(self, vector: np.ndarray) -> bool:
        return _is_same(self.starts + (self.codes[0] + 128.5) * self.steps, vector)


class Binary(Stored):
    """A bit for each number: whether it is above 0.

    The texts whose bits differ least from those of the query are compared with the query itself: scores are the dot
    products with vectors of the length of 1 whose numbers are all as large.
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
    """The number of bits in which bytes [q, W] and [n, W] differ, float32 [q, n]."""
    return np.stack([ONES[row ^ second].sum(1, dtype=np.float32) for row in first])

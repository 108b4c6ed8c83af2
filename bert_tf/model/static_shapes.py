"""Static shapes for XLA: the host packs texts into rows of a few shapes, each compiled once; training uses one shape.

n texts; R text slots, P rows, W positions per row.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

WIDTHS = (32, 128, 256, 512)
ROWS = (1, 8, 64)
CANDIDATES = 2  # widths tried per call
ATTENTION_WIDTH = 1000  # attention takes about half of the time there, see `sequence_packing.RowCosts`
MAX_POSITIONS = 1 << 15  # in a compiled call: limits memory, and keeps a large GPU busy
FITS = "row_fits"  # batch entry: whether its texts fit into the rows of its tables
POOLED_TEXTS, TOKEN_TEXTS = 8, 2  # text slots per row: for outputs per text, and for the larger outputs per token


@dataclasses.dataclass(frozen=True)
class Shape:
    """One shape of the ladder: R text slots in P rows of W positions."""

    texts: int
    rows: int
    width: int


@dataclasses.dataclass(frozen=True)
class Placement:
    """A compiled call: the texts it computes, and their places.

    indices: its texts among all, int [r], r <= R. starts: the start of each in the P * W positions.
    """

    shape: Shape
    indices: np.ndarray
    starts: np.ndarray

    def fullness(self, lengths: np.ndarray) -> float:
        """Tokens per position; positions of wide rows count more, because attention takes longer there."""
        positions = self.shape.rows * self.shape.width * (1 + self.shape.width / ATTENTION_WIDTH)
        return float(lengths[self.indices].sum() / positions)

    def assignment(self, lengths: npt.ArrayLike) -> dict[str, np.ndarray]:
        """The tables of `sequence_packing.RowAssignment`: "row_sources" [P, W] and "row_targets" [R, W], int32.

        lengths: the lengths of all texts.
        """
        shape, sizes = self.shape, np.asarray(lengths)[self.indices]
        position = np.arange(shape.width)
        used = np.zeros((shape.texts, shape.width), bool)
        used[: len(sizes)] = position < sizes[:, None]
        starts = np.zeros(shape.texts, np.int64)
        starts[: len(sizes)] = self.starts
        targets = np.where(used, starts[:, None] + position, 0)
        sources = np.full(shape.rows * shape.width, -1, np.int32)
        sources[targets[used]] = np.flatnonzero(used)
        return {"row_sources": sources.reshape(shape.rows, shape.width), "row_targets": targets.astype(np.int32)}


@dataclasses.dataclass(frozen=True)
class Ladder:
    """The shapes compiled for texts of at most `longest` tokens.

    texts_per_row: text slots in a call, per row.
    """

    longest: int
    texts_per_row: int = POOLED_TEXTS
    rows: tuple[int, ...] = ROWS

    @property
    def widths(self) -> tuple[int, ...]:
        """The possible W."""
        return (*(width for width in WIDTHS if width < self.longest), self.longest)

    def shapes(self) -> list[Shape]:
        """All shapes, the smallest first."""
        return [self._shape(rows, width) for width in self.widths for rows in self._rows(width)]

    def place(self, lengths: npt.ArrayLike) -> Iterator[Placement]:
        """Compiled calls that compute every text once; each takes the longest that are left, first-fit decreasing.

        lengths: int [n], from 0 to `longest`. An empty text takes a slot and no positions.
        """
        sizes = np.asarray(lengths)
        left = np.argsort(-sizes, kind="stable")
        while len(left):
            widths = [width for width in self.widths if width >= sizes[left[0]]][:CANDIDATES]
            placement = max(
                (self._place(sizes, left, width) for width in widths), key=lambda each: each.fullness(sizes)
            )
            yield placement
            left = np.setdiff1d(left, placement.indices, assume_unique=True)

    def _place(self, sizes: np.ndarray, left: np.ndarray, width: int) -> Placement:
        """A call of that width with as many of the texts `left`, longest first, as fit."""
        most = self._rows(width)[-1]
        starts = first_fit(sizes[left], width, rows=most, texts=most * self.texts_per_row)
        is_in = starts >= 0
        last = int(starts[sizes[left] > 0].max(initial=0))  # start of a nonempty text
        needed = max(last // width + 1, -(-int(is_in.sum()) // self.texts_per_row))
        rows = min(rows for rows in self._rows(width) if rows >= needed)
        return Placement(self._shape(rows, width), left[is_in], starts[is_in])

    def _shape(self, rows: int, width: int) -> Shape:
        return Shape(rows * self.texts_per_row, rows, width)

    def _rows(self, width: int) -> tuple[int, ...]:
        """The possible P for a width."""
        return tuple(rows for rows in self.rows if rows * width <= MAX_POSITIONS) or self.rows[:1]


def first_fit(lengths: Sequence[int] | np.ndarray, width: int, *, rows: int, texts: int) -> np.ndarray:
    """Starts of texts, int [n], counted through all rows; -1 for texts that do not fit in the given order.

    Each goes into the first row with room; at most `texts` of them, into `rows` rows. For texts in decreasing order,
    it equals `sequence_packing.first_fit_decreasing`, which computes in a graph.
    """
    room = np.full(rows, width)
    starts = np.full(len(lengths), -1)
    placed = 0
    for number, length in enumerate(lengths):
        if placed == texts:
            break
        row = int((room >= length).argmax())
        if room[row] >= length:
            starts[number] = row * width + width - room[row]
            room[row] -= length
            placed += 1
    return starts


def pack_batch(lengths: np.ndarray, width: int, *, slices: int, rows: int) -> dict[str, np.ndarray]:
    """Tables for packing a training batch into `rows` rows per slice (replica or micro-batch).

    Args:
        lengths: int [B] or [B, C]; the texts of a slice are consecutive.
        width: T, positions of the texts and of the rows.
        slices: S, which divides B.
        rows: P.

    Returns:
        "row_sources" [S * P, T] and "row_targets" [texts, T], int32, see `Placement.assignment`; and "row_fits", bool
        [S]: whether the texts of a slice fit into its rows. If not, its tables are wrong.
    """
    tables: list[dict[str, np.ndarray]] = []
    for sizes in lengths.reshape(slices, -1):
        order, starts = np.argsort(-sizes, kind="stable"), np.zeros(len(sizes), int)
        starts[order] = first_fit(sizes[order], width, rows=rows, texts=len(sizes))
        placement = Placement(Shape(len(sizes), rows, width), np.arange(len(sizes)), np.maximum(starts, 0))
        tables.append({**placement.assignment(sizes), FITS: np.array([starts.min() >= 0])})
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}

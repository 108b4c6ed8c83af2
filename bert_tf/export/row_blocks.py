"""Decides which rows of tokens an engine computes together: padded to one width, or with several texts per row.

R texts, T positions of the longest; P rows of W positions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.export.host import Row
from bert_tf.model.static_shapes import ATTENTION_WIDTH, Placement, Shape, first_fit

SHARED = "shares_rows"  # entry of host.json: engines that are faster with several texts per row, if networks allow it
MAX_POSITIONS = 4096  # per block: bounds memory, and is enough for all cores
TEXTS_PER_ROW = 4  # average per block, at most: after the encoder each text is padded to the width of a row
CALL_COST = 64  # positions that take about as long as the fixed part of a call, which reads all weights


def plan(lengths: Sequence[int], *, shares_rows: bool) -> list[Placement]:
    """The blocks for texts of these lengths, covering every text once: the faster of padded and shared rows.

    shares_rows: whether the network takes rows of several texts.
    """
    plans = [list(_padded(lengths))]
    if shares_rows and len(lengths) > 1:
        plans.append(list(_shared(np.asarray(lengths))))
    return min(plans, key=cost)


def cost(blocks: Iterable[Placement]) -> float:
    """The approximate time for blocks, in positions of short rows."""
    shapes = [block.shape for block in blocks]
    return sum(CALL_COST + shape.rows * shape.width * (1 + shape.width / ATTENTION_WIDTH) for shape in shapes)


def _padded(lengths: Sequence[int]) -> Iterator[Placement]:
    """Each text a row, the longest first; a block ends when its padding has cost as much as another call does."""
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    begin = padding = 0
    for end, number in enumerate(order):
        longest = lengths[order[begin]]
        padding += longest - lengths[number]
        if padding > CALL_COST or (end - begin + 1) * longest > MAX_POSITIONS:
            if end > begin:
                yield _rows_of(order[begin:end], longest)
            begin, padding = end, 0
    if order:
        yield _rows_of(order[begin:], lengths[order[begin]])


def _rows_of(numbers: list[int], width: int) -> Placement:
    return Placement(Shape(len(numbers), len(numbers), width), np.array(numbers), np.arange(len(numbers)) * width)


def _shared(lengths: np.ndarray) -> Iterator[Placement]:
    """Rows as wide as the longest text of their block, first-fit decreasing."""
    left = np.argsort(-lengths, kind="stable")
    while len(left):
        width = int(lengths[left[0]])
        most = max(1, MAX_POSITIONS // width)
        starts = first_fit(lengths[left], width, rows=most, texts=most * TEXTS_PER_ROW)
        is_in = starts >= 0
        yield Placement(Shape(int(is_in.sum()), int(starts.max()) // width + 1, width), left[is_in], starts[is_in])
        left = left[~is_in]


def alone(lengths: Sequence[int]) -> Placement:
    """A block of all texts, each in its own row."""
    return _rows_of(list(range(len(lengths))), max(lengths))


def in_one_row(lengths: Sequence[int]) -> Placement:
    """A block of all texts in one row."""
    ends = np.cumsum(lengths)
    return Placement(Shape(len(lengths), 1, int(ends[-1])), np.arange(len(lengths)), ends - lengths)


def inputs_of(
    rows: Sequence[Row], settings: Mapping[str, Any], block: Placement | None = None
) -> dict[str, np.ndarray]:
    """The rows of a block, by default all, as inputs for a network.

    They are int32 "token_ids", "segment_ids" [R, W], "lengths" [R], and any other inputs of the network: the tables of
    a `RowAssignment`, and "masked_lm_positions".
    """
    lengths = [len(row.ids) for row in rows]
    block = block or alone(lengths)
    chosen = [rows[number] for number in block.indices]
    shape = len(chosen), block.shape.width
    ids, segments = np.full(shape, settings["pad_id"], np.int32), np.zeros(shape, np.int32)
    for number, row in enumerate(chosen):
        ids[number, : len(row.ids)], segments[number, : len(row.ids)] = row.ids, row.segments
    inputs = {"token_ids": ids, "segment_ids": segments, "lengths": np.asarray(lengths, np.int32)[block.indices]}
    if SHARED in settings:
        inputs |= block.assignment(lengths)
    if settings["has_masks"]:
        positions = np.zeros([len(chosen), max(1, *(len(row.positions) for row in chosen))], np.int32)
        for number, row in enumerate(chosen):
            positions[number, : len(row.positions)] = row.positions
        inputs["masked_lm_positions"] = positions
    return inputs

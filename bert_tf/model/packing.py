"""Packing: several texts in one row of the encoder; less padding, the same outputs.

Training on CPUs and signatures on strings plan their rows in the graph (`PackingSpec`). The host plans the rows of
predictions (`Planner`) and of training batches of static shapes (`pack_batch`).

R texts in a batch, T positions each; after packing P rows of W positions, N = P * W; D hidden size; K candidate
widths.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bert_tf.runtime import backend
from bert_tf.runtime.lazy import tf

POSITION_INPUTS = ("token_ids", "segment_ids", "text_mask", "positions")  # the last two are optional
TABLES = ("row_sources", "row_targets")  # input entries: the sources and targets of a RowAssignment
FITS = "row_fits"  # batch entry: whether its texts fit into the rows of its tables
ATTENTION_WIDTH = 1000  # attention takes about as long as everything else in rows of this width
# Widths to try, as multiples of the longest text. On GLUE tasks the best of them is 95% to 98% full; batches padded to
# their longest text are 33% to 67% full.
MULTIPLES = (1.0, 1.04, 1.1, 1.2, 1.35, 1.6, 2.0)
WIDTHS, ROWS = (32, 128, 256, 512), (1, 8, 64)  # of static shapes
CANDIDATES = 2  # of these widths tried per call
POOLED_TEXTS, TOKEN_TEXTS = 8, 2  # text slots per row: for outputs per text, and for the larger outputs per token


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowCosts:
    """Row costs for choosing the width and the number of rows. The defaults favor no processor.

    mean_multiple: another width to try, as a multiple of the mean.
    block: widths that are multiples of it are computed faster; others take `uneven` times as long.
    row_block, many: so are batches of at least `many` positions if their number is a multiple of row_block.
    """

    mean_multiple: float = 2.08
    block: int = 1
    uneven: float = 1.0
    row_block: int = 1
    many: int = 1024


CPU_COSTS = RowCosts(block=16, uneven=1.03, row_block=128)  # measured on a Xeon with AVX-512


def local_costs() -> RowCosts:
    """The costs on this process's device; in a graph for any device, costs that favor no processor."""
    return CPU_COSTS if backend.platform() == "cpu" else RowCosts()


@dataclasses.dataclass(frozen=True)
class PackingSpec:
    """Packing of input texts into as many rows as needed, with shapes known only at run time: not for XLA."""

    costs: RowCosts = RowCosts()

    def trim(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Cuts unused trailing positions from `token_ids`, `segment_ids` and other POSITION_INPUTS [R, T]."""
        longest = tf.reduce_max(tf.concat([inputs["lengths"], [1]], 0))  # 1 for an empty batch
        return {name: x[:, :longest] if name in POSITION_INPUTS else x for name, x in inputs.items()}

    def assign(self, inputs: Mapping[str, tf.Tensor]) -> RowAssignment:
        """Assigns the texts of trimmed inputs to rows."""
        with backend.on_host():
            assign = _assign_function(self.costs)
            return RowAssignment(*assign(inputs["lengths"], tf.shape(inputs["token_ids"])[1]))


@dataclasses.dataclass(frozen=True)
class RowAssignment:
    """Maps positions between a batch and its rows.

    sources: int32 [P, W], for each row position the index r * T + t into the batch, -1 if it is empty.
    targets: int32 [R, T], for each batch position the index p * W + w into the rows, 0 for padding.
    """

    sources: tf.Tensor
    targets: tf.Tensor

    @classmethod
    def given(cls, inputs: Mapping[str, tf.Tensor]) -> RowAssignment | None:
        """The one planned on the host, from a `Placement.assignment` among the inputs; None without one."""
        return cls(*(inputs[name] for name in TABLES)) if TABLES[0] in inputs else None

    @classmethod
    def of(
        cls,
        lengths: tf.Tensor,
        length: tf.Tensor | int,
        starts: tf.Tensor,
        rows: tf.Tensor | int,
        width: tf.Tensor | int,
    ) -> RowAssignment:
        """Texts of `lengths` [R], padded to `length`, that start at `starts` [R], counted through `rows` of `width`.

        A text of length 0 takes no room.
        """
        position = tf.range(length)[None, :]
        used = position < lengths[:, None]  # [R, T]
        targets = tf.where(used, starts[:, None] + position, 0)
        nowhere = rows * width  # an additional position for all unused ones
        indices = tf.reshape(tf.where(used, targets, nowhere), [-1, 1])
        sources = tf.tensor_scatter_nd_update(tf.fill([nowhere + 1], -1), indices, tf.range(tf.size(used)))[:-1]
        return cls(sources=tf.reshape(sources, [rows, width]), targets=targets)

    def pack(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Packs the available POSITION_INPUTS [R, T] into [P, W], with `positions` and `text_numbers` [P, W]."""
        length = tf.shape(self.targets)[1]
        is_text = self.sources >= 0
        flat = {name: tf.reshape(inputs[name], [-1]) for name in POSITION_INPUTS if name in inputs}
        rows = {"positions": self.sources % length, "text_numbers": self.sources // length + 1}
        rows |= {name: tf.gather(x, tf.maximum(self.sources, 0)) for name, x in flat.items()}
        return {name: tf.where(is_text, x, 0) for name, x in rows.items()}

    def unpack(self, x: tf.Tensor) -> tf.Tensor:  # [N, D] -> [R, T, D]
        """Row tokens at their positions in the batch; padding positions contain arbitrary tokens."""
        return tf.gather(x, self.targets)

    def locate(self, positions: tf.Tensor) -> tf.Tensor:  # [R, P] -> [R, P]
        """Indices into the N row tokens for these positions of each text."""
        return tf.gather(self.targets, positions, batch_dims=1)


@functools.cache
def _assign_function(costs: RowCosts) -> Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """(lengths [R], T) -> the sources and targets of a RowAssignment; traced once for all graphs.

    A tf.function would be traced again for each device and replica.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32)], autograph=False)
    def assign(lengths: tf.Tensor, length: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device(backend.HOST):  # on an accelerator every step of the loops would be several tiny kernels
            starts, rows, width = choose_rows(lengths, costs)
            found = RowAssignment.of(lengths, length, starts, round_up_row_count(rows, width, costs), width)
        return found.sources, found.targets

    with tf.init_scope(), tf.device(None):
        return assign.get_concrete_function()


def choose_rows(lengths: tf.Tensor, costs: RowCosts) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The cheapest rows for texts of `lengths` [R], at least as wide as the longest text.

    Returns:
        The start of each text, counted through all rows, int32 [R]; the number of rows and their width, int32 [].
    """
    longest = tf.cast(tf.maximum(tf.reduce_max(lengths), 1), tf.float32)
    texts = tf.maximum(tf.reduce_sum(tf.cast(lengths > 0, tf.float32)), 1)
    mean = tf.cast(tf.reduce_sum(lengths), tf.float32) / texts
    multiples = longest * tf.constant(MULTIPLES)
    widths = tf.concat([multiples, [tf.maximum(longest, costs.mean_multiple * mean)]], 0)  # [K]
    widths = tf.cast(tf.math.ceil(widths), tf.int32)
    widths = tf.concat([widths, _round_up(widths, costs.block)], 0)
    starts, rows, used = first_fit_decreasing(lengths, widths)
    count = len(MULTIPLES) + 1
    used = tf.concat([used[:count], _round_up(used[count:], costs.block)], 0)
    width = tf.cast(used, tf.float32)
    uneven = tf.where(used % costs.block == 0, 1.0, costs.uneven)
    cost = cost_of(tf.cast(rows, tf.float32), width) * uneven
    best = tf.argmin(cost)
    width = tf.maximum(used[best], 1)
    row, place = starts[best] // widths[best], starts[best] % widths[best]  # the same in rows of `width`
    return row * width + place, rows[best], width


def cost_of(rows: Any, width: Any) -> Any:
    """The approximate time for rows, in positions of short rows."""
    return rows * width * (1 + width / ATTENTION_WIDTH)


def _round_up(widths: tf.Tensor, block: int) -> tf.Tensor:
    return -(-widths // block) * block


def round_up_row_count(rows: tf.Tensor, width: tf.Tensor | int, costs: RowCosts) -> tf.Tensor:
    """The number of rows of `width` if `rows` are needed: up to a sixteenth more in large batches, for even blocks."""
    if costs.row_block == 1:
        return rows
    more = tf.range(costs.row_block // costs.block)
    even = tf.argmax(((rows + more) * width) % costs.row_block == 0, output_type=tf.int32)  # 0 if there is none
    return tf.where((rows * width >= costs.many) & (16 * even <= rows), rows + even, rows)


def first_fit_decreasing(lengths: tf.Tensor, widths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Puts texts into rows, the longest first and each into the first row with room (Johnson 1973).

    Args:
        lengths: int32 [R], none above the smallest width.
        widths: int32 [K], alternatives, each tried independently.

    Returns:
        For each width the start of each text, counted through all rows, int32 [K, R], 0 for a text of length 0; the
        number of rows, at least 1, int32 [K]; and the positions used in the fullest row, int32 [K], a width that
        leaves every text in the same place.
    """
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    sizes = tf.gather(lengths, order)
    count = tf.reduce_sum(tf.cast(sizes > 0, tf.int32))
    starts = tf.TensorArray(tf.int32, tf.size(lengths), element_shape=widths.shape)

    def put(
        number: tf.Tensor, room: tf.Tensor, starts: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:  # room [K, R]: positions left in each row
        row = tf.argmax(room >= sizes[number], 1, output_type=tf.int32)  # [K]
        chosen = tf.one_hot(row, tf.shape(room)[1], dtype=tf.int32)
        start = row * widths + widths - tf.reduce_sum(chosen * room, 1)
        return number + 1, room - chosen * sizes[number], starts.write(number, start)

    room = tf.tile(widths[:, None], [1, tf.size(lengths)])
    _, room, starts = tf.while_loop(lambda number, *_: number < count, put, (0, room, starts), parallel_iterations=1)
    rows = tf.maximum(tf.reduce_sum(tf.cast(room < widths[:, None], tf.int32), 1), 1)
    starts = tf.scatter_nd(order[:, None], starts.stack(), [tf.size(lengths), tf.size(widths)])  # [R, K]
    return tf.transpose(starts), rows, tf.reduce_max(widths[:, None] - room, 1)


def first_fit(lengths: Sequence[int] | np.ndarray, width: int, *, rows: int, texts: int) -> np.ndarray:
    """The same on the host, for one width and texts in decreasing order: at most `texts` of them, into `rows` rows.

    Returns:
        The start of each text, counted through all rows, int [R]; -1 for texts that do not fit.
    """
    room, widest = np.full(rows, width), width  # widest: no row has more room
    starts = np.full(len(lengths), -1)
    placed = 0
    for number, length in enumerate(lengths):
        if length > widest:
            continue
        row = int((room >= length).argmax())
        if room[row] < length:
            widest = int(room.max())
            continue
        starts[number] = row * width + width - room[row]
        room[row] -= length
        placed += 1
        if placed == texts:
            break
    return starts


@dataclasses.dataclass(frozen=True)
class Shape:
    """The shape of a call: R text slots in P rows of W positions."""

    texts: int
    rows: int
    width: int

    @property
    def cost(self) -> float:
        """See `cost_of`."""
        return float(cost_of(self.rows, self.width))


@dataclasses.dataclass(frozen=True)
class Placement:
    """A call: the texts it computes, and their places.

    indices: its texts among all, int [r], r <= R. starts: the start of each in the P * W positions.
    """

    shape: Shape
    indices: np.ndarray
    starts: np.ndarray

    @classmethod
    def padded(cls, lengths: Sequence[int]) -> Placement:
        """Each text in a row of its own."""
        count, width = len(lengths), max(lengths)
        return cls(Shape(count, count, width), np.arange(count), np.arange(count) * width)

    @classmethod
    def in_one_row(cls, lengths: Sequence[int]) -> Placement:
        """All texts in one row."""
        ends = np.cumsum(lengths)
        return cls(Shape(len(lengths), 1, int(ends[-1])), np.arange(len(lengths)), ends - lengths)

    def assignment(self, lengths: npt.ArrayLike) -> dict[str, np.ndarray]:
        """The tables of a RowAssignment: "row_sources" [P, W] and "row_targets" [R, W], int32.

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
        tables = sources.reshape(shape.rows, shape.width), targets.astype(np.int32)
        return dict(zip(TABLES, tables, strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Planner:
    """Plans on the host which texts are computed together, and their rows.

    rules: each fills a call with some of the texts that are left; the one with the lowest cost in total is used. They
        map the planner and lengths in decreasing order to the shape of the call and the starts of the texts, int [n],
        counted through all rows; -1 for texts that are left to other calls.
    widths, rows: the possible W and P of static shapes, ascending; () for any.
    texts_per_row: text slots in a call, per row: after the encoder, each text is padded to the width of a row.
    max_positions: positions in a call, unless a single row has more: bounds memory, and keeps all cores busy.
    call_cost: positions that take about as long as the fixed part of a call, which reads all weights.
    """

    rules: tuple[Callable[[Planner, np.ndarray], tuple[Shape, np.ndarray]], ...]
    widths: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    texts_per_row: int = 4
    max_positions: int = 4096
    call_cost: int = 64

    def plan(self, lengths: Sequence[int]) -> list[Placement]:
        """Calls that compute every text once; each takes the longest that are left."""
        plans = [list(self._calls(np.asarray(lengths), rule)) for rule in self.rules]
        return min(plans, key=lambda calls: sum(self.call_cost + call.shape.cost for call in calls))

    def _calls(self, sizes: np.ndarray, rule: Callable[..., tuple[Shape, np.ndarray]]) -> Iterator[Placement]:
        left = np.argsort(-sizes, kind="stable")
        while len(left):
            shape, starts = rule(self, sizes[left])
            is_in = starts >= 0
            yield Placement(shape, left[is_in], starts[is_in])
            left = left[~is_in]

    def shapes(self) -> list[Shape]:
        """All static shapes, the smallest first."""
        return [self.shape(0, rows, width) for width in self.widths for rows in self.rows_of(width)]

    def shape(self, texts: int, rows: int, width: int) -> Shape:
        """The smallest shape of that width with that many text slots and rows."""
        if not self.rows:
            return Shape(texts, rows, width)
        needed = max(rows, -(-texts // self.texts_per_row))
        rows = next(each for each in self.rows_of(width) if each >= needed)
        return Shape(rows * self.texts_per_row, rows, width)

    def widths_of(self, longest: int, total: int) -> Sequence[int]:
        """The W to try for texts of at most `longest` tokens, and `total` together."""
        if self.widths:
            return [each for each in self.widths if each >= longest][:CANDIDATES]
        return sorted({max(min(math.ceil(longest * multiple), total), 1) for multiple in MULTIPLES})

    def rows_of(self, width: int) -> Sequence[int]:
        """The possible P for a width."""
        if not self.rows:
            return range(1, max(self.max_positions // width, 1) + 1)
        return [each for each in self.rows if each * width <= self.max_positions] or self.rows[:1]


def padded(planner: Planner, sizes: np.ndarray) -> tuple[Shape, np.ndarray]:
    """A rule: each text a row; the call ends when its padding has cost as much as another call does."""
    longest = max(int(sizes[0]), 1)
    padding = np.cumsum(longest - sizes)
    count = min(int((padding <= planner.call_cost).sum()), planner.rows_of(longest)[-1])
    numbers = np.arange(len(sizes))
    return Shape(count, count, longest), np.where(numbers < count, numbers * longest, -1)


def shared(planner: Planner, sizes: np.ndarray) -> tuple[Shape, np.ndarray]:
    """A rule: first-fit decreasing, in the width that leaves the least room."""
    found = []
    for width in planner.widths_of(int(sizes[0]), int(sizes.sum())):
        most = planner.rows_of(width)[-1]
        starts = first_fit(sizes.tolist(), width, rows=most, texts=most * planner.texts_per_row)
        last = int(starts[sizes > 0].max(initial=0))  # start of a nonempty text
        found.append((planner.shape(int((starts >= 0).sum()), last // width + 1, width), starts))
    return max(found, key=lambda each: float(sizes[each[1] >= 0].sum()) / each[0].cost)


PADDED = Planner(rules=(padded,))  # for networks that take a text per row
SHARED = Planner(rules=(padded, shared))  # for networks that take the tables of a RowAssignment


def static_planner(longest: int, texts_per_row: int = POOLED_TEXTS, rows: tuple[int, ...] = ROWS) -> Planner:
    """Plans calls of a few shapes, each compiled once by XLA, for texts of at most `longest` tokens."""
    widths = (*(width for width in WIDTHS if width < longest), longest)
    return Planner(rules=(shared,), widths=widths, rows=rows, texts_per_row=texts_per_row, max_positions=1 << 15)


def pack_batch(lengths: np.ndarray, width: int, *, slices: int, rows: int) -> dict[str, np.ndarray]:
    """Tables for packing a training batch into `rows` rows per slice (replica or micro-batch), of static shapes.

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

"""Sequence packing: several texts in one row of the encoder; less padding, the same outputs.

R texts in a batch, T positions each; after packing P rows of W positions, N = P * W; D hidden size; K candidate
widths.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping

from bert_tf.runtime import backend
from bert_tf.runtime.lazy import tf

POSITION_INPUTS = ("token_ids", "segment_ids", "text_mask", "positions")  # the last two are optional
TABLES = ("row_sources", "row_targets")  # input entries: the sources and targets of a RowAssignment


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowCosts:
    """Row costs for choosing the width and the number of rows. The defaults favor no processor.

    longest_multiples, mean_multiple: candidate widths, as multiples of the longest text and of the mean. On GLUE tasks
        the best of them is 95% to 98% full; batches padded to their longest text are 33% to 67% full.
    attention_width: row width at which attention takes about as long as everything else.
    block: widths that are multiples of it are computed faster; others take `uneven` times as long.
    row_block, many: so are batches of at least `many` positions if their number is a multiple of row_block.
    """

    longest_multiples: tuple[float, ...] = (1.0, 1.04, 1.1, 1.2, 1.35, 1.6, 2.0)
    mean_multiple: float = 2.08
    attention_width: int = 1000
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
    """Packing of input texts into rows; created by `dynamic`.

    Rows of static shapes, required by XLA, are planned on the host: `model.static_shapes`.
    """

    costs: RowCosts = RowCosts()

    @classmethod
    def dynamic(cls, costs: RowCosts | None = None) -> PackingSpec:
        """As many rows as needed, with shapes known only at run time: not for XLA. costs: None favors no processor."""
        return cls(costs=costs or RowCosts())

    def plan(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Trimmed inputs with "row_sources" and "row_targets", which define an encoder's rows.

        It can then be compiled for static shapes with rows planned by `static_shapes` on the host.
        """
        inputs = self.trim(inputs)
        return {**inputs, **self.assign(inputs).as_inputs()}

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
        """The one planned before the encoder, by `PackingSpec.plan` or `static_shapes`; None without one."""
        return cls(*(inputs[name] for name in TABLES)) if TABLES[0] in inputs else None

    def as_inputs(self) -> dict[str, tf.Tensor]:
        """Entries for an encoder's inputs, read by `given`."""
        return dict(zip(TABLES, (self.sources, self.targets), strict=True))

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
    multiples = longest * tf.constant(costs.longest_multiples)
    widths = tf.concat([multiples, [tf.maximum(longest, costs.mean_multiple * mean)]], 0)  # [K]
    widths = tf.cast(tf.math.ceil(widths), tf.int32)
    widths = tf.concat([widths, _round_up(widths, costs.block)], 0)
    starts, rows, used = first_fit_decreasing(lengths, widths)
    count = len(costs.longest_multiples) + 1
    used = tf.concat([used[:count], _round_up(used[count:], costs.block)], 0)
    width = tf.cast(used, tf.float32)
    uneven = tf.where(used % costs.block == 0, 1.0, costs.uneven)
    cost = tf.cast(rows, tf.float32) * width * (1 + width / costs.attention_width) * uneven
    best = tf.argmin(cost)
    width = tf.maximum(used[best], 1)
    row, place = starts[best] // widths[best], starts[best] % widths[best]  # the same in rows of `width`
    return row * width + place, rows[best], width


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

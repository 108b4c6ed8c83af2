"""Runs a function of rows in static shapes, compiled whole by XLA, with texts packed on the host.

n texts, R text slots, T input positions, W positions per row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bert_tf.model.static_shapes import Ladder, Placement, Shape
from bert_tf.runtime.lazy import tf

Rows = Mapping[str, np.ndarray]


class StaticRows:
    """A function of rows {name: [n, ...]} that uses only the shapes of a ladder, whatever the number of texts.

    Args:
        compute: maps encoder inputs, with "row_sources" and "row_targets" from `sequence_packing.PackingSpec.plan`,
            and other arrays [n, ...] to {name: tensor [n, ...]}.
        ladder: the shapes.
    """

    def __init__(self, compute: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]], ladder: Ladder) -> None:
        self.ladder = ladder
        self._compute = tf.function(compute, jit_compile=True, autograph=False)

    def __call__(self, rows: Rows) -> dict[str, np.ndarray]:
        """The outputs {name: array [n, ...]}; token outputs are as wide as the widest call, padded with zeros.

        rows: "token_ids" and "segment_ids" [n, T], "lengths" [n], and other arrays [n, ...] or [n, T, ...].
        """
        count = len(rows["lengths"])
        placements = list(self.ladder.place(rows["lengths"])) or list(self.ladder.place([0]))[:1]
        if not count:
            rows = {name: np.zeros((1, *x.shape[1:]), x.dtype) for name, x in rows.items()}
        calls = [self._compute(inputs_of(rows, each)) for each in placements]  # all start before waiting for the first
        parts = [{name: x.numpy() for name, x in outputs.items()} for outputs in calls]
        indices = [each.indices for each in placements]
        return {name: _joined([part[name] for part in parts], indices, count) for name in parts[0]}

    def compile(self, rows: Rows, shape: Shape) -> None:
        """Compiles a shape; rows: at least one short text, whose outputs are discarded."""
        self._compute(inputs_of(rows, Placement(shape, np.array([0]), np.array([0]))))


def inputs_of(rows: Rows, placement: Placement) -> dict[str, tf.Tensor]:
    """The inputs of a call: its texts, padded to R, as wide as its rows."""
    shape, slots = placement.shape, rows["token_ids"].shape[1]
    inputs = {}
    for name, x in rows.items():
        own = x[placement.indices]
        has_slots = own.ndim > 1 and own.shape[1] == slots
        own = own[:, : shape.width] if has_slots else own
        missing = [(0, shape.texts - len(own)), *((0, 0) for _ in own.shape[1:])]
        if has_slots:
            missing[1] = (0, shape.width - own.shape[1])
        inputs[name] = np.pad(own, missing)
    inputs |= placement.assignment(rows["lengths"])
    return {name: tf.constant(x) for name, x in inputs.items()}


def _joined(parts: list[np.ndarray], indices: list[np.ndarray], count: int) -> np.ndarray:
    """The outputs of all calls in the order of the texts, without empty slots."""
    widest = np.max([part.shape[1:] for part in parts], 0).astype(int) if parts[0].ndim > 1 else ()
    joined = np.zeros((count, *widest), parts[0].dtype)
    for part, texts in zip(parts, indices, strict=True):
        places: tuple[Any, ...] = (texts, *(slice(size) for size in part.shape[1:]))
        if count:
            joined[places] = part[: len(texts)]
    return joined

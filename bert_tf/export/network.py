"""Rows of tokens to numbers: the base class of live models, SavedModels and models of engines.

R texts, a row of tokens each; P rows of W positions in a call, which may contain several of them.
"""

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from bert_tf.export import host
from bert_tf.export.host import Row
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model.packing import Placement, Planner
from bert_tf.runtime import stopping

SHARES_ROWS = "shares_rows"  # entry of settings, of any value: the network takes the tables of a RowAssignment
Arrays = dict[str, np.ndarray]


class Network(abc.ABC):
    """A function from rows to numbers, computed in calls of several rows.

    Attributes:
        name: "tensorflow" or the name of the engine.
        settings: see `inputs_of`, and "token_outputs", names of outputs with a value per token.
        planner: decides which rows are computed together.
    """

    name: str
    settings: dict[str, Any]
    planner: Planner

    def numbers(self, rows: Sequence[Row]) -> host.Numbers:
        """{output: R arrays} for rows; token outputs have no padding.

        Raises UserError if they cannot be computed.
        """
        return self.compute(rows, self.planner.plan([len(row.ids) for row in rows]))

    def compute(self, rows: Sequence[Row], calls: Sequence[Placement]) -> host.Numbers:
        """`numbers` in these calls."""
        found: dict[str, list[Any]] = {}
        for call, outputs in zip(calls, self._outputs(self._inputs(rows, calls)), strict=True):
            for name, values in outputs.items():
                places = found.setdefault(name, [None] * len(rows))
                is_of_tokens = name in self.settings["token_outputs"]
                for number, value in zip(call.indices, values, strict=False):  # static shapes have empty slots
                    places[number] = value[: len(rows[number].ids)] if is_of_tokens else value
        return found

    def _inputs(self, rows: Sequence[Row], calls: Iterable[Placement]) -> Iterator[Arrays]:
        for call in calls:
            stopping.check()
            yield inputs_of(rows, self.settings, call)

    @abc.abstractmethod
    def _outputs(self, inputs: Iterator[Arrays]) -> Iterator[Arrays]:
        """{output: array [R, ...]} for the inputs of each call."""

    def of_vectors(self, choice: VectorChoice) -> Self:
        """The network that returns the token states, or the pooled vectors, for these vectors.

        Raises UserError if it has none.
        """
        raise NotImplementedError


def inputs_of(rows: Sequence[Row], settings: Mapping[str, Any], call: Placement | None = None) -> Arrays:
    """The inputs of a network for a call, by default with one text per row.

    They are int32 "token_ids", "segment_ids" [R, W], "lengths" [R], and any other inputs of the network: the tables of
    a `RowAssignment`, and "masked_lm_positions". Unused slots of static shapes have the length 0.

    settings: "pad_id", "has_masks", and SHARES_ROWS if the network takes these tables.
    """
    lengths = [len(row.ids) for row in rows]
    call = call or Placement.padded(lengths)
    chosen = [rows[number] for number in call.indices]
    shape = call.shape.texts, call.shape.width
    ids, segments = np.full(shape, settings["pad_id"], np.int32), np.zeros(shape, np.int32)
    sizes = np.zeros(call.shape.texts, np.int32)
    for number, row in enumerate(chosen):
        size = sizes[number] = len(row.ids)
        ids[number, :size], segments[number, :size] = row.ids, row.segments
    inputs = {"token_ids": ids, "segment_ids": segments, "lengths": sizes}
    if SHARES_ROWS in settings:
        inputs |= call.assignment(lengths)
    if settings["has_masks"]:
        positions = np.zeros([len(chosen), max(1, *(len(row.positions) for row in chosen))], np.int32)
        for number, row in enumerate(chosen):
            positions[number, : len(row.positions)] = row.positions
        inputs["masked_lm_positions"] = positions
    return inputs

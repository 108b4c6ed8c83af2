"""Rows to numbers with a TensorFlow function, from a live model or a SavedModel.

R texts, T positions, P masked positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import UserError, reason_of
from bert_tf.export import host
from bert_tf.export.host import Row
from bert_tf.export.network import SHARES_ROWS, Arrays, Network, inputs_of
from bert_tf.model import packing
from bert_tf.model.packing import Placement, Planner, Shape
from bert_tf.runtime import backend
from bert_tf.runtime.lazy import tf

TOKENS, MASKS = ("tokens", "logits", "start_logits", "end_logits"), "masked_lm_positions"
STAGES_OF_TOKENS = ("tags", "questions", "vectors")
Tensors = dict[str, "tf.Tensor"]
# For functions that take no tables: some pack rows in their graph, and an LSTM has as many steps as the longest text.
FEW_CALLS = Planner(rules=(packing.padded,), max_positions=8192, call_cost=8192)


class TensorFlowNetwork(Network):
    """A Network of TensorFlow.

    Attributes:
        is_static: whether XLA compiles it, in static shapes.

    Args:
        function: rows {name: tensor} -> {output: [R, ...]}. Rows have "token_ids" and "segment_ids" [R, T], "lengths"
            [R], for masks MASKS [R, P], and if it takes them the tables of a `RowAssignment`.
        source: its folder, for messages.
        settings: "stages", see `export.host`, "pad_id", and "max_positions", the maximum row length.
        jit_compile: whether XLA compiles it: "true", "false", or "auto", on accelerators. It compiles no functions of
            masks, because their number is dynamic, and none that takes no tables.
        takes_tables: whether the function takes tables.
    """

    name = "tensorflow"

    def __init__(
        self,
        function: Callable[[Tensors], Tensors],
        source: str,
        settings: dict[str, Any],
        jit_compile: str,
        *,
        takes_tables: bool,
    ) -> None:
        self.source = source
        has_tokens, has_masks = settings["stages"] in STAGES_OF_TOKENS, settings["stages"] == "masks"
        self.settings = {
            "pad_id": int(settings["pad_id"]),
            "has_masks": has_masks,
            "token_outputs": TOKENS if has_tokens else (),
            **({SHARES_ROWS: True} if takes_tables else {}),
        }
        self.is_static = backend.should_jit(jit_compile) and takes_tables and not has_masks
        if self.is_static:
            texts_per_row = packing.TOKEN_TEXTS if has_tokens else packing.POOLED_TEXTS
            self.planner = packing.static_planner(settings["max_positions"], texts_per_row)
            self._function = tf.function(function, jit_compile=True, autograph=False)
        else:
            self.planner = packing.SHARED if takes_tables else FEW_CALLS
            self._function = function

    def compute(self, rows: Sequence[Row], calls: Sequence[Placement]) -> host.Numbers:
        """See `Network`. Raises UserError if memory runs out."""
        try:
            return super().compute(rows, calls)
        except tf.errors.ResourceExhaustedError:
            raise UserError(
                f"Memory ran out for {len(rows)} rows of {max(len(row.ids) for row in rows)} tokens at once: lower "
                "batch_size."
            ) from None
        except tf.errors.OpError as error:
            raise UserError(f"TensorFlow cannot compute {self.source} ({reason_of(error)}).") from None

    def _outputs(self, inputs: Iterator[Arrays]) -> Iterator[Arrays]:
        """Each call starts before the outputs of the one before it are awaited, so that accelerators are never idle."""
        started: list[Tensors] = []
        for each in inputs:
            started.append(self._function(_tensors(each)))
            if len(started) > 1:
                yield _arrays(started.pop(0))
        yield from map(_arrays, started)

    def compile_all(self, row: Row) -> Iterator[Shape]:
        """Compiles every static shape, and yields each when it is done; row: a short one."""
        for shape in self.planner.shapes():
            call = Placement(shape, np.array([0]), np.array([0]))
            self._function(_tensors(inputs_of([row], self.settings, call)))
            yield shape


def _tensors(arrays: Arrays) -> Tensors:
    return {name: tf.constant(x) for name, x in arrays.items()}


def _arrays(tensors: Tensors) -> Arrays:
    return {name: x.numpy() for name, x in tensors.items()}

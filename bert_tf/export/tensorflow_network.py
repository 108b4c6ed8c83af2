"""Rows to numbers with TensorFlow functions, from a live model or a SavedModel.

R rows, T positions in a row, P masked positions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import UserError, reason_of
from bert_tf.export import host, row_blocks
from bert_tf.export.host import Row
from bert_tf.model.static_rows import StaticRows
from bert_tf.model.static_shapes import MAX_POSITIONS, POOLED_TEXTS, TOKEN_TEXTS, Ladder, Shape
from bert_tf.runtime import backend, stopping
from bert_tf.runtime.lazy import tf

POSITIONS_AT_ONCE = 8192  # per call: bounds memory, and is enough for all cores
STATIC_POSITIONS = 4 * MAX_POSITIONS  # the same for compiled calls
TOKENS, MASKS = ("tokens", "logits", "start_logits", "end_logits"), "masked_lm_positions"
STAGES_OF_TOKENS = ("tags", "questions", "vectors")
Tensors = dict[str, "tf.Tensor"]


@dataclasses.dataclass(frozen=True)
class RowFunctions:
    """Functions on rows {name: tensor} that return {output: [R, ...]}.

    Rows have "token_ids" and "segment_ids" [R, T], "lengths" [R], and for masks MASKS [R, P].

    Attributes:
        packed: packs the rows in the graph, in shapes known only at run time.
        alone: the same for a single row, which needs no packing.
        planned: takes rows with the tables of a `RowAssignment`, in static shapes; None if the model cannot.
    """

    packed: Callable[[Tensors], Tensors]
    alone: Callable[[Tensors], Tensors]
    planned: Callable[[Tensors], Tensors] | None = None


class TensorFlowNetwork:
    """A `predictor.Network`.

    Args:
        functions: the functions of the model.
        source: its folder, for messages.
        settings: "stages", see `export.host`, "pad_id", and "max_positions", the maximum row length.
        jit_compile: whether XLA compiles it, in static shapes: "true", "false", or "auto", on accelerators.
    """

    name = "tensorflow"

    def __init__(self, functions: RowFunctions, source: str, settings: dict[str, Any], jit_compile: str) -> None:
        self._functions, self.source = functions, source
        self._has_tokens = settings["stages"] in STAGES_OF_TOKENS
        self._settings = {"pad_id": int(settings["pad_id"]), "has_masks": settings["stages"] == "masks"}
        self.static: StaticRows | None = None
        if backend.should_jit(jit_compile) and functions.planned:
            texts = TOKEN_TEXTS if self._has_tokens else POOLED_TEXTS
            self.static = StaticRows(functions.planned, Ladder(settings["max_positions"], texts_per_row=texts))

    def numbers(self, rows: Sequence[Row]) -> host.Numbers:
        """See `predictor.Network`. Raises UserError if memory runs out."""
        found: dict[str, list[np.ndarray]] = {}
        for block in self._blocks([len(row.ids) for row in rows]):
            stopping.check()
            part = rows[block]
            for name, values in self._outputs(row_blocks.inputs_of(part, self._settings)).items():
                is_of_tokens = self._has_tokens and name in TOKENS
                each = (x[: len(row.ids)] for x, row in zip(values, part, strict=True)) if is_of_tokens else values
                found.setdefault(name, []).extend(each)
        return found

    def compile_all(self, row: Row) -> Iterator[Shape]:
        """Compiles every static shape, and yields each when it is done; row: a short one."""
        if self.static is not None:
            arrays = row_blocks.inputs_of([row], self._settings)
            for shape in self.static.ladder.shapes():
                self.static.compile(arrays, shape)
                yield shape

    def _blocks(self, lengths: Sequence[int]) -> Iterator[slice]:
        """The rows of each call, at least one."""
        most, begin, longest = STATIC_POSITIONS if self.static else POSITIONS_AT_ONCE, 0, 0
        for number, length in enumerate(lengths):
            longest = max(longest, length)
            if number > begin and (number + 1 - begin) * longest > most:
                yield slice(begin, number)
                begin, longest = number, length
        if lengths:
            yield slice(begin, len(lengths))

    def _outputs(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            if self.static is not None:
                return self.static(inputs)
            function = self._functions.packed if len(inputs["lengths"]) > 1 else self._functions.alone
            return {name: x.numpy() for name, x in function({n: tf.constant(x) for n, x in inputs.items()}).items()}
        except tf.errors.ResourceExhaustedError:
            raise UserError(
                f"Memory ran out for {len(inputs['lengths'])} rows of {inputs['token_ids'].shape[1]} tokens at once: "
                "lower batch_size."
            ) from None
        except tf.errors.OpError as error:
            raise UserError(f"TensorFlow cannot compute {self.source} ({reason_of(error)}).") from None


def specs_of(*, has_masks: bool) -> dict[str, Any]:
    """The specs for rows."""
    names = ("token_ids", "segment_ids", *([MASKS] if has_masks else []))
    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}
    return {**specs, "lengths": tf.TensorSpec([None], tf.int32, "lengths")}

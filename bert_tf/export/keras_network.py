"""The network of a live model: rows to numbers, by TensorFlow, with the current weights of the model.

R rows, T positions in a row, P masked positions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError, reason_of
from bert_tf.export import host, row_blocks
from bert_tf.export.host import Row
from bert_tf.heads.vectors import features
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model.base_encoder import Pass
from bert_tf.model.heads import BertModel
from bert_tf.model.sequence_packing import PackingSpec, local_costs
from bert_tf.model.static_rows import StaticRows
from bert_tf.model.static_shapes import MAX_POSITIONS, POOLED_TEXTS, TOKEN_TEXTS, Ladder
from bert_tf.runtime import backend, stopping

POSITIONS_AT_ONCE = 8192  # per call: bounds memory, and is enough for all cores
STATIC_POSITIONS = 4 * MAX_POSITIONS  # the same for compiled calls
TOKENS, MASKS = ("tokens", "logits", "start_logits", "end_logits"), "masked_lm_positions"
STAGES_OF_TOKENS = ("tags", "questions")
Tensors = dict[str, tf.Tensor]


class KerasNetwork:
    """A `predictor.Network`.

    Args:
        model: the model.
        source: its folder, for messages.
        settings: "stages" of its head, see `export.host`, "pad_id", and "max_positions", the longest row.
        jit_compile: whether XLA compiles it, in static shapes: "true", "false", or "auto", on accelerators.
        choice: the vectors to return; None for the numbers of its head.
    """

    name = "tensorflow"

    def __init__(
        self,
        model: BertModel,
        source: str,
        settings: dict[str, Any],
        jit_compile: str = "false",
        choice: VectorChoice | None = None,
    ) -> None:
        self._arguments = model, source, settings, jit_compile
        self._source, self._choice = source, choice
        stages = settings.get("stages")
        has_masks = choice is None and stages == "masks"
        self._has_tokens = choice is not None or stages in STAGES_OF_TOKENS
        self._settings = {"pad_id": settings["pad_id"], "has_masks": has_masks}
        names = ("token_ids", "segment_ids", *([MASKS] if has_masks else []))
        specs = {name: tf.TensorSpec([None, None], tf.int32) for name in names}
        specs["lengths"] = tf.TensorSpec([None], tf.int32)
        packing = PackingSpec.dynamic(local_costs())
        packed, alone = (backend.only_values()(self._compute_of(model, settings, how)) for how in (packing, None))
        self._packed, self._alone = _traced(packed, specs), _traced(alone, specs)
        self._static: StaticRows | None = None
        if backend.should_jit(jit_compile) and model.encoder.takes_row_tables and not has_masks:
            texts = TOKEN_TEXTS if self._has_tokens else POOLED_TEXTS
            self._static = StaticRows(packed, Ladder(settings["max_positions"], texts_per_row=texts))

    def _compute_of(
        self, model: BertModel, settings: dict[str, Any], packing: PackingSpec | None
    ) -> Callable[[Tensors], Tensors]:
        """Rows [R, T] -> numbers [R, ...], float32."""
        how = Pass(None, packing, None)
        if self._choice is not None:
            choice = self._choice
            return lambda rows: features.of_rows(model, model.complete(rows), choice, packing)
        if settings["stages"] != "texts":
            return lambda rows: _float32(model(rows, packing=packing))
        if (settings.get("windows") or {}).get("pooling") == "max":  # of vectors, before the last layer
            return lambda rows: _float32({"pooled": model.vectors(model.complete(rows), how)})
        return lambda rows: _float32({"logits": model.logits(model.complete(rows), how)})

    def of_vectors(self, choice: VectorChoice) -> KerasNetwork:
        """See `predictor.Network`."""
        model, source, settings, jit_compile = self._arguments
        return KerasNetwork(model, source, {**settings, "max_positions": choice.max_seq_length}, jit_compile, choice)

    def numbers(self, rows: Sequence[Row]) -> host.Numbers:
        """See `predictor.Network`. Raises UserError if memory does not suffice."""
        found: dict[str, list[np.ndarray]] = {}
        for block in self._blocks([len(row.ids) for row in rows]):
            stopping.check()
            part = rows[block]
            for name, values in self._outputs(row_blocks.inputs_of(part, self._settings)).items():
                is_of_tokens = self._has_tokens and name in TOKENS
                each = (x[: len(row.ids)] for x, row in zip(values, part, strict=True)) if is_of_tokens else values
                found.setdefault(name, []).extend(each)
        return found

    def _blocks(self, lengths: Sequence[int]) -> Iterator[slice]:
        """The rows of each call, at least one."""
        most, begin, longest = STATIC_POSITIONS if self._static else POSITIONS_AT_ONCE, 0, 0
        for number, length in enumerate(lengths):
            longest = max(longest, length)
            if number > begin and (number + 1 - begin) * longest > most:
                yield slice(begin, number)
                begin, longest = number, length
        if lengths:
            yield slice(begin, len(lengths))

    def _outputs(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            if self._static is not None:
                return self._static(inputs)
            function = self._packed if len(inputs["lengths"]) > 1 else self._alone  # which has nothing to pack
            outputs = function()({name: tf.constant(x) for name, x in inputs.items()})
            return {name: x.numpy() for name, x in outputs.items()}
        except tf.errors.ResourceExhaustedError:
            raise UserError(
                f"Memory ran out for {len(inputs['lengths'])} rows of {inputs['token_ids'].shape[1]} tokens at once: "
                "lower batch_size."
            ) from None
        except tf.errors.OpError as error:
            raise UserError(f"TensorFlow cannot compute {self._source} ({reason_of(error)}).") from None


def _traced(compute: Callable[[Tensors], Tensors], specs: dict[str, tf.TensorSpec]) -> Callable[[], Any]:
    """Returns the concrete function, which is traced when it is first needed.

    TensorFlow warns of retracing if the tf.functions of several models are called.
    """
    return functools.cache(tf.function(compute, input_signature=[specs], autograph=False).get_concrete_function)


def _float32(outputs: Tensors) -> Tensors:
    return {name: tf.cast(x, tf.float32) for name, x in outputs.items()}

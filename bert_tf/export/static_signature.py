"""A signature as GPUs and TPUs compute it: texts packed on the host, the model whole in XLA, in few static shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bert_tf.heads.base.staged_signature import Stages
from bert_tf.model.static_rows import StaticRows
from bert_tf.model.static_shapes import POOLED_TEXTS, TOKEN_TEXTS, WIDTHS, Ladder, Shape
from bert_tf.runtime import backend
from bert_tf.runtime.lazy import tf

ONLY_TEXTS = {"token_ids", "segment_ids", "lengths"}


class StaticSignature:
    """A signature on strings that takes the place of one made by `heads.base.staged_signature`, with the same outputs.

    Attributes:
        structured_input_signature, structured_outputs: of the signature.
        ladder: the shapes that are compiled, each when it is needed first, or by `compile_all`.
    """

    def __init__(self, function: Any, stages: Stages, owner: Any = None) -> None:
        """function: a signature of a SavedModel, or a tf.function. owner: keeps its variables alive."""
        function = function.get_concrete_function() if hasattr(function, "get_concrete_function") else function
        self.structured_input_signature = function.structured_input_signature
        self.structured_outputs = function.structured_outputs
        self._stages, self._owner = stages, owner
        rows, _ = _outputs_of(stages.read)
        is_pooled = set(rows) == ONLY_TEXTS and all(
            x.shape[1:].is_fully_defined() for x in tf.nest.flatten(self.structured_outputs)
        )
        longest = rows["token_ids"].shape[1] or WIDTHS[-1]
        self.ladder = Ladder(longest, texts_per_row=POOLED_TEXTS if is_pooled else TOKEN_TEXTS)
        self._rows = StaticRows(lambda rows: stages.compute(rows), self.ladder)

    def __call__(self, **strings: tf.Tensor) -> dict[str, tf.Tensor]:
        """The outputs for strings, as those of the signature."""
        with tf.device(backend.HOST):
            rows, rest = self._stages.read(**strings)
        numbers = self._rows({name: x.numpy() for name, x in rows.items()})
        with tf.device(backend.HOST):
            return self._stages.answer({name: tf.constant(x) for name, x in numbers.items()}, rest)

    def compile_all(self) -> Iterator[Shape]:
        """Compiles every shape of the ladder; yields each when it is done."""
        positional, named = self.structured_input_signature
        strings = {x.name: tf.fill([1, *x.shape[1:]], "") for x in [*positional, *named.values()]}
        with tf.device(backend.HOST):
            rows, _ = self._stages.read(**strings)
        arrays = {name: x.numpy() for name, x in rows.items()}
        for shape in self.ladder.shapes():
            self._rows.compile(arrays, shape)
            yield shape


def static_signatures(
    functions: Mapping[str, Any], stages: Mapping[str, Mapping[str, Any]], jit_compile: str, owner: Any = None
) -> dict[str, Any]:
    """{name: signature}, of those with stages a StaticSignature where XLA compiles; the others as they are.

    stages: {name: what `Stages` has}, as an export holds them. jit_compile: "true", "false", or "auto": on GPUs.
    """
    if not backend.should_jit(jit_compile):
        return dict(functions)
    return {
        name: StaticSignature(function, Stages(**stages[name]), owner) if name in stages else function
        for name, function in functions.items()
    }


def _outputs_of(function: Any) -> Any:
    """The structured outputs of a function that a SavedModel holds, or of a tf.function with an input signature."""
    saved = getattr(function, "concrete_functions", None)
    return (saved[0] if saved else function.get_concrete_function()).structured_outputs

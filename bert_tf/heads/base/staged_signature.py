"""A signature on strings in three parts, so that a host can pack the texts and a device compute static shapes.

R rows of the encoder.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.runtime import backend
from bert_tf.runtime.lazy import tf

Tensors = dict[str, "tf.Tensor"]
OfRows = Callable[[Tensors], Tensors]


class Stages(NamedTuple):
    """The parts of a signature, as functions of TensorFlow.

    read(strings) -> (rows, rest): inputs of the model {name: [R, ...]} of static width, and what `answer` needs.
    compute(rows) -> numbers {name: [R, ...]}, of rows with "row_sources" and "row_targets"; nothing in it needs a host.
    answer(numbers, rest) -> the outputs of the signature.
    """

    read: Any
    compute: Any
    answer: Any


def staged_signature(
    read: Callable[..., tuple[Tensors, Tensors]],
    compute: OfRows,
    answer: Callable[[Tensors, Tensors], Tensors],
    input_signature: Sequence[tf.TensorSpec],
    *,
    is_static: bool = True,
    in_blocks: Callable[[OfRows, Tensors], Tensors] | None = None,
) -> Any:
    """A tf.function of strings, answer(compute(read(strings))), with the parts as its attribute `stages`.

    Called by itself it packs in the graph, in shapes that are known at run time only.
    is_static: whether `compute` can take rows as `PackingSpec.plan` returns them; otherwise there are no `stages`, and
    it gets the rows as they are read.
    in_blocks(of_rows, rows): applies a function to some rows at a time, so that memory does not depend on their number.
    """
    names, compute = [spec.name for spec in input_signature], backend.only_values()(compute)
    if not is_static:
        at_once = in_blocks or (lambda of_rows, rows: of_rows(rows))

        def in_one(*strings: tf.Tensor) -> Tensors:
            rows, rest = read(*strings)
            return answer(at_once(compute, rows), rest)

        return tf.function(with_parameters(in_one, names), input_signature=input_signature, autograph=False)
    stages = Stages(
        tf.function(with_parameters(read, names), input_signature=input_signature, autograph=False),
        tf.function(compute, autograph=False),
        tf.function(answer, autograph=False),
    )

    def of_rows(rows: Tensors) -> Tensors:
        rows = PackingSpec.dynamic().plan(rows)
        if tf.executing_eagerly():
            return compute(rows)
        specs = {name: tf.TensorSpec([None] * x.shape.rank, x.dtype, name) for name, x in rows.items()}
        return stages.compute.get_concrete_function(specs)(rows)

    def signature(*strings: tf.Tensor) -> Tensors:
        if tf.executing_eagerly():  # when an export is compared: a graph takes longer to build than a few texts
            rows, rest = read(*strings)
            return answer(in_blocks(of_rows, rows) if in_blocks else of_rows(rows), rest)
        rows, rest = stages.read(*strings)
        numbers = in_blocks(of_rows, rows) if in_blocks else of_rows(rows)
        specs = _named_specs(numbers, "numbers"), _named_specs(rest, "rest")
        return stages.answer.get_concrete_function(*specs)(numbers, rest)

    function = tf.function(with_parameters(signature, names), input_signature=input_signature, autograph=False)
    function.stages = stages
    return function


def _named_specs(tensors: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Specs of `tensors`. Without names a function would be traced again when saved, and be in the file twice."""
    return {
        name: tf.TensorSpec.from_tensor(x, f"{part}_{name}") if isinstance(x, tf.Tensor) else tf.type_spec_from_value(x)
        for name, x in tensors.items()
    }


def stages_of(signatures: Mapping[str, Any]) -> dict[str, Stages]:
    """{name: stages} of those signatures that `staged_signature` made."""
    return {name: function.stages for name, function in signatures.items() if hasattr(function, "stages")}


def with_parameters(function: Callable, names: Iterable[str]) -> Callable:
    """A function of positional arguments as one whose parameters have these names."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])

    @functools.wraps(function)
    def named(*args: tf.Tensor, **kwargs: tf.Tensor) -> Any:
        return function(*signature.bind(*args, **kwargs).args)

    named.__signature__ = signature  # type: ignore
    return named

"""A signature on strings: strings to encoder rows, rows to numbers, numbers to answers, all in the graph.

R rows of the encoder.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bert_tf.runtime import backend
from bert_tf.runtime.lazy import tf

Tensors = dict[str, "tf.Tensor"]
OfRows = Callable[[Tensors], Tensors]


def string_signature(
    read: Callable[..., tuple[Tensors, Tensors]],
    compute: OfRows,
    answer: Callable[[Tensors, Tensors], Tensors],
    input_signature: Sequence[tf.TensorSpec],
    *,
    in_blocks: Callable[[OfRows, Tensors], Tensors] | None = None,
) -> Any:
    """A tf.function of strings, answer(compute(read(strings))).

    read(strings) -> (rows, rest): inputs of the model {name: [R, ...]}, and what `answer` needs.
    compute(rows) -> numbers {name: [R, ...]}.
    answer(numbers, rest) -> the outputs.
    in_blocks(of_rows, rows): applies a function to some rows at a time, so that memory does not depend on their number.
    """
    names, of_rows = [spec.name for spec in input_signature], backend.only_values()(compute)

    def signature(*strings: tf.Tensor) -> Tensors:
        rows, rest = read(*strings)
        return answer(in_blocks(of_rows, rows) if in_blocks else of_rows(rows), rest)

    return tf.function(with_parameters(signature, names), input_signature=input_signature, autograph=False)


def with_parameters(function: Callable, names: Iterable[str]) -> Callable:
    """Wraps a function of positional arguments in one with these parameter names."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])

    @functools.wraps(function)
    def named(*args: tf.Tensor, **kwargs: tf.Tensor) -> Any:
        return function(*signature.bind(*args, **kwargs).args)

    named.__signature__ = signature  # type: ignore
    return named

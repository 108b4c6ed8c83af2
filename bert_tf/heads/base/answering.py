"""From the outputs of a model for an example to the example with its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.data.examples import Example
from bert_tf.heads.base.answers import Answered, BaseAnswer, RawOutputs
from bert_tf.heads.base.head import Head


def answered(
    example: Example,
    outputs: Mapping[str, Any],
    *,
    head: type[Head] | None,
    labels: Sequence[str],
    inputs: Mapping[str, int | None],
) -> Answered:
    """The example with the answer of an export, or of a live model.

    Args:
        example: its texts are in the order of `inputs`.
        outputs: {name: array} of this example, as the signature names them.
        head: of the model; None keeps the outputs as they are.
        labels: the names of the classes, () if the export does not name them.
        inputs: as `loaded_model.Export` has them.
    """
    answer = answer_of(outputs, head, labels)
    return Answered(id=example.id, texts=texts_by_input(example, inputs), answer=answer, row=example.row)


def answer_of(outputs: Mapping[str, Any], head: type[Head] | None, labels: Sequence[str]) -> BaseAnswer:
    """The answer alone; arguments as of `answered`."""
    return head.answer(outputs, labels) if head else RawOutputs.of(outputs)


def texts_by_input(example: Example, inputs: Mapping[str, int | None]) -> dict[str, Any]:
    """{input of the export: text, or list of texts}."""
    texts = iter(example.texts)
    return {name: [next(texts) for _ in range(count)] if count else next(texts) for name, count in inputs.items()}

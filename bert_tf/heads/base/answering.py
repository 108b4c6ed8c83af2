"""An example with its answer, made of the outputs of a model, shown as JSON, in a table, in lines."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.data.examples import Example
from bert_tf.heads.base.answers import BaseAnswer, RawOutputs
from bert_tf.heads.base.head import Head


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answered:
    """An example with its answer.

    Attributes:
        id: of the example.
        texts: {input: text, or list of choices}.
        answer: of the model.
        row: all columns of its row of a table, in their order, which then stand for id and texts; None without one.
        truth: the label that it has, as the label column writes it; None if it is not known.
        loss: of the example; None if it is not computed.
    """

    id: str
    texts: Mapping[str, Any]
    answer: BaseAnswer
    row: Mapping[str, Any] | None = None
    truth: str | None = None
    loss: float | None = None

    def fields(self) -> dict[str, Any]:
        """{name: plain value}, as JSON has it."""
        answer = {**self.answer.fields(), **self._known()}
        return _renamed({"id": self.id, **self.texts} if self.row is None else self.row, answer) | answer

    def columns(self) -> dict[str, Any]:
        """{name: value} of a row of a table: its own columns, then the answer; texts of no table come last."""
        if self.row is not None:
            answer = {**self.answer.columns(), **self._known()}
            return _renamed(self.row, answer) | answer
        texts: dict[str, Any] = {}
        for name, value in self.texts.items():
            choices = value if isinstance(value, list) else []
            texts |= {f"{name.removesuffix('s')} {i}": text for i, text in enumerate(choices)} or {name: value}
        first, *others = self.answer.columns().items()
        answer = {"id": self.id, **dict([first]), **self._known(), **dict(others)}
        return answer | _renamed(texts, answer)

    def line(self) -> str:
        """One line: the answer, its probability, and the texts."""
        texts = [text for value in self.texts.values() for text in ([value] if isinstance(value, str) else value)]
        return "\t".join(" ".join(part.split()) for part in [*self.answer.cells(), *texts]) + "\n"

    def details(self) -> str:
        """Several lines: the answer with all that is known of it."""
        lines = list(self.answer.lines())
        if not lines and self.answer.headline is None:
            return self.line()
        return "".join(f"{each}\n" for each in ([] if self.answer.headline is None else [self.answer.headline]) + lines)

    def _known(self) -> dict[str, Any]:
        known = {"truth": self.truth, "loss": self.loss}
        return {name: value for name, value in known.items() if value is not None}


def _renamed(given: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The given columns; one whose name the answer has too gets a free name: "label (file)", "label (file 2)"."""
    taken = {*answer, *given}
    columns = {}
    for name, value in given.items():
        if name in answer:
            names = itertools.chain([f"{name} (file)"], (f"{name} (file {number})" for number in itertools.count(2)))
            taken.add(name := next(free for free in names if free not in taken))
        columns[name] = value
    return columns


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

"""An example with its answer, built from model outputs, shown as JSON, as a table row, or as lines."""

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
        id: the example's id.
        texts: {input: text, or list of choices}.
        answer: the model's answer.
        row: all columns of its table row, in order, used instead of id and texts; None without a table.
        truth: its true label, as written in the label column; None if unknown.
        loss: the example's loss; None if not computed.
    """

    id: str
    texts: Mapping[str, Any]
    answer: BaseAnswer
    row: Mapping[str, Any] | None = None
    truth: str | None = None
    loss: float | None = None

    def fields(self) -> dict[str, Any]:
        """{name: plain value}, as in JSON."""
        answer = {**self.answer.fields(), **self._known()}
        return _renamed({"id": self.id, **self.texts} if self.row is None else self.row, answer) | answer

    def columns(self) -> dict[str, Any]:
        """{name: value} of a table row: its own columns, then the answer; texts not from a table come last."""
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
        """Several lines: the answer with all its details."""
        lines = list(self.answer.lines())
        if not lines and self.answer.headline is None:
            return self.line()
        return "".join(f"{each}\n" for each in ([] if self.answer.headline is None else [self.answer.headline]) + lines)

    def _known(self) -> dict[str, Any]:
        known = {"truth": self.truth, "loss": self.loss}
        return {name: value for name, value in known.items() if value is not None}


def _renamed(given: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The given columns; one that the answer has too is renamed: "label (file)", "label (file 2)"."""
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
        outputs: {name: array} for this example, named as in the signature.
        head: the model's head; None keeps the outputs as they are.
        labels: class names, () if the export does not name them.
        inputs: inputs of the export, see `text_function.TextFunction`.
    """
    answer = answer_of(outputs, head, labels)
    return Answered(id=example.id, texts=texts_by_input(example, inputs), answer=answer, row=example.row)


def answer_of(outputs: Mapping[str, Any], head: type[Head] | None, labels: Sequence[str]) -> BaseAnswer:
    """Only the answer; arguments as for `answered`."""
    return head.answer(outputs, labels) if head else RawOutputs.of(outputs)


def texts_by_input(example: Example, inputs: Mapping[str, int | None]) -> dict[str, Any]:
    """{input of the export: text, or list of texts}."""
    texts = iter(example.texts)
    return {name: [next(texts) for _ in range(count)] if count else next(texts) for name, count in inputs.items()}

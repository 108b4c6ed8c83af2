"""Model answers, a dataclass for each kind, shown as JSON, as a table row, or as lines.

K tokens for a mask or answers to a question.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_tf.runtime import json_files

MAX_LINES = 10  # for a single answer
SHOWN_TOKENS = 3  # for each mask, in one line
NO_ANSWER, NO_MASK = "no answer", "no [MASK] in the text"


class Share(float):
    """A probability in a table, printed with six decimals."""

    def __str__(self) -> str:
        return f"{self:.6f}"


class BaseAnswer(abc.ABC):
    """The answer of a model for one example."""

    @property
    @abc.abstractmethod
    def shown(self) -> str:
        """The answer in a few words."""

    @abc.abstractmethod
    def fields(self) -> dict[str, Any]:
        """{name: plain value}, as in JSON."""

    def columns(self) -> dict[str, Any]:
        """{name: value} of a table row."""
        return self.fields()

    def cells(self) -> list[str]:
        """The cells of its line, before the text."""
        return [self.shown]

    def lines(self) -> Iterator[str]:
        """Yields lines with all details, best first; none if there is only the label."""
        yield from ()

    @property
    def headline(self) -> str | None:
        """The line above `lines`; None if they include it."""
        return self.shown or "none"

    def numbers(self) -> list[float]:
        """Line of test_results.tsv, as in google-research/bert."""
        return []


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prediction(BaseAnswer):
    """The prediction for a text, a pair, or a text and its choices.

    Attributes:
        label: the predicted class; for multi-label, the positive labels joined by commas; for a number, its digits.
        probabilities: {label: probability}, {} for a number.
        value: the number, None for classes.
        is_named: whether labels are names; otherwise they are output numbers.

    Example:
        >>> Prediction(label="good", probabilities={"bad": 0.1, "good": 0.9}).cells()
        ['good', '90.0%']
    """

    label: str
    probabilities: Mapping[str, float] = dataclasses.field(default_factory=dict)
    value: float | None = None
    is_named: bool = dataclasses.field(default=True, repr=False)

    @property
    def shown(self) -> str:
        return self.label

    def fields(self) -> dict[str, Any]:
        """{"label"} with {"value"} or {"probabilities"}: by label, or a list if the export does not name labels."""
        if self.value is not None:
            return {"label": self.label, "value": self.value}
        probabilities = dict(self.probabilities) if self.is_named else list(self.probabilities.values())
        return {"label": self.label, "probabilities": probabilities}

    def columns(self) -> dict[str, Any]:
        """{"label"} with {"value"}, or a column for each label."""
        if self.value is not None:
            return {"label": self.label, "value": self.value}
        shares = {f"probability {label}": Share(value) for label, value in self.probabilities.items()}
        return {"label": self.label, **shares}

    def cells(self) -> list[str]:
        """The label, and its probability if it is one of the classes."""
        return [self.label, *([f"{self.probabilities[self.label]:.1%}"] if self.label in self.probabilities else [])]

    def lines(self) -> Iterator[str]:
        best = sorted(self.probabilities.items(), key=lambda pair: -pair[1])[:MAX_LINES]
        return (f"  {value:6.1%}  {name}" for name, value in best)

    def numbers(self) -> list[float]:
        return list(self.probabilities.values()) if self.value is None else [self.value]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Token:
    """A candidate token for [MASK], with its probability."""

    token: str
    probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilledMasks(BaseAnswer):
    """The most probable tokens for each [MASK] of a text, best first.

    Example:
        >>> FilledMasks(masks=[[Token(token="cat", probability=0.6)]]).shown
        'cat'
    """

    masks: list[list[Token]]

    @property
    def shown(self) -> str:
        return " ".join(mask[0].token for mask in self.masks)

    def fields(self) -> dict[str, Any]:
        """{"label", "answers": [[{"piece", "score"}] for each mask]}."""
        masks = [[{"piece": each.token, "score": each.probability} for each in mask] for mask in self.masks]
        return {"label": self.shown, "answers": masks}

    def columns(self) -> dict[str, Any]:
        """{"label", "scores"}: the best tokens and their probabilities."""
        return {"label": self.shown, "scores": " ".join(f"{mask[0].probability:.6f}" for mask in self.masks)}

    def cells(self) -> list[str]:
        masks = [
            ", ".join(f"{each.token} {each.probability:.0%}" for each in mask[:SHOWN_TOKENS]) for mask in self.masks
        ]
        return ["; ".join(masks) or NO_MASK]

    def lines(self) -> Iterator[str]:
        return (f"{each.probability:6.1%}  {each.token}" for mask in self.masks for each in mask)

    headline = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entity:
    """A tagged part of a text: text[start:end], its label, and the mean probability of its words' tags."""

    text: str
    label: str
    start: int
    end: int
    probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tag:
    """The tag of a word, with its probability."""

    word: str
    tag: str
    probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entities(BaseAnswer):
    """The entities of a text, in order; for a sentence split into words also the tag of each word.

    Example:
        >>> Entities(entities=[Entity(text="Ulm", label="LOC", start=0, end=3, probability=0.9)]).shown
        'Ulm LOC'
    """

    entities: list[Entity]
    words: list[Tag] | None = None

    @property
    def shown(self) -> str:
        return ", ".join(f"{each.text} {each.label}" for each in self.entities)

    def fields(self) -> dict[str, Any]:
        """{"label", "entities"}, with {"words", "tags", "scores"} of the words of a sentence."""
        entities = [
            {"text": each.text, "label": each.label, "start": each.start, "end": each.end, "score": each.probability}
            for each in self.entities
        ]
        words = self.words or ()
        of_words = {
            "words": [each.word for each in words],
            "tags": [each.tag for each in words],
            "scores": [each.probability for each in words],
        }
        return {"label": self.shown, **(of_words if self.words is not None else {}), "entities": entities}

    def columns(self) -> dict[str, Any]:
        """{"label"}, with {"tags", "scores"} of words, joined by spaces."""
        if self.words is None:
            return {"label": self.shown}
        scores = " ".join(str(each.probability) for each in self.words)
        return {"label": self.shown, "tags": " ".join(each.tag for each in self.words), "scores": scores}

    def lines(self) -> Iterator[str]:
        return (
            f"{each.probability:6.1%}  {each.label}  {each.text}  {each.start}-{each.end}" for each in self.entities
        )

    @property
    def headline(self) -> str | None:
        return None if self.entities else "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """A part of a text that may answer a question: text[start:end]; "" for "no answer"."""

    text: str
    start: int
    end: int
    probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer(Span, BaseAnswer):
    """The best answer to a question.

    Attributes:
        n_best: all candidates, best first; probabilities sum to 1.
        null_score: the sum of the scores of [CLS]; None if the export does not have it.

    Example:
        >>> Answer(text="Ulm", start=8, end=11, probability=0.9, n_best=[]).cells()
        ['Ulm', '90.0%']
    """

    n_best: Sequence[Span]
    null_score: float | None = None

    @property
    def shown(self) -> str:
        return self.text or NO_ANSWER

    def fields(self) -> dict[str, Any]:
        """{"answer", "start", "end", "score", "null_score", "n_best"}."""
        return {**self._own(), "n_best": [dataclasses.asdict(each) for each in self.n_best]}

    def columns(self) -> dict[str, Any]:
        return self._own()

    def _own(self) -> dict[str, Any]:
        own = {"answer": self.text, "start": self.start, "end": self.end, "score": self.probability}
        return own | {"null_score": self.null_score}

    def cells(self) -> list[str]:
        return [self.shown, f"{self.probability:.1%}"]

    def lines(self) -> Iterator[str]:
        for each in self.n_best[:MAX_LINES]:
            yield f"{each.probability:6.1%}  {' '.join(each.text.split()) or NO_ANSWER}  {each.start}-{each.end}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Similarity(BaseAnswer):
    """Similarity of two texts: the cosine of their vectors."""

    similarity: float

    @property
    def shown(self) -> str:
        return f"{self.similarity:.3f}"

    def fields(self) -> dict[str, Any]:
        """{"label", "similarity"}."""
        return {"label": self.shown, "similarity": self.similarity}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawOutputs(BaseAnswer):
    """The outputs of an export of any other kind, unchanged."""

    outputs: Mapping[str, Any]

    @classmethod
    def of(cls, outputs: Mapping[str, Any]) -> RawOutputs:
        """Arrays as lists, bytes as text."""
        return cls(outputs={name: json_files.plain(value) for name, value in outputs.items()})

    @property
    def shown(self) -> str:
        return str(dict(self.outputs))

    def fields(self) -> dict[str, Any]:
        return dict(self.outputs)

    headline = None

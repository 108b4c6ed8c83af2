"""What the methods of a loaded model return."""

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prediction:
    """The prediction for a text, a pair, or a text and its choices.

    Attributes:
        label: the predicted class; of several labels those that hold, joined by commas; of a number its digits.
        probabilities: {label: probability}, {} for a number.
        value: the number, None for classes.
    """

    label: str
    probabilities: Mapping[str, float] = dataclasses.field(default_factory=dict)
    value: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Token:
    """A token that may stand for [MASK], with its probability."""

    token: str
    probability: float


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
class Attribution:
    """What the tokens of a text contributed to the logit of its prediction.

    Attributes:
        tokens: with [CLS] and [SEP].
        scores: of each token: how much it changes the logit, compared with [MASK] in its place.
        output: the logit that was predicted from.
        baseline: the logit with [MASK] for every token; the scores sum to output - baseline.
        target: the class, or the id of the token for [MASK], that the logit is of; 0 for a number.
    """

    tokens: Sequence[str]
    scores: Sequence[float]
    output: float
    baseline: float
    target: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """A part of a text that may answer a question: text[start:end]; "" for "no answer"."""

    text: str
    start: int
    end: int
    probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer(Span):
    """The best answer to a question.

    Attributes:
        n_best: all candidates, best first; probabilities sum to 1.
    """

    n_best: Sequence[Span]

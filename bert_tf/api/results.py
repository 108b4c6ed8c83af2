"""Results of `attribute` and `rank` of a loaded model; answers are in `bert_tf.heads.base.answers`."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attribution:
    """Contributions of the tokens of a text to the logit of its prediction.

    Attributes:
        tokens: with [CLS] and [SEP].
        scores: of each token: how much it changes the logit, compared with [MASK] in its place.
        output: the logit that was predicted from.
        baseline: the logit with [MASK] for every token; the scores sum to output - baseline.
        target: the label, or the id of the token for [MASK], that the logit is of; 0 for a number.
    """

    tokens: Sequence[str]
    scores: Sequence[float]
    output: float
    baseline: float
    target: int | str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranked:
    """A text as an answer to a query.

    Attributes:
        number: of the text among those given, from 0.
        score: how well it answers, as the model says: higher is better.
        text: the text.
    """

    number: int
    score: float
    text: str

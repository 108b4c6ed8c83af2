"""Results of a loaded model's `attribute` and `rank`; answers are in `bert_tf.heads.base.answers`."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attribution:
    """Contributions of a text's tokens to the logit of its prediction.

    Attributes:
        tokens: the tokens, including [CLS] and [SEP].
        scores: how much each token changes the logit, compared with [MASK] in its place.
        output: the logit of the prediction.
        baseline: the logit with [MASK] for every token; the scores sum to output - baseline.
        target: the label that the logit belongs to, or the token id for [MASK]; 0 for a number.
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
        number: the text's position in the input, from 0.
        score: the model's relevance score; higher is better.
        text: the text.
    """

    number: int
    score: float
    text: str

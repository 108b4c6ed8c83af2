"""Checkpoint: what a checkpoint of any format holds."""

import dataclasses
from typing import TYPE_CHECKING

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError

if TYPE_CHECKING:
    import numpy as np

POOLINGS = ("cls", "mean", "max", "mean_sqrt_len", "weighted_mean", "last")  # of token vectors to one vector of a text


@dataclasses.dataclass(frozen=True)
class SentenceVectors:
    """How the vectors of the tokens of a text become one.

    Attributes:
        pooling: one of our names of poolings, or what the folder has instead ("Dense", "cls and max").
        normalize: whether vectors are scaled to length 1.
    """

    pooling: str
    normalize: bool

    @property
    def is_known(self) -> bool:
        """Whether this package has the pooling."""
        return self.pooling in POOLINGS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The content of a checkpoint of any format; None for what its files do not say.

    Attributes:
        config: the configuration of the encoder.
        weights: {canonical name: float32 array}.
        vocabulary: the tokens; the index is the id.
        lower_case: whether the tokenizer lower-cases.
        special_tokens: those that the tokenizer recognizes in texts; () for none, as the original.
        added_tokens: special tokens that the vocabulary has besides the five, as its files say.
        labels: names of the outputs of the head, in their order.
        kind: the kind of head: "class", "several" (any number of labels), "number", "choice", "span" or "tags" (a
            label for each word).
        sentence_vectors: how the model makes vectors of whole texts.
    """

    config: BertConfig
    weights: "dict[str, np.ndarray]"
    vocabulary: list[str] | None = None
    lower_case: bool | None = None
    special_tokens: tuple[str, ...] = ()
    added_tokens: tuple[str, ...] = ()
    labels: list[str] | None = None
    kind: str | None = None
    sentence_vectors: SentenceVectors | None = None


def expect_rows_for_tokens(checkpoint: Checkpoint, path: object) -> None:
    """Raises UserError for a vocabulary that is longer than the table of its model."""
    count, rows = len(checkpoint.vocabulary or ()), checkpoint.config.vocab_size
    if count > rows:
        raise UserError(
            f"The vocabulary of {path} has {count} tokens, but its model has vectors for {rows} (vocab_size): give the "
            "vocabulary that belongs to it, or resize the model where the tokens were added."
        )

"""Checkpoint: what a checkpoint of any format holds."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.heads.tags import Tags


@dataclasses.dataclass(frozen=True)
class VectorLayer:
    """A layer that the vectors of texts pass after the pooling.

    Attributes:
        kind: "dense", "layer_norm", or "normalize", which scales them to length 1.
        activation: of a dense layer: "identity", "tanh", "relu", "gelu", "sigmoid" or "silu".
        is_residual: whether a dense layer adds its input, or the product of it and the array "residual".
        arrays: float32 arrays: "kernel" [in, out], "bias" [out] and "residual" [in, out] of a dense layer, the latter
            two not always; "gamma" and "beta" of a layer norm.
    """

    kind: str
    activation: str = "identity"
    is_residual: bool = False
    arrays: "Mapping[str, np.ndarray]" = dataclasses.field(default_factory=dict, compare=False)

    @property
    def widths(self) -> tuple[int, int] | None:
        """Sizes of the vectors before and after it; None for any, which stays."""
        if not self.arrays:
            return None
        first, last = (
            self.arrays[name] for name in (("kernel", "kernel") if self.kind == "dense" else ("gamma", "beta"))
        )
        return len(first), last.shape[-1]


NORMALIZE = VectorLayer("normalize")


@dataclasses.dataclass(frozen=True)
class SentenceVectors:
    """Pooling of the vectors of the tokens of a text, as a folder of sentence-transformers says it.

    Attributes:
        pooling: one of POOLINGS, or several joined by "+", whose vectors are concatenated.
        normalize: whether vectors are scaled to length 1 at the end.
        layers: what they pass between the pooling and that.
        max_seq_length: tokens after which texts are truncated; None: not said.
        prompts: {name: what is put before a text}.
        default_prompt_name: of the prompt of a text if none is named; None: without one.
        include_prompt: whether the tokens of the prompt are pooled too.
        truncate_dim: how many numbers of a vector are kept, at the very end; None: all.
        similarity: of two vectors: "cosine", "dot", "euclidean" or "manhattan"; None: not said.
        unsupported: what the folder has that this package lacks, for an error; "" for nothing.
    """

    pooling: str = "mean"
    normalize: bool = False
    layers: tuple[VectorLayer, ...] = ()
    max_seq_length: int | None = None
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt_name: str | None = None
    include_prompt: bool = True
    truncate_dim: int | None = None
    similarity: str | None = None
    unsupported: str = ""

    @property
    def poolings(self) -> tuple[str, ...]:
        """The poolings whose vectors are concatenated."""
        return tuple(self.pooling.split("+"))

    def check_supported(self, path: str) -> None:
        """Raises UserError, which names the path, where vectors of texts would not be those of the folder."""
        if self.unsupported:
            raise UserError(
                f"{path} makes vectors of texts with {self.unsupported}, which is not supported: use "
                "sentence-transformers, or remove its modules.json to use the encoder alone."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The content of a checkpoint of any format, or what a model starts from; None for what its files do not say.

    Attributes:
        config: the configuration of the encoder.
        weights: {canonical name: float32 array}; {} for a model that starts from random ones.
        vocabulary: the tokens; the index is the id.
        lower_case: whether the tokenizer lower-cases.
        special_tokens: those that the tokenizer recognizes in texts; () for none, as the original.
        added_tokens: special tokens that the vocabulary has besides the five, as its files say.
        labels: names of the outputs of the head, in their order.
        kind: of its head, a name of `bert_tf.heads`.
        max_seq_length: tokens after which texts and pairs are truncated, if its files say fewer than it has positions.
        sentence_vectors: how the model makes vectors of whole texts.
        left_out: for each head of the file that this package would compute otherwise, which one and why.
    """

    config: BertConfig
    weights: "dict[str, np.ndarray]" = dataclasses.field(default_factory=dict)
    vocabulary: list[str] | None = None
    lower_case: bool | None = None
    special_tokens: tuple[str, ...] = ()
    added_tokens: tuple[str, ...] = ()
    labels: list[str] | None = None
    kind: str | None = None
    max_seq_length: int | None = None
    sentence_vectors: SentenceVectors | None = None
    left_out: tuple[str, ...] = ()

    @property
    def lowers_case(self) -> bool:
        """Returns whether the tokenizer lower-cases; unknown casing means that it does."""
        return self.lower_case is not False

    @property
    def reads_mean(self) -> bool:
        """Whether its head on whole texts reads the mean of their tokens, without a pooler."""
        is_of_texts = "classifier/kernel" in self.weights and self.kind != Tags.kind
        return is_of_texts and self.config.pooling == "mean"


def check_rows_for_tokens(checkpoint: Checkpoint, path: object) -> None:
    """Raises UserError for a vocabulary that is longer than the table of its model."""
    count, rows = len(checkpoint.vocabulary or ()), checkpoint.config.vocab_size
    if count > rows:
        raise UserError(
            f"The vocabulary of {path} has {count} tokens, but its model has vectors for {rows} (vocab_size): pass the "
            "vocabulary that belongs to it, or resize the model where the tokens were added."
        )

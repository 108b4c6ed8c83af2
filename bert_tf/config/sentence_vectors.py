"""SentenceVectors: how a model produces text embeddings."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from bert_tf.errors import UserError


@dataclasses.dataclass(frozen=True)
class VectorLayer:
    """A layer applied to text embeddings after pooling.

    Attributes:
        kind: "dense", "layer_norm", or "normalize", which scales them to length 1.
        activation: activation of a dense layer: "identity", "tanh", "relu", "gelu", "sigmoid" or "silu".
        is_residual: whether a dense layer adds its input, or its input times the array "residual".
        arrays: float32 arrays: "kernel" [in, out], "bias" [out] and "residual" [in, out] of a dense layer, the last
            two optional; "gamma" and "beta" of a layer norm.
    """

    kind: str
    activation: str = "identity"
    is_residual: bool = False
    arrays: "Mapping[str, np.ndarray]" = dataclasses.field(default_factory=dict, compare=False)

    @property
    def widths(self) -> tuple[int, int] | None:
        """Input and output sizes; None if it accepts and keeps any size."""
        if not self.arrays:
            return None
        first, last = (
            self.arrays[name] for name in (("kernel", "kernel") if self.kind == "dense" else ("gamma", "beta"))
        )
        return len(first), last.shape[-1]


NORMALIZE = VectorLayer("normalize")


@dataclasses.dataclass(frozen=True)
class SentenceVectors:
    """Pooling of token vectors into a text embedding, as specified in a sentence-transformers folder.

    Attributes:
        pooling: one of POOLINGS, or several joined by "+", whose vectors are concatenated.
        normalize: whether embeddings are scaled to length 1 at the end.
        layers: the layers between the pooling and that.
        max_seq_length: number of tokens to truncate texts to; None: not specified.
        prompts: {name: prefix of a text}.
        default_prompt_name: name of the prompt used if none is named; None: no prompt.
        include_prompt: whether the tokens of the prompt are pooled, too.
        truncate_dim: number of dimensions to keep, at the very end; None: all.
        similarity: similarity of two embeddings: "cosine", "dot", "euclidean" or "manhattan"; None: not specified.
        unsupported: features of the folder that this package lacks, for an error; "" for none.
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
        """Raises UserError, which names the path, if this package cannot reproduce the folder's embeddings."""
        if self.unsupported:
            raise UserError(
                f"{path} uses {self.unsupported} for embeddings, which is not supported: use "
                "sentence-transformers, or remove its modules.json to use only the encoder."
            )

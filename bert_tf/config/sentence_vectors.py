"""SentenceVectors: how a model makes vectors of whole texts."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from bert_tf.errors import UserError


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

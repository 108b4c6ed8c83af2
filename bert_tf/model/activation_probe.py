"""Activations of a pass through an encoder, and a perturbation of them: for adversarial training and distillation.

B rows, T positions in a row, N = B * T, D hidden size, E embedding size, H heads, K size of one head.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_tf.errors import UserError


@dataclasses.dataclass
class Probe:
    """Filled by one pass of an encoder built from BERT layers.

    Attributes:
        shows_all_tokens: whether the last layer is computed for all tokens even if few are needed.
        watch: called with the token embeddings, such as tf.GradientTape.watch.
        perturbation: [N, E], added to the token embeddings.
        token_vectors: token embeddings [N, E], before positions and segments are added.
        hidden_states: the first layer's input [N, D] and the output of each layer.
        attention: query, key and value of every layer, [B, H, T, K] each; queries are not scaled.
        texts: int32 [N], each token's text number, from 1; 0 on padding.
        mask: [B, 1, 1 or T, T], added to attention scores.
    """

    shows_all_tokens: bool = False
    watch: Callable[[tf.Tensor], Any] | None = None
    perturbation: tf.Tensor | None = None
    token_vectors: tf.Tensor | None = None
    hidden_states: list[tf.Tensor] = dataclasses.field(default_factory=list)
    attention: list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]] = dataclasses.field(default_factory=list)
    texts: tf.Tensor | None = None
    mask: tf.Tensor | None = None

    def embed(self, vectors: tf.Tensor) -> tf.Tensor:
        """Records the token embeddings [N, E] and returns them with any perturbation added."""
        if self.watch:
            self.watch(vectors)
        self.token_vectors = vectors
        return vectors if self.perturbation is None else vectors + tf.cast(self.perturbation, vectors.dtype)


def check_support(encoder: Any, purpose: str) -> None:
    """Raises UserError unless the encoder fills probes. purpose: the flag that requires it."""
    if not encoder.fills_probes:
        raise UserError(f"{purpose} requires BERT's layers, and encoder={encoder.config.encoder} has none.")

"""Activations of a pass through an encoder, and a change of them: for adversarial training and distillation.

B rows, T positions in a row, N = B * T, D hidden size, E width of the embeddings, H heads, K size of one head.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_tf.errors import UserError


@dataclasses.dataclass
class Probe:
    """Filled by one pass of an encoder made of BERT's layers.

    Attributes:
        shows_all_tokens: whether the last layer is computed for all tokens even where few are needed.
        watch: called with the vectors of the tokens, such as tf.GradientTape.watch.
        perturbation: [N, E] added to the vectors of the tokens.
        token_vectors: [N, E], before positions and segments are added.
        hidden_states: the input [N, D] of the first layer and the output of each.
        attention: query, key and value, [B, H, T, K] each, of every layer; queries are not scaled.
        texts: int32 [N], the number of the text of each token, from 1; 0 on padding.
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
        """Takes the vectors of the tokens [N, E] and returns those to go on with."""
        if self.watch:
            self.watch(vectors)
        self.token_vectors = vectors
        return vectors if self.perturbation is None else vectors + tf.cast(self.perturbation, vectors.dtype)


def check_support(encoder: Any, purpose: str) -> None:
    """Raises UserError unless the encoder fills probes. purpose: the flag that needs it."""
    if not encoder.fills_probes:
        raise UserError(f"{purpose} is for encoders of BERT's layers, and encoder={encoder.config.encoder} is none.")

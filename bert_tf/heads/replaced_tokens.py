"""Which tokens a generator has replaced (Clark et al. 2020, ELECTRA; He et al. 2023); it answers no text by itself.

B rows, T positions in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bert_tf.heads.masked_lm import MaskedLm
from bert_tf.runtime.lazy import tf


class ReplacedTokens(MaskedLm):
    """A number for each token, with the generator that replaces tokens if it is there."""

    kind, weights = "replaced_tokens", "replaced_token"
    loss_factor = 50.0  # section 3.2
    signature_inputs, signature_outputs = (), frozenset({"is_replaced"})

    @classmethod
    def model(cls, config: Any, size: int, weights: Mapping[str, Any], **options: Any) -> Any:
        from bert_tf.model import replaced_tokens

        has_generator = replaced_tokens.is_generator(config, weights)
        return (replaced_tokens.ReplacedTokenModel if has_generator else replaced_tokens.Discriminator)(config)

    @classmethod
    def pretraining_model(cls, config: Any, dtype: Any = None) -> Any:
        """With the generator."""
        from bert_tf.model import replaced_tokens

        return replaced_tokens.ReplacedTokenModel(config, dtype=dtype)

    @classmethod
    def loss_weights(cls, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """1 for a token, 0 for padding, [B, T]."""
        return tf.sequence_mask(batch["lengths"], batch["token_ids"].shape[1], tf.float32)

    @classmethod
    def metrics(cls, outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]) -> dict[str, Any]:
        logits, labels = outputs["replaced_token_logits"], outputs["replaced_token_labels"]
        used = cls.loss_weights(batch)[:, : tf.shape(logits)[1]]  # with packing, up to the longest row
        is_found = tf.cast(tf.equal(logits > 0, labels > 0), tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        return {"replaced_token_loss": (losses, used), "replaced_token_accuracy": (is_found, used)}


HEAD = ReplacedTokens

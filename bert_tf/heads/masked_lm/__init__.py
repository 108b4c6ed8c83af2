"""The tokens that [MASK] stands for (Devlin et al. 2018, section 3.1, task 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from bert_tf.heads.base.answers import FilledMasks, Token
from bert_tf.heads.base.head import Head, Outputs, as_text
from bert_tf.runtime.lazy import tf


class MaskedLm(Head):
    """Predicts masked tokens by the table of word embeddings."""

    kind = weights = "masked_lm"
    model_class = "Pretrainer"
    labels_name = "masked_lm_ids"
    signature_inputs: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"text"}),)
    signature_outputs = frozenset({"pieces", "scores"})

    # Pre-training; `labels_name` of a batch are the targets

    @classmethod
    def pretraining_model(cls, config: Any, dtype: Any = None) -> Any:
        """The Keras model that is trained."""
        from bert_tf.model import heads

        return heads.Pretrainer(config, dtype=dtype)

    @classmethod
    def loss_weights(cls, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """1 for what is predicted, 0 for padding: [B, P] of positions, or [B]."""
        return batch[f"{cls.kind}_weights"]

    @classmethod
    def metrics(cls, outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]) -> dict[str, Any]:
        """{"NAME_loss", "NAME_accuracy": (values, weights)}: negative log-likelihood, and whether the best is right."""
        logits, labels, weights = outputs[f"{cls.kind}_logits"], batch[cls.labels_name], cls.loss_weights(batch)
        is_right = tf.cast(tf.equal(tf.argmax(logits, -1, tf.int32), labels), tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return {f"{cls.weights}_loss": (losses, weights), f"{cls.weights}_accuracy": (is_right, weights)}

    @classmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> FilledMasks:
        """From "pieces" and "scores" [M, K], best first, with padding after the masks of the text."""
        masks = [
            [Token(token=as_text(piece), probability=float(score)) for piece, score in zip(*mask, strict=True)]
            for mask in zip(outputs["pieces"], outputs["scores"], strict=True)
        ]
        return FilledMasks(masks=[mask for mask in masks if mask[0].token])


HEAD = MaskedLm

"""ReplacedTokenTask: the pre-training of ELECTRA (Clark et al. 2020).

B rows, T positions in a row, P masked positions of a row.
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model.replaced_tokens import ReplacedTokenModel
from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask
from bert_tf.training.task import Objective

WEIGHT = 50.0  # of the loss of the discriminator (section 3.2)


class ReplacedTokenTask(PretrainingTask):
    """Masked LM by a generator, and replaced token detection by the encoder, on the same rows."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.name = "pretraining/replaced_tokens"
        self.objectives = {**self.objectives, "replaced_token_loss": Objective(factor=WEIGHT)}

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        """A ReplacedTokenModel."""
        return ReplacedTokenModel(config, dtype=dtype)

    def loss_weights(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """1 for a predicted position [B, P], or a token [B, T]; 0 for padding."""
        tokens = tf.sequence_mask(batch["lengths"], batch["token_ids"].shape[1], tf.float32)
        return {"masked_lm_loss": batch["masked_lm_weights"], "replaced_token_loss": tokens}

    def metrics(self, outputs: Any, batch: Mapping[str, tf.Tensor]) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """Loss (negative log-likelihood) and accuracy of both models, (values, weights) [B, P] or [B, T]."""
        weights, label = self.loss_weights(batch), batch["masked_lm_ids"]
        logits, replaced = outputs["masked_lm_logits"], outputs["replaced_token_logits"]
        labels = outputs["replaced_token_labels"]
        used = weights["replaced_token_loss"][:, : tf.shape(replaced)[1]]  # with packing, up to the longest row
        is_right = tf.equal(tf.argmax(logits, -1, tf.int32), label)
        is_found = tf.equal(replaced > 0, labels > 0)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits)
        return {
            "masked_lm_loss": (losses, weights["masked_lm_loss"]),
            "replaced_token_loss": (tf.nn.sigmoid_cross_entropy_with_logits(labels, replaced), used),
            "masked_lm_accuracy": (tf.cast(is_right, tf.float32), weights["masked_lm_loss"]),
            "replaced_token_accuracy": (tf.cast(is_found, tf.float32), used),
        }

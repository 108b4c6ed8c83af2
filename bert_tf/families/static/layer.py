"""Token embeddings without context, a baseline that shows the benefit of context.

B rows, T positions in a row, D hidden size.
"""

from collections.abc import Mapping
from typing import Any, Unpack

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model.base_encoder import Asked, BaseEncoder
from bert_tf.model.layers import ConfiguredLayer


class Table(ConfiguredLayer):
    """The frozen token embeddings [V, D]."""

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self.token_table = self.new_table("token_table", self.config.vocab_size)
        self.token_table.trainable = False
        self.built = True


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BaseEncoder):
    """The frozen embedding of each token, from a BERT checkpoint."""

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self.embeddings = Table(self.config, dtype=self.dtype_policy)
        self.pooler = self.new_dense(self.config.hidden_size, self.config.hidden_size, "tanh")
        self.built = True

    @property
    def token_table(self) -> tf.Tensor:
        """The word embeddings [V, D], in the compute dtype."""
        return tf.cast(self.embeddings.token_table.value, self.compute_dtype)

    def encode(self, inputs: Mapping[str, tf.Tensor], **asked: Unpack[Asked]) -> dict[str, Any]:
        """Like BertEncoder with one text per row; "pooled" is computed from the mean over a text."""
        inputs = asked["packing"].trim(inputs) if asked["packing"] else inputs
        tokens = tf.gather(self.token_table, inputs["token_ids"])  # [B, T, D]
        used = tf.sequence_mask(inputs["lengths"], tf.shape(tokens)[1], tokens.dtype)[:, :, None]
        if "text_mask" in inputs:
            used *= tf.cast(inputs["text_mask"], tokens.dtype)[:, :, None]
        mean = tf.reduce_sum(tokens * used, 1) / tf.maximum(tf.reduce_sum(used, 1), 1)
        outputs = {"tokens": tokens, "pooled": self.pooler(mean)}
        if asked["positions"] is not None:
            outputs["tokens_at"] = tf.gather(tokens, asked["positions"], batch_dims=1)
        return outputs | ({"hidden_states": (tokens,)} if asked["return_hidden_states"] else {})

"""Word-piece embeddings without context: what BERT knows of a piece whatever stands around it.

B rows, T slots in a row, D hidden size.
"""

import keras
import tensorflow as tf

from bert_tf.model.layers import BatchLayout, ConfiguredLayer


class Table(ConfiguredLayer):
    """The word-piece embeddings [V, D], which are not trained."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        self.token_table = self.new_table("token_table", self.config.vocab_size)
        self.token_table.trainable = False
        self.built = True


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(ConfiguredLayer):
    """Gives each piece its embedding, taken from the checkpoint of a BERT and left as it is."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        self.embeddings = Table(self.config, dtype=self.dtype_policy)
        self.pooler = self.new_dense(self.config.hidden_size, self.config.hidden_size, "tanh")
        self.built = True

    @property
    def token_table(self):
        """The word embeddings [V, D], in the precision of the computation."""
        return tf.cast(self.embeddings.token_table.value, self.compute_dtype)

    def layout(self, inputs, seed=None):
        """Says how the texts of `inputs` lie in their rows."""
        slots = tf.shape(inputs["token_ids"])[1]
        return BatchLayout.padded(inputs["lengths"], slots, heads=1, dtype=self.compute_dtype, seed=seed)

    def call(self, inputs, seed=None, places=None, return_hidden_states=False, return_attention=False):
        """As BertEncoder with one text a row; "pooled" is made of the mean over a text."""
        tokens = tf.gather(self.token_table, inputs["token_ids"])  # [B, T, D]
        used = tf.sequence_mask(inputs["lengths"], tf.shape(tokens)[1], tokens.dtype)[:, :, None]
        mean = tf.reduce_sum(tokens * used, 1) / tf.maximum(tf.reduce_sum(used, 1), 1)
        outputs = {"tokens": tokens, "pooled": self.pooler(mean)}
        if places is not None:
            outputs["tokens_at"] = tf.gather(tokens, places, batch_dims=1)
        return outputs | ({"hidden_states": (tokens,)} if return_hidden_states else {})

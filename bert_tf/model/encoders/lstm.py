"""Two LSTM language models, one from the left and one from the right, whose states are features: ELMo's idea.

B rows, T slots in a row, D hidden size, L layers. Follows Peters et al. 2018 ("Deep contextualized word
representations"), on word pieces instead of characters; as there, the directions never see each other.
"""

import keras
import tensorflow as tf

from bert_tf.model.encoders.bilstm_on_top import ends
from bert_tf.model.layers import BatchLayout, ConfiguredLayer
from bert_tf.model.ragged_lstm import Recurrence, lstm


class Directions(ConfiguredLayer):
    """One layer of both models: an LSTM from the left on the left half of its input, one from the right on the other.

    [B, T, D] -> [B, T, D], with what came in added above the first layer.
    """

    def __init__(self, config, number, **options):
        super().__init__(config, **options)
        self.number = number
        half = self.config.hidden_size // 2
        size_in = half if number else 2 * half
        self.forward = lstm(size_in, half, self.dtype_policy)
        self.backward = lstm(size_in, half, self.dtype_policy, go_backwards=True)
        self.dropout = self.new_dropout(self.config.hidden_dropout_prob, 1 + number)
        self.built = True

    def call(self, x, *, run, layout):
        left, right = tf.split(x, 2, axis=-1) if self.number else (x, x)
        made = tf.concat([run(self.forward, left), run(self.backward, right)], -1)
        made = self.dropout(made, layout=layout)
        return x + made if self.number else made


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(ConfiguredLayer):
    """Embeddings, then `num_hidden_layers` LSTMs in each direction, each half as wide as the hidden size."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        self.token_embeddings = self.new_table("token_table", self.config.vocab_size)
        self.dropout = self.new_dropout(self.config.hidden_dropout_prob, 0)
        self.layers = [
            Directions(self.config, number, dtype=self.dtype_policy) for number in range(self.config.num_hidden_layers)
        ]
        self.pooler = self.new_dense(self.config.hidden_size, self.config.hidden_size, "tanh")
        self.built = True

    @property
    def token_table(self):
        """The word embeddings [V, D], in the precision of the computation; the language models share them."""
        return tf.cast(self.token_embeddings.value, self.compute_dtype)

    def layout(self, inputs, seed=None):
        """Says how the texts of `inputs` lie in their rows."""
        slots = tf.shape(inputs["token_ids"])[1]
        return BatchLayout.padded(inputs["lengths"], slots, heads=1, dtype=self.compute_dtype, seed=seed)

    def call(self, inputs, seed=None, places=None, return_hidden_states=False, return_attention=False):
        """As BertEncoder with one text a row, but places count twice: "tokens_at" is what each model knows by itself.

        Place 2 t has the left model's state of token t, and zeros; place 2 t + 1 zeros, and the right model's.
        """
        layout = self.layout(inputs, seed)
        x = self.dropout(tf.gather(self.token_table, inputs["token_ids"]), layout=layout)  # [B, T, D]
        hidden_states, run = [x], Recurrence.of(x, inputs["lengths"])
        for layer in self.layers:
            x = layer(x, run=run, layout=layout)
            hidden_states.append(x)
        outputs = {"tokens": x, "pooled": self.pooler(ends(x, inputs["lengths"]))}
        if places is not None:
            left, right = tf.split(tf.gather(x, places // 2, batch_dims=1), 2, axis=-1)  # [B, P, D / 2]
            is_right = tf.cast(places % 2, x.dtype)[:, :, None]
            outputs["tokens_at"] = tf.concat([left * (1 - is_right), right * is_right], -1)
        return outputs | ({"hidden_states": tuple(hidden_states)} if return_hidden_states else {})

"""A forward and a backward LSTM language model whose states are features, as in ELMo.

B rows, T positions in a row, D hidden size, L layers. Follows Peters et al. 2018 ("Deep contextualized word
representations"), on WordPiece tokens instead of characters; as there, the directions never see each other.
"""

from collections.abc import Mapping
from typing import Any, Unpack

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model.base_encoder import Asked, BaseEncoder
from bert_tf.model.layers import ConfiguredLayer
from bert_tf.model.ragged_lstm import Recurrence, final_states, lstm


class Directions(ConfiguredLayer):
    """One layer of both models, [B, T, D] -> [B, T, D]: a forward LSTM on half of D, a backward one on the other half.

    Above the first layer the input is added as a residual.
    """

    def __init__(self, config: BertConfig | dict, number: int, **options: Any):
        super().__init__(config, **options)
        self.number = number
        half = self.config.hidden_size // 2
        size_in = half if number else 2 * half
        self.forward = lstm(size_in, half, self.dtype_policy)
        self.backward = lstm(size_in, half, self.dtype_policy, go_backwards=True)
        self.dropout = self.new_dropout(self.config.hidden_dropout_prob, f"layers/{number}")
        self.built = True

    def call(self, x: tf.Tensor, *, run: Recurrence, seed: tf.Tensor | None) -> tf.Tensor:
        """One layer in both directions, with a residual connection above the first."""
        left, right = tf.split(x, 2, axis=-1) if self.number else (x, x)
        states = tf.concat([run(self.forward, left), run(self.backward, right)], -1)
        states = self.dropout(states, seed=seed)
        return x + states if self.number else states


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BaseEncoder):
    """Embeddings, then `num_hidden_layers` LSTMs in each direction, each of half the hidden size."""

    takes_any_mask = False

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        self.token_embeddings = self.new_table("token_table", self.config.vocab_size)
        self.dropout = self.new_dropout(self.config.hidden_dropout_prob, "embeddings")
        self.layers = [
            Directions(self.config, number, dtype=self.dtype_policy) for number in range(self.config.num_hidden_layers)
        ]
        self.pooler = self.new_dense(self.config.hidden_size, self.config.hidden_size, "tanh")
        self.built = True

    @property
    def token_table(self) -> tf.Tensor:
        """The word embeddings [V, D], in the compute dtype; shared with the language models."""
        return tf.cast(self.token_embeddings.value, self.compute_dtype)

    def encode(self, inputs: Mapping[str, tf.Tensor], **asked: Unpack[Asked]) -> dict[str, Any]:
        """Like BertEncoder with one text per row, but "tokens_at" has the states of each language model separately.

        Position 2 t has the forward model's state for token t, then zeros; 2 t + 1 zeros, then the backward model's.
        """
        inputs = asked["packing"].trim(inputs) if asked["packing"] else inputs
        seed, positions = asked["seed"], asked["positions"]
        x = self.dropout(tf.gather(self.token_table, inputs["token_ids"]), seed=seed)  # [B, T, D]
        hidden_states, run = [x], Recurrence.of(x, inputs["lengths"])
        for layer in self.layers:
            x = layer(x, run=run, seed=seed)
            hidden_states.append(x)
        outputs = {"tokens": x, "pooled": self.pooler(final_states(x, inputs["lengths"]))}
        if positions is not None:
            left, right = tf.split(tf.gather(x, positions // 2, batch_dims=1), 2, axis=-1)  # [B, P, D / 2]
            is_right = tf.cast(positions % 2, x.dtype)[:, :, None]
            outputs["tokens_at"] = tf.concat([left * (1 - is_right), right * is_right], -1)
        return outputs | ({"hidden_states": tuple(hidden_states)} if asked["return_hidden_states"] else {})

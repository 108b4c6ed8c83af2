"""BERT with a BiLSTM between it and the head (Devlin et al. 2018, section 5.1, "+ BiLSTM").

B rows, T positions in a row, D hidden size.
"""

from collections.abc import Mapping
from typing import Any, Unpack

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model.base_encoder import Asked
from bert_tf.model.encoders.bert import BertEncoder
from bert_tf.model.layers import ConfiguredLayer
from bert_tf.model.ragged_lstm import Recurrence, lstm

LAYERS = 2


class BiLstm(ConfiguredLayer):
    """Layers of bidirectional LSTMs, [B, T, size_in] -> [B, T, size]; each direction has half of `size`."""

    def __init__(self, config: BertConfig | dict, size_in: int, size: int, layers: int = LAYERS, **options: Any):
        super().__init__(config, **options)
        sizes = [(size if layer else size_in, size // 2) for layer in range(layers)]
        self.forwards = [lstm(*each, self.dtype_policy) for each in sizes]
        self.backwards = [lstm(*each, self.dtype_policy, go_backwards=True) for each in sizes]
        self.built = True

    def call(self, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Maps [B, T, size_in] of texts of `lengths` [B] to [B, T, size]."""
        run = Recurrence.of(x, lengths)
        for forward, backward in zip(self.forwards, self.backwards, strict=True):
            x = tf.concat([run(forward, x), run(backward, x)], -1)
        return x


def final_states(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:  # [B, T, D], [B] -> [B, D]
    """The states after a whole text: the forward LSTM's at the last token, the backward LSTM's at the first."""
    forward, backward = tf.split(x, 2, axis=-1)
    last = tf.gather(forward, tf.maximum(lengths - 1, 0), batch_dims=1)
    return tf.concat([last, backward[:, 0]], -1)


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder, then a BiLSTM of two layers with the same hidden size."""

    takes_row_tables = False
    takes_any_mask = False

    def __init__(self, config: BertConfig | dict, **options: Any):
        super().__init__(config, **options)
        width = self.config.hidden_size
        self.bilstm = BiLstm(self.config, width, width, dtype=self.dtype_policy)

    def encode(  # type: ignore[override]  # which takes them by place, too
        self, inputs: Mapping[str, tf.Tensor], **asked: Unpack[Asked]
    ) -> dict[str, Any]:
        """As BertEncoder; "tokens" and "pooled" are those of the BiLSTM, the last of L + 2 "hidden_states" too."""
        positions, asked["positions"] = asked["positions"], None
        outputs = super().encode(inputs, **asked)
        tokens = self.bilstm(outputs["tokens"], inputs["lengths"])
        outputs |= {"tokens": tokens, "pooled": self.pool(final_states(tokens, inputs["lengths"]))}
        if positions is not None:
            outputs["tokens_at"] = tf.gather(tokens, positions, batch_dims=1)
        if asked["return_hidden_states"]:
            outputs["hidden_states"] += (tokens,)
        return outputs

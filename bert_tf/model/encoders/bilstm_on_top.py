"""BERT with a BiLSTM between it and the head (Devlin et al. 2018, section 5.1, "+ BiLSTM").

B rows, T slots in a row, D hidden size.
"""

import keras
import tensorflow as tf

from bert_tf.model.encoder import BertEncoder
from bert_tf.model.layers import ConfiguredLayer
from bert_tf.model.ragged_lstm import Recurrence, lstm

LAYERS = 2


class BiLstm(ConfiguredLayer):
    """Layers of LSTMs in both directions, each as wide as half of what comes out: [B, T, size_in] -> [B, T, size]."""

    def __init__(self, config, size_in, size, layers=LAYERS, **options):
        super().__init__(config, **options)
        sizes = [(size if layer else size_in, size // 2) for layer in range(layers)]
        self.forwards = [lstm(*each, self.dtype_policy) for each in sizes]
        self.backwards = [lstm(*each, self.dtype_policy, go_backwards=True) for each in sizes]
        self.built = True

    def call(self, x, lengths):  # [B, T, size_in], [B]
        run = Recurrence.of(x, lengths)
        for forward, backward in zip(self.forwards, self.backwards, strict=True):
            x = tf.concat([run(forward, x), run(backward, x)], -1)
        return x


def ends(x, lengths):  # [B, T, D] -> [B, D]
    """What both directions make of a whole text: the left one at its last token, the right one at its first."""
    forward, backward = tf.split(x, 2, axis=-1)
    last = tf.gather(forward, tf.maximum(lengths - 1, 0), batch_dims=1)
    return tf.concat([last, backward[:, 0]], -1)


@keras.saving.register_keras_serializable("bert_tf")
class Encoder(BertEncoder):
    """BertEncoder, then a BiLSTM of two layers, as wide as it."""

    def __init__(self, config, **options):
        super().__init__(config, **options)
        width = self.config.hidden_size
        self.bilstm = BiLstm(self.config, width, width, dtype=self.dtype_policy)

    def call(self, inputs, seed=None, places=None, return_hidden_states=False, return_attention=False):
        """As BertEncoder; "tokens" and "pooled" are those of the BiLSTM, the last of L + 2 "hidden_states" too."""
        outputs = super().call(inputs, seed, None, return_hidden_states, return_attention)
        tokens = self.bilstm(outputs["tokens"], inputs["lengths"])
        outputs |= {"tokens": tokens, "pooled": self.pooler(ends(tokens, inputs["lengths"]))}
        if places is not None:
            outputs["tokens_at"] = tf.gather(tokens, places, batch_dims=1)
        if return_hidden_states:
            outputs["hidden_states"] += (tokens,)
        return outputs

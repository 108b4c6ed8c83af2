"""BiLstmTagger: tags of words from vectors that a frozen encoder gave, as in ELMo's taggers.

B sentences, W words of a row, K layers, D hidden size, C labels.
"""

import keras
import tensorflow as tf

from bert_tf.model.encoders.bilstm_on_top import BiLstm
from bert_tf.model.heads import HEAD_DROPOUT, BertModel, LogitsHead
from bert_tf.model.layers import Dropout
from bert_tf.tasks.embeddings.scalar_mix import ScalarMix
from bert_tf.tasks.embeddings.vector_choice import FEATURES


@keras.saving.register_keras_serializable("bert_tf")
class BiLstmTagger(BertModel):
    """Two layers of LSTMs in both directions over the words of a sentence, then one dense layer (section 5.3).

    features: a name in FEATURES; count: its layers, K. lstm_size: numbers of a word between the layers, of both
    directions together. The encoder is only carried along: its weights get no gradient and stay as they are.
    """

    def __init__(self, config, size, features="concat_last_four", count=4, lstm_size=768, **options):
        super().__init__(config, **options)
        self.features, self.count, self.lstm_size = features, count, lstm_size
        width = self.config.hidden_size * (1 if FEATURES[features][1] == "mix" else count)
        if FEATURES[features][1] == "mix":
            self.mix = ScalarMix(count, dtype=self.dtype_policy)
        self.lstm = BiLstm(self.config, width, lstm_size, dtype=self.dtype_policy)
        self.dropout = Dropout(HEAD_DROPOUT, "head", dtype=self.dtype_policy)
        self.classifier = LogitsHead(self.config, size, lstm_size, dtype=self.dtype_policy)
        self.built = True

    def call(self, inputs, seed=None, packing=None):
        """inputs: float32 `vectors` [B, W, K, D], `lengths` [B]. Returns float32 "logits" [B, longest length, C].

        packing: without effect, as words are not packed.
        """
        lengths = inputs["lengths"]
        longest = tf.maximum(tf.reduce_max(lengths), 1)
        x = tf.cast(inputs["vectors"][:, :longest], self.compute_dtype)
        x = self.mix(x) if hasattr(self, "mix") else tf.reshape(x, [tf.shape(x)[0], longest, x.shape[2] * x.shape[3]])
        x = self.lstm(x, lengths)  # [B, longest, lstm_size]
        logits = self.classifier(self.dropout(tf.reshape(x, [-1, self.lstm_size]), seed=seed))
        return {"logits": tf.reshape(logits, [-1, longest, logits.shape[-1]])}

    def get_config(self):
        own = {"size": self.classifier.bias.shape[0], "features": self.features, "count": self.count}
        return {**super().get_config(), **own, "lstm_size": self.lstm_size}

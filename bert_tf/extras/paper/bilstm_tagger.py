"""BiLstmTagger: word tags from a frozen encoder's vectors, as in ELMo's taggers.

B sentences, W words per sentence, K layers, D hidden size, C labels.
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.heads.vectors.vector_choice import FEATURES
from bert_tf.model.base_encoder import Pass
from bert_tf.model.crf import Crf
from bert_tf.model.heads import HEAD_DROPOUT, BertModel, LogitsHead
from bert_tf.model.layers import Dropout
from bert_tf.model.ragged_lstm import BiLstm


@keras.saving.register_keras_serializable("bert_tf")
class ScalarMix(keras.layers.Layer):
    """gamma * sum over layers of softmax(scores) * layer (ELMo: Peters et al. 2018, section 3.2, equation 1).

    It is initialized as the mean of the layers. `scores` [K] and `gamma` [] are its weights, always float32.
    """

    def __init__(self, layers: int, **options: Any) -> None:
        super().__init__(**options)
        wide = {"dtype": "float32", "autocast": False}
        self.scores = self.add_weight(name="scores", shape=(layers,), initializer="zeros", **wide)
        self.gamma = self.add_weight(name="gamma", shape=(), initializer="ones", **wide)
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Layers [..., K, D] -> [..., D]."""
        weights = self.gamma.value * tf.nn.softmax(self.scores.value)  # [K]
        return tf.reduce_sum(x * tf.cast(weights, x.dtype)[:, None], -2)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        return {**super().get_config(), "layers": self.scores.shape[0]}


@keras.saving.register_keras_serializable("bert_tf")
class BiLstmTagger(BertModel):
    """Two bidirectional LSTM layers over the words of a sentence, then one dense layer (section 5.3).

    features: a name in FEATURES; count: its number of layers, K. lstm_size: output size per word of an LSTM layer, both
    directions together. crf: see TokenClassifier. The model contains the encoder without running it: its weights get
    no gradient.
    """

    def __init__(
        self,
        config: BertConfig | dict[str, Any],
        size: int,
        features: str = "concat_last_four",
        count: int = 4,
        lstm_size: int = 768,
        crf: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(config, **options)
        self.features, self.count, self.lstm_size = features, count, lstm_size
        is_mixed = FEATURES[features][1] == "mix"
        width = self.config.hidden_size * (1 if is_mixed else count)
        self.mix = ScalarMix(count, dtype=self.dtype_policy) if is_mixed else None
        self.lstm = BiLstm(self.config, width, lstm_size, dtype=self.dtype_policy)
        self.dropout = Dropout(HEAD_DROPOUT, "head", dtype=self.dtype_policy)
        self.classifier = LogitsHead(self.config, size, lstm_size, dtype=self.dtype_policy)
        self.crf = Crf(size, dtype=self.dtype_policy) if crf else None
        self.built = True

    def complete(self, inputs: Any) -> Mapping[str, tf.Tensor]:
        """The unchanged inputs: vectors need nothing else."""
        return inputs

    def outputs(self, inputs: Mapping[str, tf.Tensor], how: Pass) -> dict[str, tf.Tensor]:
        """Float32 "logits" [B, longest length, C], and for a CRF "potentials" [B, C + 2, C].

        inputs: float32 `vectors` [B, W, K, D], `lengths` [B]. Words are not packed.
        """
        lengths = inputs["lengths"]
        longest = tf.maximum(tf.reduce_max(lengths), 1)
        x = tf.cast(inputs["vectors"][:, :longest], self.compute_dtype)
        x = self.mix(x) if self.mix else tf.reshape(x, [tf.shape(x)[0], longest, x.shape[2] * x.shape[3]])
        x = self.lstm(x, lengths)  # [B, longest, lstm_size]
        logits = self.classifier(self.dropout(tf.reshape(x, [-1, self.lstm_size]), seed=how.seed))
        logits = tf.reshape(logits, [-1, longest, logits.shape[-1]])
        return {"logits": logits} | ({"potentials": self.crf(logits)} if self.crf else {})

    def get_config(self) -> dict[str, Any]:
        own = {"size": self.classifier.bias.shape[0], "features": self.features, "count": self.count}
        return {**super().get_config(), **own, "lstm_size": self.lstm_size, "crf": self.crf is not None}

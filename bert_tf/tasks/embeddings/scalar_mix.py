"""ScalarMix: a learned mixture of layers.

K layers, D their width.
"""

from typing import Any

import keras
import tensorflow as tf


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

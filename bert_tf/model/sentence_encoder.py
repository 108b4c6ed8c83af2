"""SentenceEncoder: text embeddings, for training.

B examples, F texts per example, T positions in a row, D hidden size.
"""

from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model.activation_probe import Probe
from bert_tf.model.base_encoder import Pass
from bert_tf.model.batch_layout import size_of
from bert_tf.model.heads import BertModel, Inputs, PooledModel, as_rows
from bert_tf.model.packing import PackingSpec

SMALLEST = 1e-12  # lower bound of the length when dividing by it


@keras.saving.register_keras_serializable("bert_tf")
class SentenceEncoder(BertModel):
    """An encoder with pooled token vectors, as in sentence-transformers (Reimers & Gurevych 2019).

    pooling: one of `config.bert_config.POOLINGS`. normalize: whether vectors have length 1.
    """

    unread = ("encoder/pooler/kernel", "encoder/pooler/bias")

    def __init__(
        self, config: BertConfig | dict, pooling: str = "mean", normalize: bool = True, **options: Any
    ) -> None:
        super().__init__(config, **options)
        self.pooling, self.normalize = pooling, normalize

    def outputs(self, inputs: Inputs, how: Pass) -> dict[str, tf.Tensor]:
        """inputs: `token_ids`, `segment_ids` [B, F, T], `lengths` [B, F]. Returns float32 "vectors" [B, F, D]."""
        rows = as_rows(inputs)
        tokens = self.encoder(rows, **how._asdict())["tokens"]  # [B * F, T, D]
        text_mask = rows.get("text_mask")
        if text_mask is not None:  # packing truncates the tokens' width
            text_mask = text_mask[:, : size_of(tokens, 1)]
        vectors = pool_tokens(tf.cast(tokens, tf.float32), rows["lengths"], self.pooling, text_mask)
        if self.normalize:
            vectors = unit_vectors(vectors)
        return {"vectors": tf.reshape(vectors, [-1, size_of(inputs["lengths"], -1), self.config.hidden_size])}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "pooling": self.pooling, "normalize": self.normalize}


class InputOfHead(keras.Model):
    """The encoder of a `heads.PooledModel`; its outputs are the inputs of that model's head."""

    def __init__(self, model: PooledModel) -> None:
        super().__init__(dtype=model.dtype_policy)
        self.config, self.encoder, self._model, self.built = model.config, model.encoder, model, True

    def call(
        self,
        inputs: Inputs,
        seed: tf.Tensor | None = None,
        packing: PackingSpec | None = None,
        probe: Probe | None = None,
    ) -> dict[str, tf.Tensor]:
        """Like `BertModel.call`. Returns float32 "vectors" [B, D]."""
        vectors = self._model.vectors(self._model.complete(inputs), Pass(seed, packing, probe))
        return {"vectors": tf.cast(vectors, tf.float32)}


def pool_tokens(tokens: tf.Tensor, lengths: tf.Tensor, pooling: str, text_mask: tf.Tensor | None = None) -> tf.Tensor:
    """Pools tokens [B, T, D] into texts [B, D]; padding after `lengths` [B] is ignored, [CLS] and [SEP] count.

    text_mask: [B, T], 0 on other positions to ignore; position weights start at the first one that counts.

    `heads.vectors.features.text_vectors` does the same for ragged tokens of long texts.
    """
    first = None if text_mask is None else tf.argmax(text_mask, 1, tf.int32)
    if pooling == "cls":
        return tokens[:, 0] if first is None else tf.gather(tokens, first, batch_dims=1)
    if pooling == "last":
        return tf.gather(tokens, tf.maximum(lengths - 1, 0), batch_dims=1)
    is_text = tf.sequence_mask(lengths, size_of(tokens, 1))[:, :, None]  # [B, T, 1]
    is_text = is_text if text_mask is None else is_text & (text_mask[:, :, None] > 0)
    if pooling == "max":
        return tf.reduce_max(tf.where(is_text, tokens, tokens.dtype.min), 1)
    weights = tf.cast(is_text, tokens.dtype)
    if pooling == "weighted_mean":
        places = tf.range(1, size_of(tokens, 1) + 1)[None, :, None]
        weights *= tf.cast(places if first is None else places - first[:, None, None], tokens.dtype)
    count = tf.maximum(tf.reduce_sum(weights, 1), 1)  # [B, 1]
    divisor = tf.sqrt(count) if pooling == "mean_sqrt_len" else count
    return tf.reduce_sum(tf.where(is_text, tokens, 0) * weights, 1) / divisor


def unit_vectors(vectors: tf.Tensor) -> tf.Tensor:
    """Vectors [..., D] divided by their lengths; a zero vector stays zero, with a finite gradient."""
    return vectors * tf.math.rsqrt(tf.maximum(tf.reduce_sum(vectors * vectors, -1, keepdims=True), SMALLEST**2))

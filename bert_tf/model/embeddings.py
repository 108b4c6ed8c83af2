"""The embeddings at the start of every encoder: words, positions and segments.

B rows, T positions in a row, N = B * T, D hidden size, E embedding size, V vocabulary.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model.batch_layout import BatchLayout
from bert_tf.model.layers import ConfiguredLayer, Dense, LayerNorm
from bert_tf.runtime import backend


def one_hot_lookup(table: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:  # [V, D], [N] -> [N, D]
    """Looks up table rows by a matrix product (google-research/bert `embedding_lookup`)."""
    table = tf.convert_to_tensor(table)
    return tf.matmul(tf.one_hot(indices, table.shape[0], dtype=table.dtype), table)


def sinusoids(count: int, width: int) -> np.ndarray:
    """Fixed positions float32 [count, width]: sines in even columns, cosines in odd ones (Vaswani et al. 2017, 3.5)."""
    angles = np.arange(count)[:, None] / np.power(10000, np.arange(width) // 2 * 2 / width)
    return np.where(np.arange(width) % 2, np.cos(angles), np.sin(angles)).astype(np.float32)


class Embeddings(ConfiguredLayer):
    """Word + position + segment, normalized, then dropout (in this order: `embedding_postprocessor`).

    one_hot: look up tokens by a matrix product, which is faster on TPUs than a gather and its gradient; same values.

    Args:
        has_positions: whether to add a vector for the position.
        has_segments: whether to add a vector for the segment. With a single segment type, all tokens have its vector.
        is_normalized: whether to normalize.
        is_projected: whether a dense layer maps the embeddings [N, E] to the hidden size [N, D]; None: only if E and D
            differ.
    """

    one_hot = False
    segment_table: keras.Variable | None = None
    norm: LayerNorm | None = None
    projection: Dense | None = None

    def __init__(
        self,
        config: BertConfig | dict,
        *,
        has_positions: bool = True,
        has_segments: bool = True,
        is_normalized: bool = True,
        is_projected: bool | None = None,
        **options: Any,
    ):
        super().__init__(config, **options)
        self.token_table = self.new_table("token_table", self.config.vocab_size)
        self.has_positions = has_positions
        if has_positions and self.config.position_embedding_type == "absolute":
            rows = self.config.encoder_traits.position_offset + self.config.max_position_embeddings
            self.position_table = self.new_table("position_table", rows)
        if has_segments:
            self.segment_table = self.new_table("segment_table", self.config.type_vocab_size)
        if is_normalized:
            self.norm = self.new_norm(self.config.embedding_width)
        self.dropout = self.new_dropout(self.config.hidden_dropout_prob, "embeddings")
        if is_projected or (is_projected is None and self.config.embedding_width != self.config.hidden_size):
            self.projection = self.new_dense(self.config.embedding_width, self.config.hidden_size)
        self.built = True

    def call(
        self, token_ids: tf.Tensor, segment_ids: tf.Tensor, positions: tf.Tensor | None, *, layout: BatchLayout
    ) -> tf.Tensor:
        """Embeds ids, each [B, T], as [N, D]; positions None: 0, 1, ... in every row; -1 for padding in RoBERTa."""
        x = self.narrow(token_ids, segment_ids, positions, layout=layout)
        return self.projection(x, needs_gradient=layout.training) if self.projection else x

    def narrow(
        self, token_ids: tf.Tensor, segment_ids: tf.Tensor, positions: tf.Tensor | None, *, layout: BatchLayout
    ) -> tf.Tensor:
        """Like `call`, before the projection: [N, E]."""
        look_up = one_hot_lookup if self.one_hot else tf.gather
        x = look_up(self.token_table.value, tf.reshape(token_ids, [-1]))  # [N, E]
        x = layout.probe.embed(x) if layout.probe else x
        x = self._add_segments(x, segment_ids)
        x = self._add_positions(x, positions, layout) if self.has_positions else x
        x = self.norm(x) if self.norm else x
        return self.dropout(x, seed=layout.seed)

    def _add_positions(self, x: tf.Tensor, positions: tf.Tensor | None, layout: BatchLayout) -> tf.Tensor:
        table, first = self._positions()  # [first + P, E]
        if positions is None:
            rows = self.config.max_position_embeddings
            if isinstance(layout.width, int) and layout.width > rows:
                raise ValueError(f"The rows have {layout.width} tokens; the model has {rows} positions.")
            x = layout.as_rows(x) + table[first : first + layout.width]  # [B, T, E]
            return tf.reshape(x, [-1, self.config.embedding_width])
        start = max(first - 1, 0)  # RoBERTa's padding row
        return x + tf.gather(table[start:], tf.reshape(positions, [-1]) + (first - start))

    def _add_segments(self, x: tf.Tensor, segment_ids: tf.Tensor) -> tf.Tensor:
        if self.segment_table is None:
            return x
        table = self.segment_table.value
        if self.config.type_vocab_size == 1:
            return x + table
        indices = tf.reshape(segment_ids, [-1])
        if self.config.type_vocab_size == 2 and backend.platform() in ("gpu", "tpu"):
            return x + tf.where(indices[:, None] == 0, table[0], table[1])  # XLA fuses this with the addition
        return x + one_hot_lookup(table, indices)  # always: the table is tiny

    def _positions(self) -> tuple[tf.Tensor, int]:
        """The position table, and the row of the first position."""
        if self.config.position_embedding_type == "sinusoidal":
            table = sinusoids(self.config.max_position_embeddings, self.config.embedding_width)
            return tf.constant(table, self.compute_dtype), 0
        return self.position_table.value, self.config.encoder_traits.position_offset


class SharedEmbeddings(ConfiguredLayer):
    """The Embeddings of another encoder, projected to the hidden size of this one."""

    projection: Dense | None = None

    def __init__(self, config: BertConfig | dict, embeddings: Embeddings, **options: Any):
        super().__init__(config, **options)
        self._embeddings = embeddings  # the underscore leaves its weights to the other encoder
        if self.config.embedding_width != self.config.hidden_size:
            self.projection = self.new_dense(self.config.embedding_width, self.config.hidden_size)
        self.built = True

    @property
    def token_table(self) -> keras.Variable:
        """The word embeddings [V, E]."""
        return self._embeddings.token_table

    def call(
        self, token_ids: tf.Tensor, segment_ids: tf.Tensor, positions: tf.Tensor | None, *, layout: BatchLayout
    ) -> tf.Tensor:
        x = self._embeddings.narrow(token_ids, segment_ids, positions, layout=layout)
        return self.projection(x, needs_gradient=layout.training) if self.projection else x

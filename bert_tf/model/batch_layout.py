"""Layout of texts in the rows of a batch, and selection of tokens from them.

B rows, T positions in a row, N = B * T, D hidden size, H heads, K size of one head.
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.model import attention, fused_ops
from bert_tf.model.activation_probe import Probe
from bert_tf.runtime import backend


@dataclasses.dataclass(frozen=True)
class BatchLayout:
    """Layout of texts in rows, and this pass's dropout seed: everything layers need in addition to the tokens.

    `mask` [B, 1, 1 or T, T] is added to attention scores. `seed` [2] (int32): each dropout mask depends only on it and
    on the layer; None: no dropout. `text_numbers` [B, T]: 1, 2, ... by text of a row, 0 for positions hidden from all
    queries. `probe`: filled by this pass. `positions` [B or 1, T]: token positions within their texts.
    `shows_attention`: whether all probabilities are needed. `bias` [1 or B, H, T, T]: also added to attention scores.
    `distance_vectors` [R, D] and `distances` [2 T - 1]: distance vectors, and the index of one for each distance
    query - key, in ascending order. `other_segments` [B, 1, T, T]: 1 for keys of another segment.
    """

    rows: tf.Tensor | int
    width: tf.Tensor | int  # positions in a row
    heads: int
    mask: tf.Tensor
    seed: tf.Tensor | None = None
    text_numbers: tf.Tensor | None = None
    probe: Probe | None = None
    positions: tf.Tensor | None = None
    shows_attention: bool = False
    bias: tf.Tensor | None = None
    distance_vectors: tf.Tensor | None = None
    distances: tf.Tensor | None = None
    other_segments: tf.Tensor | None = None

    @classmethod
    def padded(
        cls,
        lengths: tf.Tensor,
        width: tf.Tensor | int,
        *,
        heads: int,
        dtype: str,
        text_mask: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
        is_causal: bool = False,
    ) -> "BatchLayout":
        """One text per row, in its first `lengths` [B] positions, excluding those where `text_mask` [B, T] is 0."""
        mask = attention.padding_mask(lengths, width, text_mask=text_mask, is_causal=is_causal, dtype=dtype)
        numbers = tf.cast(tf.sequence_mask(lengths, width), tf.int32)
        numbers = numbers if text_mask is None else numbers * text_mask
        return cls(rows=size_of(lengths, 0), width=width, heads=heads, mask=mask, seed=seed, text_numbers=numbers)

    @classmethod
    def packed(
        cls,
        text_numbers: tf.Tensor,
        *,
        heads: int,
        dtype: str,
        text_mask: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
        is_causal: bool = False,
    ) -> "BatchLayout":
        """Several texts per row that do not see each other: `text_numbers` [B, T], 1, 2, ... by text, 0 on padding."""
        width = size_of(text_numbers, 1)
        mask = attention.packing_mask(text_numbers, width, text_mask=text_mask, is_causal=is_causal, dtype=dtype)
        rows = size_of(text_numbers, 0)
        text_numbers = text_numbers if text_mask is None else text_numbers * text_mask
        return cls(rows=rows, width=width, heads=heads, mask=mask, seed=seed, text_numbers=text_numbers)

    def with_probe(self, probe: Probe | None) -> "BatchLayout":
        """The same layout with a probe, which receives texts and mask; unchanged for None."""
        if probe is None or self.text_numbers is None:
            return self
        before = self.width * tf.range(self.rows)[:, None]  # upper bound of texts in earlier rows
        probe.texts = tf.reshape(tf.where(self.text_numbers > 0, before + self.text_numbers, 0), [-1])
        probe.mask = self.mask
        return dataclasses.replace(self, probe=probe)

    @property
    def training(self) -> bool:
        """Returns whether a gradient will be computed."""
        return self.seed is not None

    def split_heads(self, x: tf.Tensor) -> list[tf.Tensor]:
        """Splits [N, 3 * D] into three tensors [B, H, T, K]."""
        size = x.shape[-1] // (3 * self.heads)
        x = tf.reshape(x, [self.rows, self.width, 3, self.heads, size])
        return tf.unstack(tf.transpose(x, [2, 0, 3, 1, 4]))  # unstack, because the gradient of slices is slow

    def join_heads(self, x: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
        """Merges the heads of [B, H, T, K] into [N, D], the shape of `like`."""
        return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), tf.shape(like))  # tells TensorFlow that they can be added

    def as_rows(self, x: tf.Tensor) -> tf.Tensor:
        """Reshapes [N, D] to [B, T, D]."""
        return tf.reshape(x, [self.rows, self.width, x.shape[-1]])


def gather_tokens(x: tf.Tensor, indices: tf.Tensor | None) -> tf.Tensor:
    """The tokens of `x` [N, D] at these indices: int32 [R], or [B, P] with P per row; None: all tokens."""
    if indices is None:
        return x
    if indices.shape.rank == 2 and backend.platform() != "cpu":
        return fused_ops.gather_within_rows(x, indices)
    return tf.gather(x, tf.reshape(indices, [-1]))


def pooled_positions(inputs: Mapping[str, tf.Tensor], config: BertConfig) -> tf.Tensor:
    """The position of the token that has seen the whole text, int32 [B]: [CLS], or in a causal model the last one."""
    if config.is_causal:
        return tf.maximum(inputs["lengths"] - 1, 0)
    if "cls_token_id" in config.settings:
        first, last, begins_with_cls = ends_of_turned_rows(inputs, config.settings["cls_token_id"])
        return tf.where(begins_with_cls, first, last)
    return tf.zeros([size_of(inputs["token_ids"], 0)], tf.int32)


def ends_of_turned_rows(inputs: Mapping[str, tf.Tensor], cls_id: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The first and last position of each text, int32 [B], and whether it starts with <cls>, which XLNet puts last.

    Texts in XLNet's own order never do, because their last token is <cls>.
    """
    token_ids, last = inputs["token_ids"], tf.maximum(inputs["lengths"] - 1, 0)
    first = tf.argmax(inputs["text_mask"], 1, tf.int32) if "text_mask" in inputs else tf.zeros_like(last)
    begin, end = (tf.gather(token_ids, place[:, None], batch_dims=1)[:, 0] for place in (first, last))
    return first, last, tf.equal(begin, cls_id) & (end != cls_id)


def vectors_of_texts(tokens: tf.Tensor, inputs: Mapping[str, tf.Tensor], config: BertConfig) -> tf.Tensor:
    """Pooler input [B, D] from the tokens [B, T, D]: those that have seen their whole text, or means."""
    if config.pools_mean:
        return _mean_of_texts(tokens, inputs)
    if config.is_causal or "cls_token_id" in config.settings:
        return tf.gather(tokens, pooled_positions(inputs, config), batch_dims=1)
    return tokens[:, 0]


def _mean_of_texts(tokens: tf.Tensor, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:  # [B, T, D] -> [B, D]
    """The mean of each text's tokens, excluding those where `text_mask` [B, T] is 0."""
    used = tf.sequence_mask(inputs["lengths"], size_of(tokens, 1), tf.float32)
    if "text_mask" in inputs:
        used *= tf.cast(inputs["text_mask"][:, : size_of(tokens, 1)], tf.float32)
    summed = tf.reduce_sum(tf.cast(tokens, tf.float32) * used[:, :, None], 1)
    return tf.cast(summed / tf.maximum(tf.reduce_sum(used, 1, keepdims=True), 1), tokens.dtype)


def size_of(tensor: tf.Tensor, axis: int) -> tf.Tensor | int:
    """The static size if it is known: XLA and TPUs need static shapes."""
    return tensor.shape[axis] if tensor.shape[axis] is not None else tf.shape(tensor)[axis]

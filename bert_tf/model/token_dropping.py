"""Token dropping: in pre-training, the middle layers see part of each row (Hou et al. 2022, arXiv:2203.13240).

The first layers see all tokens; from `BertConfig.middle_layers` a fixed share of each row is dropped; the last layer
sees all again. Tokens whose outputs are needed (the masked ones) are dropped last; the others are drawn again in each
pass. (The paper keeps the tokens whose vocabulary entry has had the largest loss so far.)

B rows, T positions in a row, N = B * T, D hidden size, K kept positions in a row.
"""

import dataclasses

import tensorflow as tf

from bert_tf.model import random_bits
from bert_tf.model.batch_layout import BatchLayout


@dataclasses.dataclass(frozen=True)
class KeptTokens:
    """The tokens seen by the middle layers: their places in [N, D], int32 [B * K], and their layout in rows of K."""

    places: tf.Tensor
    layout: BatchLayout

    @classmethod
    def draw(
        cls, layout: BatchLayout, needed: tf.Tensor | None, dropped: float, *, is_causal: bool = False
    ) -> "KeptTokens":
        """Draws them from the seed of the pass.

        Args:
            layout: the layout of all tokens, in training.
            needed: int32 [R] or [B, P], places in [N, D] of tokens to keep before others; None: no preference.
            dropped: the share of each row to drop, padding first.
            is_causal: whether tokens see only preceding ones.
        """
        rows, width = layout.rows, layout.width
        is_static = isinstance(width, int)
        count = width - (int(width * dropped) if is_static else tf.cast(tf.cast(width, tf.float32) * dropped, tf.int32))
        seed = random_bits.of_stream(layout.seed, random_bits.stream_id("token_dropping"))
        bits = tf.random.stateless_uniform([rows * width], seed, None, None, tf.uint32, alg="philox")  # as in XLA
        ranks = tf.cast(tf.bitwise.right_shift(bits, tf.constant(8, tf.uint32)), tf.float32) / 2**24
        ranks -= tf.cast(tf.reshape(layout.text_numbers, [-1]) == 0, tf.float32)
        if needed is not None:
            needed = tf.reshape(needed, [-1])
            ranks = tf.tensor_scatter_nd_max(ranks, needed[:, None], tf.ones_like(needed, tf.float32))
        kept = tf.sort(tf.math.top_k(tf.reshape(ranks, [rows, width]), count, sorted=False).indices)  # [B, K], in order
        places = tf.reshape(kept + width * tf.range(rows)[:, None], [-1])
        numbers = tf.gather(tf.reshape(layout.text_numbers, [-1]), places)
        options = {"heads": layout.heads, "dtype": layout.mask.dtype, "seed": layout.seed, "is_causal": is_causal}
        narrow = BatchLayout.packed(tf.reshape(numbers, [rows, count]), **options)
        if layout.positions is not None:
            positions = tf.reshape(tf.broadcast_to(layout.positions, [rows, width]), [-1])
            positions = tf.reshape(tf.gather(positions, places), [rows, count])
            narrow = dataclasses.replace(narrow, positions=positions)
        if layout.bias is not None:
            bias = tf.transpose(tf.gather(layout.bias[0], kept, axis=1), [1, 0, 2, 3])  # [B, H, K, T]
            narrow = dataclasses.replace(narrow, bias=tf.gather(bias, kept, axis=3, batch_dims=1))
        return cls(places, narrow)

    def narrow(self, x: tf.Tensor) -> tf.Tensor:
        """The kept tokens [B * K, D] of all tokens [N, D]."""
        return tf.gather(x, self.places)

    def widen(self, x: tf.Tensor, all_tokens: tf.Tensor) -> tf.Tensor:
        """All tokens [N, D], with `x` [B * K, D] in the places of the kept ones."""
        return tf.tensor_scatter_nd_update(all_tokens, self.places[:, None], x)

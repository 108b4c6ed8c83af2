"""Replaces characters of a batch of texts, as TensorFlow ops, and tracks where each comes from.

B texts, C characters of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bert_tf.runtime.lazy import tf
from bert_tf.text import charsmap
from bert_tf.text.ragged_scan import repeat, row_numbers, shift, utf8_sizes, without_overlaps
from bert_tf.text.wordpiece import as_single_node, when_any

BLOCK = 256  # code points in a page of a table
CODES = 1 << 21  # above all code points
QUOTES = ("`", "'")  # a pair of either becomes a double quote in ALBERT


class Characters(NamedTuple):
    """The characters of texts [B, (characters)], int32, and the index of each one's original character, int64 [C]."""

    points: tf.RaggedTensor
    sources: tf.Tensor


class Replacements:
    """Replaces strings: single characters, and grapheme clusters as `tokenizers` looks them up.

    Args:
        table: {string: replacement}.
        in_clusters: whether a cluster of at most five bytes is replaced as a whole by the value of the shortest key
            that it begins with; otherwise all keys are single characters.
    """

    def __init__(self, table: Mapping[str, str], *, in_clusters: bool = True) -> None:
        singles = sorted(key for key in table if len(key) == 1)
        clusters = sorted((_cluster_key(key), table[key]) for key in table if len(key) > 1)
        rows = [*(table[key] for key in singles), *(value for _, value in clusters), ""]
        lengths = np.array([len(row) for row in rows], np.int64)
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured, not copied into each graph
            self._changed = tf.constant([ord(key) for key in singles] or [-1], tf.int32)
            self._nothing = tf.constant(len(rows) - 1)  # the empty row
            self._lengths, self._starts = tf.constant(lengths), tf.constant(np.cumsum(lengths) - lengths)
            self._values = tf.constant([ord(c) for c in "".join(rows)] + [0], tf.int32)
            self._keys = tf.constant([key for key, _ in clusters] or [-1], tf.int64)
            self._first = tf.constant(len(singles) if singles else 0)  # the row of the first cluster
            to, by = charsmap.cluster_bits()
            self._pages, self._bits = map(tf.constant, paged(to.astype(np.int32) << 8 | by))
            self._cluster_node = as_single_node(self._clusters)
        self._in_clusters = in_clusters

    def __call__(self, characters: Characters) -> Characters:
        """The characters after all replacements."""
        x = characters.points.values
        place = tf.minimum(tf.searchsorted(self._changed, x), tf.size(self._changed) - 1)
        rows = tf.where(tf.equal(tf.gather(self._changed, place), x), place, -1)  # row of each character; -1: unchanged
        sizes = tf.ones_like(x)  # characters of the replaced cluster
        if not self._in_clusters:
            return self._replaced(characters, rows, sizes)
        bits = tf.gather(self._bits, tf.gather(self._pages, x // BLOCK) * BLOCK + x % BLOCK)
        text = row_numbers(characters.points)
        joined = tf.not_equal(tf.bitwise.bitwise_and(shift(bits, 1) // 256, bits % 256), 0)
        joined &= tf.equal(text, shift(text, 1)) & (tf.range(tf.size(x)) > 0)
        rows, sizes = when_any(joined, self._cluster_node, (x, joined, rows, sizes), (rows, sizes))
        return self._replaced(characters, rows, sizes)

    def _clusters(
        self, x: tf.Tensor, joined: tf.Tensor, rows: tf.Tensor, sizes: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The rows and sizes of `__call__` for clusters as well, int32 [C] each."""
        second, third = joined, shift(joined, -1)
        second, third, fourth = shift(joined, -1), shift(joined, -2), shift(joined, -3)
        size = tf.where(second & ~third, 2, tf.where(second & third & ~fourth, 3, 0))
        of_bytes = utf8_sizes(x)
        total = of_bytes + shift(of_bytes, -1) + tf.where(size > 2, shift(of_bytes, -2), 0)
        is_short = ~joined & (size > 0) & (total <= charsmap.LONGEST_CLUSTER)
        points = tf.cast(x, tf.int64)
        pair = (points * CODES + shift(points, -1)) * CODES
        for key, chosen in ((pair, is_short), (pair + shift(points, -2), is_short & (size > 2))):
            place = tf.minimum(tf.searchsorted(self._keys, key), tf.size(self._keys) - 1)
            found = tf.equal(tf.gather(self._keys, place), key) & chosen & (rows < 0)
            rows = tf.where(found, self._first + place, rows)
        is_replaced = is_short & (rows >= 0)
        sizes = tf.where(is_replaced, size, sizes)
        is_rest = shift(is_replaced, 1) | shift(is_replaced & (size > 2), 2)
        return tf.where(is_rest, self._nothing, rows), sizes

    def _replaced(self, characters: Characters, rows: tf.Tensor, sizes: tf.Tensor) -> Characters:
        stays = rows < 0
        safe = tf.maximum(rows, 0)
        counts = tf.where(stays, tf.constant(1, tf.int64), tf.gather(self._lengths, safe))
        splits = tf.concat([[0], tf.cumsum(counts)], 0)
        before = repeat(tf.range(tf.size(rows, tf.int64)), counts)
        inside = tf.range(splits[-1]) - tf.gather(splits, before)
        values = tf.gather(
            self._values,
            tf.where(
                tf.gather(stays, before),
                tf.constant(0, tf.int64),
                tf.gather(tf.gather(self._starts, safe), before) + inside,
            ),
        )
        values = tf.where(tf.gather(stays, before), tf.gather(characters.points.values, before), values)
        last = tf.gather(tf.cast(sizes, tf.int64) - 1, before)  # characters of the cluster after its first
        sources = tf.gather(characters.sources, before + tf.minimum(inside, last))
        splits = tf.gather(splits, characters.points.row_splits)
        return Characters(tf.RaggedTensor.from_row_splits(values, splits, validate=False), sources)


def _cluster_key(key: str) -> int:
    first, second, third = (*map(ord, key), 0)[:3]
    return (first * CODES + second) * CODES + third


def paged(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A table of all code points as page numbers, int32, and the distinct pages one after another, int32."""
    pages, numbers = np.unique(table.reshape(-1, BLOCK), axis=0, return_inverse=True)
    return numbers.reshape(-1).astype(np.int32), pages.reshape(-1).astype(np.int32)


def with_quotes(characters: Characters) -> Characters:
    """Replaces each pair of QUOTES by a double quote, first ` and then '."""
    for quote in QUOTES:
        x, text = characters.points.values, row_numbers(characters.points)
        has_next = shift(tf.equal(text, shift(text, 1)) & (tf.range(tf.size(x)) > 0), -1)
        is_quote = tf.equal(x, ord(quote))
        pairs = without_overlaps(is_quote & shift(is_quote, -1) & has_next)
        x = tf.where(pairs, ord('"'), x)
        characters = chosen(Characters(characters.points.with_values(x), characters.sources), ~shift(pairs, 1))
    return characters


def chosen(characters: Characters, flags: tf.Tensor) -> Characters:
    """The characters whose flag is set. flags: bool [C]."""
    splits = tf.gather(tf.concat([[0], tf.cumsum(tf.cast(flags, tf.int64))], 0), characters.points.row_splits)
    values, sources = (tf.boolean_mask(x, flags) for x in (characters.points.values, characters.sources))
    return Characters(tf.RaggedTensor.from_row_splits(values, splits, validate=False), sources)

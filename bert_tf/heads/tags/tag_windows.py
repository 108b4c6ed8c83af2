"""Sentences of words as rows of tokens: long sentences in overlapping windows, short ones with context if requested.

N words, P tokens of all words, S sentences, R rows (windows of sentences), T = max_seq_length. A row is
[CLS] window [SEP]; a word is represented by its first token (Devlin et al. 2018, section 5.3).
"""

from __future__ import annotations

import dataclasses

from bert_tf.data import windows as sliding
from bert_tf.runtime.lazy import tf
from bert_tf.text.tokenizer import Tokenizer, pack


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagWindows:
    """Layout of sentences in rows.

    stride: tokens from the start of a window to the next, for sentences that do not fit into one row.
    document_context: fill rows with surrounding tokens from the document, equally many on both sides.
    """

    max_seq_length: int
    stride: int
    document_context: bool = False

    def __post_init__(self) -> None:
        sliding.check_stride(self.stride, self.max_seq_length)

    def plan(self, bounds: tf.Tensor, owners: tf.Tensor, tokens: tf.Tensor) -> list[tf.Tensor]:
        """Plans the rows of sentences without context; a sentence without tokens has no row.

        bounds: the tokens of sentences, int32 [S + 1]; owners, tokens: sentence and first token of words, int32 [N].

        Returns the first token of each row and its number of tokens, int32 [R], and the row and the position there that
        show each word with the most context (see `data.windows.max_context`), int32 [N].
        """
        lengths, room = bounds[1:] - bounds[:-1], self.max_seq_length - 2
        counts = tf.where(lengths > 0, sliding.window_counts(lengths, room, self.stride), 0)
        strides = tf.fill(tf.shape(lengths), self.stride)
        windows = sliding.SegmentWindows(lengths, tf.minimum(lengths, room), strides, counts)
        sentences, numbers = sliding.enumerate_windows(counts)  # [R]
        firsts = tf.gather(bounds, sentences) + windows.starts(sentences, numbers)
        best, positions = sliding.best_windows(tokens - tf.gather(bounds, owners), owners, windows)
        best += tf.gather(tf.cumsum(counts, exclusive=True), owners)
        return [firsts, tf.gather(windows.sizes, sentences), best, 1 + positions]

    def rows(self, tokenizer: Tokenizer, ids: tf.Tensor, firsts: tf.Tensor, sizes: tf.Tensor) -> dict[str, tf.Tensor]:
        """The rows with these tokens of `ids` int32 [P], as made by `text.tokenizer.pack`: [R, T]."""
        return pack(tokenizer, [sliding.gather_ranges(ids, firsts, sizes)], self.max_seq_length)

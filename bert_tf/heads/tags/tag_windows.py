"""Sentences of words as rows of tokens: long sentences in overlapping windows, short ones with context if requested.

N words, P tokens of all words, S sentences, R rows (windows of sentences), T = max_seq_length. A row is
[CLS] window [SEP]; a word is represented by its first token (Devlin et al. 2018, section 5.3).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from bert_tf.data import windows as sliding
from bert_tf.runtime.lazy import tf
from bert_tf.text.tokenizer import Tokenizer, pack


class RowPlan(NamedTuple):
    """The tokens in each row, and the rows of each sentence.

    firsts, sizes: the first token of a row among all tokens, and its token count; owners: its sentence: int32 [R].
    begins: the first token of a sentence; first_rows: its first row; windows: how they cover it: int32 [S].
    """

    firsts: tf.Tensor
    sizes: tf.Tensor
    owners: tf.Tensor
    begins: tf.Tensor
    first_rows: tf.Tensor
    windows: sliding.SegmentWindows

    def best_rows(self, sentences: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
        """The row with the most context for a token (see `data.windows.max_context`), int32 [N].

        tokens: positions among all tokens; sentences: the sentences of the tokens, int32 [N].
        """
        numbers, _ = sliding.best_windows(tokens - tf.gather(self.begins, sentences), sentences, self.windows)
        return tf.gather(self.first_rows, sentences) + numbers


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

    def plan(self, begins: tf.Tensor, ends: tf.Tensor, lows: tf.Tensor, highs: tf.Tensor) -> RowPlan:
        """Plans the rows of sentences; a sentence without tokens has no row.

        begins, ends: the tokens of each sentence; lows, highs: the tokens of its document, or of the sentence itself
        if rows have no context. int32 [S].
        """
        room = self.max_seq_length - 2
        lengths = ends - begins  # [S]
        counts = tf.where(lengths > 0, sliding.window_counts(lengths, room, self.stride), 0)
        fill = tf.ones_like(lengths)
        windows = sliding.SegmentWindows(lengths, fill * room, fill * self.stride, counts)
        owners, numbers = sliding.enumerate_windows(counts)  # [R]
        length, low, high, begin = (tf.gather(x, owners) for x in (lengths, lows, highs, begins))
        fits = length <= room
        sizes = tf.where(fits, tf.minimum(high - low, room), room)
        centered = tf.clip_by_value(begin - (sizes - length) // 2, low, high - sizes)
        firsts = tf.where(fits, centered, begin + windows.starts(owners, numbers))
        return RowPlan(firsts, sizes, owners, begins, tf.cumsum(counts, exclusive=True), windows)

    def rows(self, tokenizer: Tokenizer, ids: tf.Tensor, firsts: tf.Tensor, sizes: tf.Tensor) -> dict[str, tf.Tensor]:
        """The rows with these tokens of `ids` int32 [P], as made by `text.tokenizer.pack`: [R, T]."""
        return pack(tokenizer, [sliding.gather_ranges(ids, firsts, sizes)], self.max_seq_length)


def tokenize_words(tokenizer: Tokenizer, words: tf.Tensor | list[str]) -> tuple[tf.Tensor, tf.Tensor]:
    """String [N] -> ids int32 [P] of each word tokenized separately, and the tokens per word, int32 [N]."""
    ids = tokenizer.inside_text(tf.convert_to_tensor(words, tf.string))
    return ids.values, tf.cast(ids.row_lengths(), tf.int32)

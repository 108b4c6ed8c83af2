"""Splits texts at added tokens in the TensorFlow graph, like Hugging Face's `tokenizers`.

B texts, P parts of all texts (added tokens and the text between them), N tokens of all texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.runtime.lazy import tf
from bert_tf.text.byte_level import spaces_for_blanks
from bert_tf.text.characters import SPACES, special_token_pattern, word_characters
from bert_tf.text.ragged_scan import row_numbers, shift
from bert_tf.text.text_kernels import regex_split
from bert_tf.text.tokenizer_settings import AddedToken
from bert_tf.text.wordpiece import as_single_node, character_offsets, when_any

ORDINARY = -1  # id of a part that is not an added token
NO_TOKEN = np.int64(-1)
FOR_NUL = "\x01"  # replaces U+0000, which would end a text, while it is split
BUCKETS = 2**62  # of the hash used to find tokens


class Parts(NamedTuple):
    """The parts of a batch: texts [P], row splits of the batch [B + 1], begin and end of each in bytes [P].

    ids: ids of added tokens, int32 [P]; ORDINARY for other parts.
    """

    texts: tf.Tensor
    splits: tf.Tensor
    begins: tf.Tensor
    ends: tf.Tensor
    ids: tf.Tensor

    def ordinary(self) -> tf.Tensor:
        """The parts, with added tokens replaced by empty strings: string [P]."""
        return tf.where(tf.equal(self.ids, ORDINARY), self.texts, "")

    def joined(self, tokens: tf.RaggedTensor, *offsets: tf.Tensor) -> tuple[tf.RaggedTensor, list[tf.Tensor]]:
        """Tokens of the ordinary parts [P, (tokens)] and their offsets there [N] -> tokens and offsets of the batch.

        Avoids `tf.concat` of ragged tensors: its assertion becomes state in a saved iterator.
        """
        is_added = tf.not_equal(self.ids, ORDINARY)
        splits = tokens.row_splits + tf.concat([[0], tf.cumsum(tf.cast(is_added, tf.int64))], 0)
        part = row_numbers(tf.RaggedTensor.from_row_splits(tf.range(splits[-1]), splits, validate=False))
        from_added = tf.gather(is_added, part)
        before = tf.cumsum(tf.cast(from_added, tf.int64), exclusive=True)  # added tokens before each token
        place = tf.where(from_added, tf.size(tokens.values, tf.int64) + before, tf.range(splits[-1]) - before)

        def join(values: tf.Tensor, of_parts: tf.Tensor) -> tf.Tensor:
            return tf.gather(tf.concat([values, tf.boolean_mask(of_parts, is_added)], 0), place)

        begin, bounds = tf.gather(self.begins, row_numbers(tokens)), (self.begins, self.ends)
        flat = [join(offset + begin, bound) for offset, bound in zip(offsets, bounds, strict=False)]
        ids = join(tokens.values, self.ids)
        return tf.RaggedTensor.from_row_splits(ids, tf.gather(splits, self.splits), validate=False), flat


class AddedTokenSplit:
    """Splits texts at added tokens; `characters.split_at_added_tokens` does the same in plain Python.

    Args:
        tokens: the tokens, without duplicates; all are matched in the texts as passed.
        ids: their ids.
        without_ideographs: whether ideographs are not word characters.
    """

    def __init__(self, tokens: Sequence[AddedToken], ids: Sequence[int], *, without_ideographs: bool = False) -> None:
        names = (spaces_for_blanks(token.content.replace(" ", "\n")) for token in tokens)
        self._pattern = special_token_pattern(names).replace("\\\n", f"[{SPACES}]")
        self._has_space = any(" " in token.content for token in tokens)
        self._word = (
            word_characters(without_ideographs=without_ideographs) if any(t.single_word for t in tokens) else ""
        )
        self._strips = any(token.lstrip or token.rstrip for token in tokens)
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured, not copied into each graph
            contents = tf.constant([spaces_for_blanks(token.content) for token in tokens])
            hashes = tf.strings.to_hash_bucket_fast(contents, BUCKETS).numpy()
            order = np.argsort(hashes, kind="stable")
            self._hashes, self._contents = tf.constant(hashes[order]), tf.gather(contents, order)
            self._ids = tf.constant(np.array(ids, np.int32)[order])
            self._single, self._lstrip, self._rstrip = (
                tf.constant(np.array([getattr(token, name) for token in tokens], bool)[order])
                for name in ("single_word", "lstrip", "rstrip")
            )
            self._node = as_single_node(self._split)

    def __call__(self, texts: tf.Tensor) -> Parts:
        """texts: string [B] -> their parts; one part per text if none contains a token."""
        has_token = tf.strings.regex_full_match(texts, rf"\C*(?:{self._pattern})\C*")
        sizes = tf.cast(tf.strings.length(texts), tf.int64)
        whole = (
            texts,
            tf.range(tf.size(texts, tf.int64) + 1),
            tf.zeros_like(sizes),
            sizes,
            tf.zeros_like(sizes, tf.int32) + ORDINARY,
        )
        parts, splits, *others = when_any(has_token, self._node, (texts,), whole)
        if texts.shape[0] is not None:
            splits = tf.ensure_shape(splits, [texts.shape[0] + 1])
        return Parts(parts, splits, *others)

    def _split(self, texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        with_nul = tf.strings.regex_full_match(texts, r"\C*\x00\C*")
        pattern = f"({self._pattern})"
        flat, begin, end, splits = regex_split(tf.strings.regex_replace(texts, r"\x00", FOR_NUL), pattern, pattern)
        row = row_numbers(tf.RaggedTensor.from_row_splits(flat, splits, validate=False))
        flat = tf.cond(
            tf.reduce_any(with_nul),
            lambda: tf.where(
                tf.gather(with_nul, row), tf.strings.substr(tf.gather(texts, row), begin, end - begin), flat
            ),
            lambda: flat,
        )
        token = self._find(flat)  # [P], index in the tokens or -1
        inside = tf.concat([[False], tf.equal(row[1:], row[:-1])], 0)[: tf.size(row)]  # not the first of its text
        if self._word:
            token = tf.where(self._flag(self._single, token) & self._is_in_word(flat, inside), NO_TOKEN, token)
            flat, splits, begin, end, token, inside = _merged(flat, splits, begin, end, token, inside)
        if self._strips:
            flat, begin, end = self._stripped(flat, begin, end, token, inside)
        ids = tf.where(token < 0, ORDINARY, tf.gather(self._ids, tf.maximum(token, 0)))
        return flat, splits, begin, end, ids

    def _find(self, parts: tf.Tensor) -> tf.Tensor:
        """The index of each part in the tokens, int64 [P]; -1 if it is not a token."""
        if self._has_space:
            parts = tf.strings.regex_replace(parts, f"[{SPACES}]", " ")
        place = tf.searchsorted(self._hashes, tf.strings.to_hash_bucket_fast(parts, BUCKETS), out_type=tf.int64)
        place = tf.minimum(place, tf.size(self._hashes, tf.int64) - 1)
        return tf.where(tf.equal(tf.gather(self._contents, place), parts), place, NO_TOKEN)

    def _flag(self, flags: tf.Tensor, token: tf.Tensor) -> tf.Tensor:
        """Returns whether each part is a token with a flag, bool [P]."""
        return (token >= 0) & tf.gather(flags, tf.maximum(token, 0))

    def _is_in_word(self, parts: tf.Tensor, inside: tf.Tensor) -> tf.Tensor:
        """Which parts touch a word character, bool [P]."""
        ends_with = tf.strings.regex_full_match(parts, rf"\C*[{self._word}]")
        starts_with = tf.strings.regex_full_match(parts, rf"[{self._word}]\C*")
        return (inside & shift(ends_with, 1)) | shift(inside & starts_with, -1)

    def _stripped(
        self, parts: tf.Tensor, begin: tf.Tensor, end: tf.Tensor, token: tf.Tensor, inside: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Moves white space around tokens into the tokens that strip it, first into the token before it."""
        is_ordinary = token < 0
        after = is_ordinary & inside & shift(self._flag(self._rstrip, token), 1)
        before = is_ordinary & shift(inside & self._flag(self._lstrip, token), -1)
        lengths = [tf.strings.length(parts)]
        for chosen, pattern in ((after, rf"\A[{SPACES}]+"), (before, rf"[{SPACES}]+\z")):
            parts = tf.where(chosen, tf.strings.regex_replace(parts, pattern, ""), parts)
            lengths.append(tf.strings.length(parts))
        left, right = (tf.cast(lengths[i] - lengths[i + 1], tf.int64) for i in range(2))
        return parts, begin + left - shift(right, 1), end - right + shift(left, -1)


def _merged(
    parts: tf.Tensor, splits: tf.Tensor, begin: tf.Tensor, end: tf.Tensor, token: tf.Tensor, inside: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Merges consecutive ordinary parts of a text."""
    is_ordinary = token < 0
    is_first = ~(inside & is_ordinary & shift(is_ordinary, 1))
    counts = tf.cumsum(tf.cast(is_first, tf.int64))
    number = tf.reduce_sum(tf.cast(is_first, tf.int64))
    texts = tf.strings.unsorted_segment_join(parts, counts - 1, number)
    is_last = tf.concat([is_first[1:], [True]], 0)[: tf.size(is_first)]
    firsts = (tf.boolean_mask(x, is_first) for x in (token, inside))
    splits = tf.gather(tf.concat([[0], counts], 0), splits)
    return texts, splits, tf.boolean_mask(begin, is_first), tf.boolean_mask(end, is_last), *firsts


class AddedTokenSplitter:
    """A text splitter with the methods of ExactWordpiece that recognizes added tokens.

    splitter: splits the text between them.
    """

    def __init__(self, splitter: Any, tokens: Sequence[AddedToken], ids: Sequence[int]) -> None:
        self._splitter, self._parts = splitter, AddedTokenSplit(tokens, ids)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """texts: string [B] -> ragged int32 [B, (tokens)]."""
        parts = self._parts(texts)
        return parts.joined(self._splitter.tokenize(parts.ordinary()))[0]

    def tokenize_with_offsets(
        self, texts: tf.Tensor, *, in_characters: bool
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """texts: string [B] -> ids (int32), starts, ends (int64): ragged [B, (tokens)]."""
        parts = self._parts(texts)
        tokens, starts, ends = self._splitter.tokenize_with_offsets(parts.ordinary(), in_characters=False)
        ids, flat = parts.joined(tokens, starts.values, ends.values)
        if in_characters:
            flat = character_offsets(texts, row_numbers(ids), *flat)
        return ids, ids.with_values(flat[0]), ids.with_values(flat[1])

"""Byte-level BPE (GPT-2, RoBERTa) as TensorFlow ops: strings to ids and back, exactly as `tokenizers` does it.

B texts, C characters of a batch, W words of a batch, U different words, N tokens of them, M merges.

Neither TensorFlow nor tensorflow-text has BPE. Here a batch is split into words by character classes (`_starts`) like
GPT-2's regular expression, which depends on three neighboring characters only. A word is looked up if it is a token
that the merges build from its bytes; the other distinct words are merged all at once, in as many rounds as the slowest
of them needs (`_merge`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.runtime.lazy import tf
from bert_tf.text import byte_level
from bert_tf.text.added_tokens import AddedTokenSplitter
from bert_tf.text.byte_level import OTHER, SPACE
from bert_tf.text.ragged_scan import (
    from_row_numbers,
    ragged_rows,
    repeat,
    row_numbers,
    shift,
    utf8_sizes,
    without_overlaps,
)
from bert_tf.text.replacements import BLOCK, paged
from bert_tf.text.text_kernels import tf_text
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.text.tokenizer_settings import AddedToken
from bert_tf.text.vocabulary import SubwordVocabulary
from bert_tf.text.wordpiece import as_single_node, character_offsets, flat_bytes

NEVER = np.iinfo(np.int32).max  # rank of a pair without a merge
BUCKETS = 2**62  # of the hash used to find words; a collision only costs time


class ByteBpeTokenizer(Tokenizer):
    """A byte-level BPE Tokenizer; see `byte_level`. It can encode every text: there are no unknown characters.

    A space belongs to the word after it, so the first word of a text is a different token from the same word inside.
    """

    vocabulary: SubwordVocabulary

    def _new_splitter(self) -> Any:
        return ByteBpe(self.vocabulary)

    def _with_normalized(self, splitter: Any, tokens: Sequence[AddedToken], ids: Sequence[int]) -> Any:
        return AddedTokenSplitter(splitter, tokens, ids)  # texts are not normalized

    def inside_text(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """See Tokenizer; adds a space before each text that is not empty."""
        return self(tf.where(tf.equal(texts, ""), "", tf.strings.join([" ", texts])))

    def continues_word(self, ids: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """See Tokenizer: letters and digits continue those that they touch, and partial characters the part before.

        A word continues the token of the space before it.
        """
        is_part, of_letters = (tf.gather(tf.constant(flags), ids) for flags in (self.is_part, self.is_of_letters))
        touches = tf.equal(starts, shift(ends, 1)) & ~tf.equal(starts, 0)
        is_marked = touches & shift(tf.gather(tf.constant(self.is_mark), ids) & tf.equal(starts, ends), 1)
        return is_part | is_marked | (touches & of_letters & shift(of_letters | is_part, 1))


class BertByteBpeTokenizer(ByteBpeTokenizer):
    """A ByteBpeTokenizer of NFC-normalized texts with BERT's special tokens and sequence layout, as in ModernBERT."""

    def _new_splitter(self) -> Any:
        return Normalizing(super()._new_splitter())

    def _with_normalized(self, splitter: Any, tokens: Sequence[AddedToken], ids: Sequence[int]) -> Any:
        return Normalizing(AddedTokenSplitter(splitter.splitter, tokens, ids))


class Normalizing:
    """Wraps a text splitter: normalizes texts (NFC) first."""

    def __init__(self, splitter: Any) -> None:
        self.splitter = splitter

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """texts: string [B] -> ragged int32 [B, (tokens)]."""
        ids: tf.RaggedTensor = self.splitter.tokenize(tf_text.normalize_utf8(texts, "NFC"))
        return ids

    def tokenize_with_offsets(
        self, texts: tf.Tensor, *, in_characters: bool
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """texts: string [B] -> ids (int32), starts, ends (int64) in the original texts: ragged [B, (tokens)]."""
        normal, places = tf_text.normalize_utf8_with_offsets_map(texts, "NFC")
        ids, starts, ends = self.splitter.tokenize_with_offsets(normal, in_characters=False)
        splits = ids.row_splits + tf.range(tf.size(ids.row_splits, tf.int64))  # a 0 in every row: the kernel needs one
        after = tf.range(tf.size(ids.values, tf.int64)) + row_numbers(ids) + 1

        def of_source(offsets: tf.Tensor) -> tf.Tensor:
            offsets = tf.tensor_scatter_nd_update(tf.zeros([splits[-1]], tf.int64), after[:, None], offsets)
            rows = tf.RaggedTensor.from_row_splits(offsets, splits, validate=False)
            return tf.gather(tf_text.find_source_offsets(places, rows).values, after)

        starts, ends = of_source(starts.values), of_source(ends.values)
        if in_characters:
            starts, ends = character_offsets(texts, row_numbers(ids), starts, ends)
        return ids, ids.with_values(starts), ids.with_values(ends)


class ByteBpe:
    """Implementation behind ByteBpeTokenizer. Constants only: no variable, table or asset."""

    def __init__(self, vocabulary: SubwordVocabulary) -> None:
        ids = {token: number for number, token in enumerate(vocabulary)}
        size = len(vocabulary)
        keys, ranks, products = _merge_table(byte_level.merges_of(ids, vocabulary.rules), ids)
        contents = [byte_level.token_bytes(token) for token in vocabulary]
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured, not copied into each graph
            self._size = tf.constant(size, tf.int64)
            self._keys, self._ranks, self._products = map(tf.constant, (keys, ranks, products))  # [M], sorted by key
            self._pages, self._classes = map(tf.constant, paged(byte_level.character_classes()))
            self._byte_ids = tf.constant([ids[token] for token in byte_level.alphabet()])  # int32 [256]
            self._leading, self._trailing = (
                tf.constant([len(c) - len(strip(c, b" ")) for c in contents], tf.int64)
                for strip in (bytes.lstrip, bytes.rstrip)
            )
            self._merge_node = as_single_node(self._merge)
            self._words = self._hashes = self._word_ids = tf.constant([])
            self._find_words(contents)

    def _find_words(self, contents: list[bytes]) -> None:
        """Finds the tokens that merges build from their own bytes: words that need no merging when they occur."""
        strings = tf.constant(contents)  # [V]
        tokens, _ = self._merge(strings)
        whole = (tokens.row_lengths() == 1).numpy()
        numbers = np.flatnonzero(whole)
        numbers = numbers[tokens.flat_values.numpy()[tokens.row_starts().numpy()[numbers]] == numbers]
        words = tf.gather(strings, numbers)
        hashes = tf.strings.to_hash_bucket_fast(words, BUCKETS).numpy()
        order = np.argsort(hashes, kind="stable")
        self._words, self._hashes = tf.gather(words, order), tf.constant(hashes[order])
        self._word_ids = tf.constant(numbers[order].astype(np.int32))

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """texts: string [B] -> ragged int32 [B, (tokens)]."""
        points = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        ids, _, _ = self._split(texts, points)
        return ids

    def tokenize_with_offsets(
        self, texts: tf.Tensor, *, in_characters: bool
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """texts: string [B] -> ids (int32), starts, ends (int64), without the spaces around: ragged [B, (tokens)]."""
        points, origin = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="ignore")
        ids, first_bytes, last_bytes = self._split(texts, points)
        sizes = utf8_sizes(points.values)  # [C]
        ends_of_characters = tf.cumsum(sizes)
        first, last = (
            tf.searchsorted(ends_of_characters, position, side="right") for position in (first_bytes, last_bytes)
        )
        starts = tf.gather(origin.values, first)
        ends = tf.gather(origin.values, last) + tf.gather(sizes, last)
        starts = tf.minimum(starts + tf.gather(self._leading, ids.values), ends)
        ends = tf.maximum(ends - tf.gather(self._trailing, ids.values), starts)
        if in_characters:
            starts, ends = character_offsets(texts, row_numbers(ids), starts, ends)
        return ids, ids.with_values(starts), ids.with_values(ends)

    def _split(self, texts: tf.Tensor, points: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Code points -> ids [B, (tokens)], and the first and last byte of each, counted over all characters."""
        starts = self._starts(points)  # [C]
        counts = tf.cumsum(tf.cast(starts, tf.int64))
        number = tf.reduce_sum(tf.cast(starts, tf.int64))
        words = from_row_numbers(points.values, counts - 1, number)
        different, index = tf.unique(tf.strings.unicode_encode(words, "UTF-8"))
        tokens, begins, ends = self._tokens_of(different)
        chosen = ragged_rows(tokens.row_splits, index)  # indices of the tokens of each word: [W, (tokens)]
        splits = tf.gather(tf.concat([[0], counts], 0), points.row_splits)  # texts, in words
        splits = tf.gather(chosen.row_splits, splits)
        if texts.shape[0] is not None:
            splits = tf.ensure_shape(splits, [texts.shape[0] + 1])
        ids = tf.RaggedTensor.from_row_splits(tf.gather(tokens.values, chosen.values), splits, validate=False)
        sizes = tf.cast(tf.gather(tf.strings.length(different), index), tf.int64)  # [W]
        base = repeat(tf.cumsum(sizes, exclusive=True), chosen.row_lengths())
        return ids, base + tf.gather(begins, chosen.values), base + tf.gather(ends, chosen.values) - 1

    def _starts(self, points: tf.RaggedTensor) -> tf.Tensor:
        r"""Which characters begin a word, bool [C], according to GPT-2's regular expression.

        's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
        """
        x = points.values
        text = row_numbers(points)
        kind = tf.gather(self._classes, tf.gather(self._pages, x // BLOCK) * BLOCK + x % BLOCK)
        inside = tf.concat([[False], tf.equal(text[1:], text[:-1])], 0)[: tf.size(x)]  # not the first of its text
        before = tf.where(inside, shift(x, 1), -1)
        kind_before = tf.where(inside, shift(kind, 1), -1)
        followed = shift(inside, -1)  # not the last of its text
        next_kind = tf.where(followed, shift(kind, -1), SPACE)
        is_space = tf.equal(kind, SPACE)
        begins = tf.where(
            is_space,
            ~tf.equal(kind_before, SPACE) | ~tf.equal(next_kind, SPACE),
            ~tf.equal(kind_before, kind) & ~tf.equal(before, ord(" ")),
        )
        length = self._contractions(x, before, kind_before, followed)
        after = tf.equal(shift(length, 2), 2) | tf.equal(shift(length, 3), 3)
        return (begins & ~shift(length > 0, 1) & ~tf.equal(shift(length, 2), 3)) | (length > 0) | after | ~inside

    def _contractions(self, x: tf.Tensor, before: tf.Tensor, kind_before: tf.Tensor, followed: tf.Tensor) -> tf.Tensor:
        """Length of 's, 't, 're, 've, 'm, 'll or 'd where one begins, never after punctuation or " ": int32 [C]."""
        first = tf.where(followed, shift(x, -1), -1)
        second = tf.where(followed & shift(followed, -1), shift(x, -2), -1)
        may_begin = tf.equal(x, ord("'")) & ~tf.equal(kind_before, OTHER) & ~tf.equal(before, ord(" "))
        of_two = tf.reduce_any([tf.equal(first, ord(letter)) for letter in "stmd"], 0)
        of_three = tf.reduce_any(
            [tf.equal(first, ord(pair[0])) & tf.equal(second, ord(pair[1])) for pair in ("re", "ve", "ll")], 0
        )
        return tf.where(may_begin & of_two, 2, tf.where(may_begin & of_three, 3, 0))

    def _tokens_of(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Distinct words [U] -> ids [U, (tokens)], and the first byte of each token and the byte after it: [N]."""
        place = tf.searchsorted(self._hashes, tf.strings.to_hash_bucket_fast(words, BUCKETS))
        place = tf.minimum(place, tf.size(self._hashes) - 1)
        is_whole = tf.equal(tf.gather(self._words, place), words)
        whole, others = (tf.where(chosen)[:, 0] for chosen in (is_whole, ~is_whole))
        merged, begins = self._merge_node(tf.gather(words, others))
        counts = tf.tensor_scatter_nd_update(tf.ones_like(place, tf.int64), others[:, None], merged.row_lengths())
        splits = tf.concat([[0], tf.cumsum(counts)], 0)
        of_whole, of_others = tf.gather(splits, whole), ragged_rows(splits, others).values
        total = tf.reshape(splits[-1], [1])  # of a static shape, unlike splits[-1:], so that results have a rank

        def joined(one: tf.Tensor, many: tf.Tensor) -> tf.Tensor:
            return tf.tensor_scatter_nd_update(tf.scatter_nd(of_whole[:, None], one, total), of_others[:, None], many)

        ids = joined(tf.gather(tf.gather(self._word_ids, place), whole), merged.values)
        begin = joined(tf.zeros_like(whole), begins)
        ids = tf.RaggedTensor.from_row_splits(ids, splits, validate=False)
        sizes = tf.cast(tf.strings.length(words), tf.int64)
        is_last = tf.scatter_nd((splits[1:] - 1)[:, None], tf.ones_like(counts), total) > 0
        end = tf.where(is_last, repeat(sizes, counts), shift(begin, -1))
        return ids, begin, end

    def _merge(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Words [U] -> ids [U, (tokens)], and the first byte of each token, int64 [N].

        Each round joins the lowest-ranked pair of every word wherever it occurs, from left to right.
        """
        text_bytes, base = flat_bytes(words)
        count, sizes = tf.size(words), tf.strings.length(words)
        word = repeat(tf.range(count), tf.cast(sizes, tf.int64))
        begin = tf.range(tf.size(word, tf.int64)) - tf.gather(base, word)
        ids = tf.gather(self._byte_ids, tf.cast(text_bytes[: tf.size(word)], tf.int32))

        def step(_: tf.Tensor, ids: tf.Tensor, word: tf.Tensor, begin: tf.Tensor) -> tuple[tf.Tensor, ...]:
            rank, product = self._pairs(ids, word)
            lowest = tf.math.unsorted_segment_min(rank, word, count)
            joins = without_overlaps(tf.equal(rank, tf.gather(lowest, word)) & (rank < NEVER))
            ids = tf.where(joins, product, ids)
            stays = ~shift(joins, 1)
            return tf.reduce_any(joins), *(tf.boolean_mask(x, stays) for x in (ids, word, begin))

        some = tf.TensorShape([None])
        _, ids, word, begin = tf.while_loop(
            lambda goes_on, *_: goes_on,
            step,
            (tf.size(ids) > 0, ids, word, begin),
            shape_invariants=(tf.TensorShape([]), some, some, some),
        )
        return from_row_numbers(ids, word, count), begin

    def _pairs(self, ids: tf.Tensor, word: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """For each token and the next one in its word: the rank of their merge (NEVER if none), and its product."""
        second = shift(ids, -1)
        key = tf.cast(ids, tf.int64) * self._size + tf.cast(second, tf.int64)
        place = tf.minimum(tf.searchsorted(self._keys, key), tf.size(self._keys) - 1)
        has_next = tf.concat([tf.equal(word[1:], word[:-1]), [False]], 0)[: tf.size(word)]
        is_pair = tf.equal(tf.gather(self._keys, place), key) & has_next
        return tf.where(is_pair, tf.gather(self._ranks, place), NEVER), tf.gather(self._products, place)


def _merge_table(merges: list[tuple[str, str]], ids: dict[str, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys (int64, sorted), ranks and products (int32) of merges; the last one counts for repeated pairs."""
    table = {}
    for rank, (first, second) in enumerate(merges):
        table[ids[first] * len(ids) + ids[second]] = rank, ids[first + second]
    keys = sorted(table)
    ranks, products = np.array([table[key] for key in keys], np.int32).T
    return np.array(keys, np.int64), np.ascontiguousarray(ranks), np.ascontiguousarray(products)

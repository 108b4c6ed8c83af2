"""Strings to ids of SentencePiece and back, on the kernel of tensorflow-text, normalized as for ALBERT.

B texts, C characters of a batch, N tokens. ALBERT replaces quotes of two characters, and for uncased models drops
accents and lower-cases; the model then normalizes spaces and compatibility characters itself (Kudo and Richardson
2018).
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.text.characters import normalize_albert
from bert_tf.text.ragged_scan import repeat, row_numbers, shift, utf8_sizes, without_overlaps
from bert_tf.text.text_kernels import tf_text
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.text.tokenizer_settings import AddedToken
from bert_tf.text.vocabulary import SENTENCEPIECE, SubwordVocabulary
from bert_tf.text.wordpiece import as_single_node, character_offsets, flat_bytes

SPACE = "▁"  # stands for the space before a word
SPACES = (0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20)
QUOTES = ("`", "'")  # two of one become a double quote


class SentencePieceTokenizer(Tokenizer):
    """A Tokenizer of a SentencePiece model, whose first five tokens are those of ALBERT's.

    lower_case: also replaces compatibility characters and drops accents (NFKD), as `transformers` does for ALBERT.
    """

    holds_model = True
    vocabulary: SubwordVocabulary

    def _new_splitter(self) -> "SentencePiece":
        return SentencePiece(self.vocabulary, lower_case=self.lower_case)

    def _with_normalized(self, tokens: Sequence[AddedToken], ids: Sequence[int]) -> Any:
        raise UserError(f"{tokens[0].content!r} is looked for in normalized texts, which SentencePiece's are not here.")

    def _continuations(self) -> np.ndarray:
        return np.array([not token.startswith(SPACE) for token in self.vocabulary])

    def continues_word(self, ids: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """As Tokenizer: letters and digits continue those that they touch."""
        of_letters = [self.surface(token).isalnum() for token in self.vocabulary]
        of_letters[self.unknown_id] = True
        is_letter = tf.gather(tf.constant(of_letters), ids)
        touches = tf.equal(starts, shift(ends, 1)) & ~tf.equal(starts, 0)
        return touches & is_letter & shift(is_letter, 1)

    def surface(self, token: str) -> str:
        """As Tokenizer."""
        return token.removeprefix(SPACE)

    def _join(self, row: Any) -> str:
        return "".join(self.vocabulary[i] for i in row if i != self.pad_id).replace(SPACE, " ").strip()


class SentencePiece:
    """What SentencePieceTokenizer is a face of. The model is an attribute of an operation: there is no asset."""

    def __init__(self, vocabulary: SubwordVocabulary, *, lower_case: bool) -> None:
        self._model = vocabulary.rules
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured, not copied into each graph
            changed, lengths, starts, values = _replacements(lower_case)
            self._changed, self._lengths = tf.constant(changed), tf.constant(lengths)
            self._starts, self._values = tf.constant(starts), tf.constant(values)
        # The kernel owns its model, which is lost when TensorFlow forgets the kernels of eager operations: hence a
        # function, which makes one wherever it runs.
        self._node = as_single_node(lambda texts: _flat(_kernel(self._model), texts))

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """texts: string [B] -> ragged int32 [B, (tokens)]."""
        points = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        return self._split(self._normalize(points)[0], texts)[0]

    def tokenize_with_offsets(
        self, texts: tf.Tensor, *, in_characters: bool
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """texts: string [B] -> ids (int32), starts, ends (int64), without the spaces around: ragged [B, (tokens)]."""
        points, origin = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="ignore")
        normal, normal_points, sources = self._normalize(points)
        ids, starts, ends = self._split(normal, texts)
        row = row_numbers(ids)
        text_bytes, base = flat_bytes(normal)
        base = tf.gather(base, row)
        starts, ends = _without_spaces(text_bytes, base + starts, base + ends)  # among all bytes
        last_bytes = tf.cumsum(utf8_sizes(normal_points))  # of normal characters
        first, last = (
            tf.gather(sources, tf.minimum(tf.searchsorted(last_bytes, at, side="right"), tf.size(sources) - 1))
            for at in (starts, tf.maximum(ends - 1, starts))
        )
        is_empty = tf.equal(starts, ends)
        starts = tf.gather(origin.values, first)
        ends = tf.gather(origin.values, last) + tf.gather(utf8_sizes(points.values), last)
        ends = tf.where(is_empty, starts, ends)
        if in_characters:
            starts, ends = character_offsets(texts, row, starts, ends)
        return ids, ids.with_values(starts), ids.with_values(ends)

    def _split(self, normal: tf.Tensor, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Normal texts, string [B] -> ids [B, (tokens)], and starts and ends in bytes of the normal text, int64 [N]."""
        ids, splits, starts, ends = self._node(normal)
        if texts.shape[0] is not None:
            splits = tf.ensure_shape(splits, [texts.shape[0] + 1])
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False), starts, ends

    def _normalize(self, points: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Code points [B, (characters)] -> normal texts, string [B], their characters, and the source of each."""
        values, counts, sources = self._normal_points(points)
        splits = tf.gather(tf.concat([[0], tf.cumsum(counts)], 0), points.row_splits)
        ragged = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        return tf.strings.unicode_encode(ragged, "UTF-8"), values, sources

    def _normal_points(self, points: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Normal code points of all texts, how many each character has, and the character that each comes from."""
        x = _with_quotes(points)
        place = tf.minimum(tf.searchsorted(self._changed, x), tf.size(self._changed) - 1)
        is_changed = tf.equal(tf.gather(self._changed, place), x)
        counts = tf.where(is_changed, tf.gather(self._lengths, place), tf.where(x < 0, tf.constant(0, tf.int64), 1))
        splits = tf.concat([[0], tf.cumsum(counts)], 0)
        sources = repeat(tf.range(tf.size(x, tf.int64)), counts)
        inside = tf.range(tf.size(sources, tf.int64)) - tf.gather(splits, sources)
        replaced = tf.gather(self._values, tf.gather(tf.gather(self._starts, place), sources) + inside)
        return tf.where(tf.gather(is_changed, sources), replaced, tf.gather(x, sources)), counts, sources


def _with_quotes(points: tf.RaggedTensor) -> tf.Tensor:
    """All code points, with a double quote for each pair of QUOTES and -1, nothing, in the second place of it."""
    x, text = points.values, row_numbers(points)
    has_next = tf.concat([tf.equal(text[1:], text[:-1]), [False]], 0)[: tf.size(x)]
    for quote in QUOTES:
        pairs = without_overlaps(tf.equal(x, ord(quote)) & tf.equal(shift(x, -1), ord(quote)) & has_next)
        x = tf.where(shift(pairs, 1), -1, tf.where(pairs, ord('"'), x))
    return x


def _without_spaces(text_bytes: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Ranges of bytes, int64 [N] each, without the spaces at both ends."""
    is_space = tf.reduce_any([tf.equal(text_bytes, space) for space in SPACES], 0)
    others = tf.concat([tf.where(~is_space)[:, 0], [tf.size(text_bytes, tf.int64)]], 0)
    place = tf.searchsorted(others, starts)
    first = tf.minimum(tf.gather(others, place), ends)
    before = tf.searchsorted(others, ends) - 1  # the last byte before the end that is no space
    last = tf.where(before < 0, first, tf.gather(others, tf.maximum(before, 0)) + 1)
    return first, tf.maximum(last, first)


def _kernel(model: bytes) -> tf_text.SentencepieceTokenizer:
    return tf_text.SentencepieceTokenizer(model=model, out_type=tf.int32)


def _flat(kernel: tf_text.SentencepieceTokenizer, texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Ids int32 [N], row splits int64 [B + 1], starts and ends int64 [N]."""
    ids, starts, ends = kernel.tokenize_with_offsets(texts)
    return ids.values, ids.row_splits, tf.cast(starts.values, tf.int64), tf.cast(ends.values, tf.int64)


@functools.cache
def _replacements(lower_case: bool) -> tuple[np.ndarray, ...]:
    """Code points that are replaced, int32 [K], sorted; how many replace each and where they begin; all of these."""
    table = {}
    if lower_case:
        for code in (*range(0xD800), *range(0xE000, 0x110000)):
            replacement = normalize_albert(chr(code))
            if replacement != chr(code):
                table[code] = [ord(c) for c in replacement]
    codes = sorted(table) or [0]
    rows = [table.get(code, [code]) for code in codes]
    lengths = np.array([len(row) for row in rows], np.int64)
    values = np.array([value for row in rows for value in row] + [0], np.int32)
    return np.array(codes, np.int32), lengths, np.cumsum(lengths) - lengths, values


def tokens_of(model: bytes, name: str) -> SubwordVocabulary:
    """The vocabulary of a SentencePiece model; UserError, which names the file, if it is none."""
    try:
        kernel = _kernel(model)
        tokens = [token.decode() for token in kernel.id_to_string(tf.range(kernel.vocab_size())).numpy()]
    except (tf.errors.OpError, UnicodeDecodeError):
        raise UserError(f"{name} is not a SentencePiece model: it may be cut short; fetch it again.") from None
    return SubwordVocabulary(tokens, SENTENCEPIECE, model)

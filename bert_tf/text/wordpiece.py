"""The tokenizer's two kernels: texts to ids and offsets, exact even if a character table is not enough.

B texts, N tokens in the whole batch (flat), W bytes of a model. "Normal" is the normalized text, `row` a token's
text; an offset counts bytes of the original text unless it is called normal.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Collection, Sequence, Set
from typing import Any

import numpy as np

from bert_tf.errors import UserError
from bert_tf.runtime.lazy import tf
from bert_tf.text.characters import is_accent, is_deleted, is_space, reference_tokenize
from bert_tf.text.normalizer import as_letters, build_normalizer_model, final_sigma_pattern
from bert_tf.text.ragged_scan import repeat, row_numbers
from bert_tf.text.text_kernels import tf_text
from bert_tf.text.tokenizer_settings import DEFAULT, MAX_TOKEN_BYTES, TokenizerSettings

UNREACHABLE = "\x02"  # a control, deleted from every text: a token that contains it matches no word
EVERY_BYTE = [bytes([value]) for value in range(256)]
BYTES_OF_CHARACTER = 4  # at most, in UTF-8
HARD_STRINGS = (  # one for each rule that the table, the patterns or the retry must get right
    "Straße ﬁnd ＡＢ， naïve cafe\u0301 İstanbul x² [MASK] don't $5.00 a+b 😀",
    "ΟΔΟΣ ΟΔΟΣ. ΑΣ\u00adΑ Σ Α\u0301Σ\u0301 ΑΣΣ",
    "a\0b a\ufffdb a\u200bb\u00adc a\u00a0b a\u3000b\u2028c\td\r\ne",
    "我爱你 豈 한국어 ひらがな A\u0327\u0301B`c m\u0308\U000e0041 \u0130\u0345 ǅ ﷺ",
    "a" * 200 + " " + "a" * 201 + " " + "я" * 150 + " " + "я" * 201,
    "",
)


def as_single_node(function: Callable) -> Any:
    """Makes a function one node of each graph, traced once: tf.data iterators set up every node again."""
    options = {"autograph": False, "reduce_retracing": True, "experimental_attributes": {"_noinline": True}}
    node = functools.cache(lambda: tf.function(function, **options))
    return functools.wraps(function)(lambda *arguments: node()(*arguments))


class ExactWordpiece:
    """The original tokenizer on tensorflow-text kernels. See `bert_tf.text.tokenizer.Tokenizer`, its public face."""

    def __init__(self, vocabulary: Sequence[str], *, lower_case: bool, settings: TokenizerSettings = DEFAULT) -> None:
        strips_accents = settings.strips_accents(lower_case)
        normalizer, unsupported = build_normalizer_model(lower_case, strips_accents, settings.split_ideographs)
        _refuse_inexact_tokens(vocabulary, unsupported, strips_accents)
        tokens = _matchable(vocabulary, settings.outside_wordpiece())
        if not settings.split_ideographs:
            tokens = [token.translate(as_letters()) for token in tokens]
        self._limit = settings.max_word_characters
        self.added: Any = None  # AddedTokenSplit for tokens looked for in normalized texts
        narrow, positions, values = _wordpiece_models(tuple(tokens), self._limit)
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured, not copied into each graph
            self._normalizer = tf_text.FastBertNormalizer(model_buffer=tf.constant(normalizer))
            self._model = tf.constant(narrow)  # uint8 [W]
            self._wordpiece = tf_text.FastWordpieceTokenizer(model_buffer=self._model, token_out_type=tf.int32)
            self._widening = positions[:, None], values
            self._retry_node = as_single_node(self._retry_long_words)
            self._sigma = final_sigma_pattern() if lower_case and not settings.no_final_sigma else None
            self._check_against_reference(vocabulary, lower_case, settings)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """texts: string [B] -> ragged int32 [B, (tokens)]."""
        return self._split(texts, self._normalizer.normalize(self._lowered_sigma(texts)))[0]

    def tokenize_with_offsets(
        self, texts: tf.Tensor, *, in_characters: bool
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """texts: string [B] -> ids (int32), starts, ends (int64): ragged [B, (tokens)]."""
        normal, origin = self._normalizer.normalize_with_offsets(self._lowered_sigma(texts))  # origin of each byte
        ids, normal_starts, normal_ends = self._split(texts, normal)
        row = row_numbers(ids)  # [N]
        base = tf.gather(origin.row_starts(), row)
        starts, ends, last = (
            tf.gather(origin.values, base + offset) for offset in (normal_starts, normal_ends, normal_ends - 1)
        )
        inside = tf.equal(ends, last)  # [N], the token ends inside the normalization of its last character
        ends = when_any(inside, _ends_of_characters, (texts, row, last, inside, ends), ends)
        if in_characters:
            starts, ends = character_offsets(texts, row, starts, ends)
        return ids, ids.with_values(starts), ids.with_values(ends)

    def _lowered_sigma(self, texts: tf.Tensor) -> tf.Tensor:
        return _with_final_sigma(texts, self._sigma) if self._sigma else texts

    def normal(self, texts: Sequence[str]) -> list[str]:
        """The normalized texts, which words are looked for in."""
        with tf.init_scope(), tf.device("CPU:0"):
            normal = self._normalizer.normalize(self._lowered_sigma(tf.constant(list(texts))))
            return [text.decode() for text in normal.numpy()]

    def _split(self, texts: tf.Tensor, normal: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Normal texts, string [B] -> ids: ragged int32 [B, (tokens)], normal starts and ends: int64 [N]."""
        if self.added is None:
            return self._split_words(texts, normal)
        parts = self.added(normal)
        ordinary = parts.ordinary()
        ids, (starts, ends) = parts.joined(*self._split_words(ordinary, ordinary))
        return ids, starts, ends

    def _split_words(self, texts: tf.Tensor, normal: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """`_split` of texts without added tokens."""
        ids, starts, ends = self._wordpiece.tokenize_with_offsets(normal)
        flat = ids.row_splits, ids.values, starts.values, ends.values
        too_long = ends.values - starts.values > self._limit  # in bytes; only possible for a word that is [UNK]
        splits, ids, starts, ends = when_any(too_long, self._retry_node, (normal, too_long, *flat), flat)
        if texts.shape[0] is not None:
            splits = tf.ensure_shape(splits, [texts.shape[0] + 1])
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False), starts, ends

    def _retry_long_words(
        self,
        normal: tf.Tensor,
        too_long: tf.Tensor,
        splits: tf.Tensor,
        ids: tf.Tensor,
        starts: tf.Tensor,
        ends: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Splits words with more bytes than the limit, [UNK] so far, unless they have more characters, too."""
        unknown = tf.where(too_long & (ends - starts <= BYTES_OF_CHARACTER * self._limit))[:, 0]  # [words]
        row = tf.searchsorted(splits, unknown, side="right") - 1
        words = _substrings(normal, row, tf.gather(starts, unknown), tf.gather(ends, unknown))
        short = tf.where(tf.strings.length(words, "UTF8_CHAR") <= self._limit)[:, 0]
        unknown = tf.gather(unknown, short)
        wide = tf_text.FastWordpieceTokenizer(
            model_buffer=tf.tensor_scatter_nd_update(self._model, *self._widening), token_out_type=tf.int32
        )
        new_ids, new_starts, new_ends = wide.tokenize_with_offsets(tf.gather(words, short))
        shift = repeat(tf.gather(starts, unknown), new_ids.row_lengths())
        # Each [UNK] at `unknown` is replaced by its new tokens: `source` is the old index of each token afterwards.
        counts = tf.tensor_scatter_nd_update(tf.ones_like(starts), unknown[:, None], new_ids.row_lengths())  # [N]
        source = repeat(tf.range(tf.size(ids)), counts)  # [N afterwards]
        is_replaced = tf.scatter_nd(unknown[:, None], tf.ones_like(unknown), tf.shape(starts, tf.int64))
        new = tf.where(tf.gather(is_replaced, source) > 0)

        def replace(old: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
            return tf.tensor_scatter_nd_update(tf.gather(old, source), new, values)

        splits = tf.gather(tf.concat([[0], tf.cumsum(counts)], 0), splits)
        return (
            splits,
            replace(ids, new_ids.values),
            replace(starts, new_starts.values + shift),
            replace(ends, new_ends.values + shift),
        )

    def _check_against_reference(
        self, vocabulary: Sequence[str], lower_case: bool, settings: TokenizerSettings
    ) -> None:
        """Raises RuntimeError if the kernels differ from the reference, which a new tensorflow-text could cause."""
        known = set(vocabulary)
        longest = sorted((token for token in known if token.isalpha()), key=lambda token: (len(token), token))[-3:]
        texts = [*HARD_STRINGS, " ".join(longest), "".join(longest).upper()]
        for text, ids in zip(texts, self.tokenize(tf.constant(texts)).to_list(), strict=True):
            tokens = [vocabulary[i] for i in ids]
            expected = reference_tokenize(text, known, lower_case=lower_case, settings=settings)
            if tokens != expected:
                raise RuntimeError(
                    f"tensorflow-text {tf_text.__version__} splits {text[:40]!r} into {tokens}, the original BERT into "
                    f"{expected}; use the versions of TensorFlow and Python that bert_tf requires."
                )


def when_any(flags: tf.Tensor, rare: Any, arguments: Sequence[Any], otherwise: Any) -> Any:
    """`rare(*arguments)` if any flag is set; eagerly without its graph, which costs more than a few texts."""
    function = rare.__wrapped__ if tf.executing_eagerly() else rare
    return tf.cond(tf.reduce_any(flags), lambda: function(*arguments), lambda: otherwise)


def _refuse_inexact_tokens(vocabulary: Collection[str], unsupported: Set[str], strips_accents: bool) -> None:
    """Raises UserError for a token that the kernels could not treat exactly as the original does."""
    characters = set().union(*vocabulary)
    split_at = characters & unsupported
    marks = {c for c in characters if strips_accents and unicodedata.combining(c) and not is_accent(c)}
    for token in vocabulary:
        if not split_at.isdisjoint(token):
            raise UserError(f"The token {token!r} has a character that tensorflow-text splits at; remove it.")
        if len(token.encode()) > MAX_TOKEN_BYTES:
            raise UserError(f"The token {token[:20]!r}... has {len(token.encode())} bytes; at most 200 can be matched.")
        if not marks.isdisjoint(token):
            raise UserError(f"The token {token!r} has a combining mark whose order matters; use lower_case=False.")


def _matchable(vocabulary: Sequence[str], outside: Set[str]) -> list[str]:
    """The vocabulary with placeholders for tokens that no word can match: repeated later, empty or with a space.

    outside: other tokens that no word may match.
    """
    last_index = {token: i for i, token in enumerate(vocabulary)}
    in_no_word = {c for c in set().union(*vocabulary) if is_space(c) or is_deleted(c)}

    def can_match(i: int, token: str) -> bool:
        return token not in {"", "##", *outside} and last_index[token] == i and in_no_word.isdisjoint(token)

    return [token if can_match(i, token) else f"{UNREACHABLE}{i}" for i, token in enumerate(vocabulary)]


@functools.lru_cache(maxsize=8)  # tokenizers in a process may share a vocabulary
def _wordpiece_models(vocabulary: tuple[str, ...], limit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The WordPiece flatbuffer with a word limit in bytes; where and how it differs for a limit in characters."""

    def model(most_bytes: int) -> np.ndarray:
        buffer = tf_text.build_fast_wordpiece_model(vocabulary, most_bytes, "##", "[UNK]", False, False)
        return np.frombuffer(buffer, np.uint8)

    narrow, wide = model(limit), model(BYTES_OF_CHARACTER * limit)
    positions = np.flatnonzero(narrow != wide)
    if len(narrow) != len(wide) or len(positions) > 4:
        raise RuntimeError(f"The layout of the WordPiece model of tensorflow-text {tf_text.__version__} is unknown.")
    return narrow, positions, wide[positions]


def _with_final_sigma(texts: tf.Tensor, pattern: str) -> tf.Tensor:
    """String [B] -> string [B]. Both sigmas have two bytes, so offsets do not change.

    Next to bytes that are not UTF-8 a sigma is not made final: the pattern cannot match across them.
    """
    has_sigma = tf.strings.regex_full_match(texts, r"\C*Σ\C*")  # \C: any byte, to match texts that are not UTF-8 too

    return when_any(has_sigma, _replace_sigma, (texts, has_sigma, pattern), texts)


@as_single_node
def _replace_sigma(texts: tf.Tensor, has_sigma: tf.Tensor, pattern: str) -> tf.Tensor:
    finals = tf.strings.regex_replace(tf.boolean_mask(texts, has_sigma), pattern, r"\1ς\2")
    return tf.tensor_scatter_nd_update(texts, tf.where(has_sigma), finals)


@as_single_node
def _ends_of_characters(
    texts: tf.Tensor, row: tf.Tensor, last: tf.Tensor, inside: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """For the tokens `inside`: the end of the character that starts at `last`, by its first byte. int64 [N]."""
    text_bytes, base = flat_bytes(texts)
    lead_positions = tf.gather(base, tf.boolean_mask(row, inside)) + tf.boolean_mask(last, inside)
    lead = tf.gather(text_bytes, lead_positions)
    size = 1 + sum(tf.cast(lead >= first, tf.int64) for first in (0xC0, 0xE0, 0xF0))
    return tf.tensor_scatter_nd_add(ends, tf.where(inside), size)


def character_offsets(texts: tf.Tensor, row: tf.Tensor, *offsets: tf.Tensor) -> list[tf.Tensor]:
    """Offsets in bytes -> offsets in characters, int64 [N] each: the number of characters that start before."""
    is_multibyte = tf.strings.length(texts, "UTF8_CHAR") < tf.strings.length(texts)  # [B]
    return when_any(is_multibyte, _count_characters, (texts, row, *offsets), list(offsets))


@as_single_node
def _count_characters(texts: tf.Tensor, row: tf.Tensor, *offsets: tf.Tensor) -> list[tf.Tensor]:
    text_bytes, base = flat_bytes(texts)
    is_first = (text_bytes < 0x80) | (text_bytes > 0xBF)  # the others are continuation bytes
    before = tf.cumsum(tf.cast(is_first, tf.int32), exclusive=True)
    zero = tf.gather(tf.gather(before, base), row)  # [N]
    base = tf.gather(base, row)
    return [tf.cast(tf.gather(before, base + offset) - zero, tf.int64) for offset in offsets]


def substrings(texts: tf.Tensor, row: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Substrings of `texts` [B] by character, string [N]: `tf.strings.substr` without copies.

    `substr` takes a text for each part, so many parts of a long text need memory for that many copies of it.
    row: the text of each part; starts, ends: in characters of it, at most its length. int32 [N].
    """
    text_bytes, base = flat_bytes(texts)
    is_first = (text_bytes < 0x80) | (text_bytes > 0xBF)
    places = tf.where(is_first)[:, 0]  # first byte of each character, and one after the last text
    before = tf.cumsum(tf.cast(is_first, tf.int64), exclusive=True)
    number = tf.gather(tf.gather(before, base), row)  # number of the text's first character
    first = tf.gather(base, row)
    starts, ends = (tf.gather(places, number + tf.cast(offset, tf.int64)) - first for offset in (starts, ends))
    return _substrings(texts, row, starts, ends)


def _substrings(texts: tf.Tensor, row: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Parts of texts, string [N], in time that does not grow with tokens x text (as gather and substr would)."""
    text_bytes, base = flat_bytes(texts)
    base = tf.gather(base, row)
    positions = tf.ragged.range(base + starts, base + ends)  # [N, (bytes)]
    letters = tf.gather(EVERY_BYTE, tf.cast(tf.gather(text_bytes, positions.values), tf.int32))
    return tf.strings.unsorted_segment_join(letters, row_numbers(positions), positions.nrows())


def flat_bytes(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """String [B] -> all their bytes and one more, uint8 [bytes + 1], and where each text starts, int64 [B]."""
    sizes = tf.cast(tf.strings.length(texts), tf.int64)
    closed = tf.strings.reduce_join(texts) + "."  # an offset may be the end of the last text
    return tf.io.decode_raw(closed, tf.uint8), tf.cumsum(sizes, exclusive=True)

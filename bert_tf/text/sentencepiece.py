"""SentencePiece unigram models as TensorFlow ops: strings to ids and back, exactly as `tokenizers` does it.

B texts, C characters of a batch, N tokens. A text is normalized (`text.replacements`) and split into words at white
space and before each "▁"; words without "▁" get one; words are split into pieces (`text.unigram`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from bert_tf.runtime.lazy import tf
from bert_tf.text import charsmap, sentencepiece_model, whitespace
from bert_tf.text.byte_level import SPACES
from bert_tf.text.characters import normalize_albert
from bert_tf.text.ragged_scan import ragged_rows, repeat, row_numbers, shift, utf8_sizes
from bert_tf.text.replacements import Characters, Replacements, with_quotes
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.text.unigram import Unigram
from bert_tf.text.vocabulary import SubwordVocabulary
from bert_tf.text.word_marks import SPACE
from bert_tf.text.wordpiece import as_single_node, character_offsets

Step = Callable[[Characters], Characters]


class SentencePieceTokenizer(Tokenizer):
    """A Tokenizer for a SentencePiece model with ALBERT's tokens.

    ALBERT replaces two-character quotes. lower_case: also replaces compatibility characters and drops accents
    (NFKD), as `transformers` does.
    """

    vocabulary: SubwordVocabulary

    def _new_splitter(self) -> SentencePiece:
        model = sentencepiece_model.parse(self.vocabulary.rules)
        if model.is_library:
            return SentencePiece(self.vocabulary.rules, [], tuple(model.left_out), [ord(" ")])
        return self._splitter_of_transformers()

    def _splitter_of_transformers(self) -> SentencePiece:
        names = self.kind.special_tokens
        return SentencePiece(self.vocabulary.rules, self._steps(), () if self.special_tokens else names)

    def ids_with_masks(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """See Tokenizer; a model with a user-defined mask finds it in texts."""
        has_mask = self.mask_token in sentencepiece_model.parse(self.vocabulary.rules).own
        return self(texts) if has_mask else super().ids_with_masks(texts)

    def _steps(self) -> list[Step]:
        """Normalization steps before the model's own."""
        return [with_quotes, *([Replacements(_folding(), in_clusters=False)] if self.lower_case else [])]

    def continues_word(self, ids: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """See Tokenizer: letters and digits continue those that they touch, and any token continues a single ▁."""
        is_letter, is_mark = (tf.gather(tf.constant(flags), ids) for flags in (self.is_of_letters, self.is_mark))
        touches = tf.equal(starts, shift(ends, 1)) & ~tf.equal(starts, 0)
        is_marked = shift(is_mark, 1) & tf.equal(starts, shift(starts, 1))
        return is_marked | (touches & is_letter & shift(is_letter, 1))


class XlnetTokenizer(SentencePieceTokenizer):
    """A Tokenizer for a SentencePiece model with XLNet's tokens; never lower-cases but drops accents.

    Sequences begin with <cls>, which the encoder moves to the end.
    """

    def _steps(self) -> list[Step]:
        return [with_quotes, Replacements(_folding(lower_case=False), in_clusters=False)]


class XlmRobertaTokenizer(SentencePieceTokenizer):
    """A Tokenizer for a SentencePiece model with the tokens of XLM-RoBERTa and CamemBERT; never lower-cases."""

    def _steps(self) -> list[Step]:
        return []


class DebertaTokenizer(SentencePieceTokenizer):
    """A Tokenizer for a SentencePiece model with BERT's special tokens, as in DeBERTa-v2 and -v3.

    Spaces are parts of words. If the vocabulary is from a tokenizer.json of transformers 5, normalization is NFC, else
    the model's own.
    """

    def _splitter_of_transformers(self) -> SentencePiece:
        names = () if self.special_tokens else self.kind.special_tokens
        is_nfc = sentencepiece_model.parse(self.vocabulary.rules).is_nfc
        steps: list[Step] = [whitespace.single_spaces, whitespace.composed] if is_nfc else [whitespace.stripped]
        after: Step = whitespace.right_stripped if is_nfc else whitespace.single_blanks
        return SentencePiece(self.vocabulary.rules, steps, names, (), after=[after])


class SentencePiece:
    """Implementation behind SentencePieceTokenizer. Constants only: no variable, table or asset.

    Args:
        rules: the content of the model file.
        steps: normalization steps before the model's own.
        left_out: tokens that no text contains.
        spaces: code points between words; (): none; a space becomes the "▁" of the word after it.
        after: normalization steps after the model's own.
    """

    def __init__(
        self,
        rules: bytes,
        steps: Sequence[Step],
        left_out: Sequence[str] = (),
        spaces: Sequence[int] = SPACES,
        after: Sequence[Step] = (),
    ) -> None:
        model = sentencepiece_model.parse(rules)
        self._steps: list[Step] = [
            *steps,
            *([Replacements(table)] if (table := charsmap.parse(model.charsmap)) else []),
            *after,
        ]
        self._keeps_blanks = not spaces
        numbers = sentencepiece_model.byte_ids(model)
        self._unigram = Unigram(model.pieces, model.unknown_id, left_out, numbers)
        self.added: Any = None  # AddedTokenSplit for tokens looked for in normalized texts
        with tf.init_scope(), tf.device("CPU:0"):  # eager: captured, not copied into each graph
            self._spaces = tf.constant([*spaces, 2**31 - 1], tf.int32)
            self._node = as_single_node(self._tokens)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """texts: string [B] -> ragged int32 [B, (tokens)]."""
        return self._ragged(texts)[0]

    def tokenize_with_offsets(
        self, texts: tf.Tensor, *, in_characters: bool
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """texts: string [B] -> ids (int32), starts, ends (int64), without surrounding spaces: ragged [B, (tokens)]."""
        ids, starts, ends = self._ragged(texts)
        if in_characters:
            starts, ends = character_offsets(texts, row_numbers(ids), starts, ends)
        return ids, ids.with_values(starts), ids.with_values(ends)

    def normal(self, texts: Sequence[str]) -> list[str]:
        """The normalized texts, which pieces are looked for in."""
        with tf.init_scope(), tf.device("CPU:0"):
            normal = self._normalize(tf.strings.unicode_decode(list(texts), "UTF-8")).points
            return [text.decode() for text in tf.strings.unicode_encode(normal, "UTF-8").numpy()]

    def _ragged(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        ids, splits, starts, ends = self._node(texts)
        if texts.shape[0] is not None:
            splits = tf.ensure_shape(splits, [texts.shape[0] + 1])
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False), starts, ends

    def _tokens(self, texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Ids int32 [N], row splits int64 [B + 1], starts and ends in bytes int64 [N]."""
        points, origin = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="ignore")
        normal, sources = self._normalize(points)
        if self.added is None:
            ids, first, last = self._words(normal)
            base = tf.gather(normal.row_starts(), row_numbers(ids))
            first, last = base + first, base + last  # among all characters
        else:
            parts = self.added(tf.strings.unicode_encode(normal, "UTF-8"))
            inside = tf.strings.unicode_decode(parts.ordinary(), "UTF-8")
            ids, first, last = self._words(inside)
            bounds = tf.concat([[0], tf.cumsum(utf8_sizes(inside.values))], 0)  # in bytes
            part = tf.gather(inside.row_starts(), row_numbers(ids))
            zero = tf.gather(bounds, part)
            starts, ends = (tf.gather(bounds, part + each) - zero for each in (first, last + 1))
            ids, (starts, ends) = parts.joined(ids, starts, ends)
            bounds = tf.cumsum(utf8_sizes(normal.values))
            zero = tf.gather(tf.concat([[0], bounds], 0), tf.gather(normal.row_starts(), row_numbers(ids)))
            first, last = (
                tf.searchsorted(bounds, zero + at, side="right", out_type=tf.int64) for at in (starts, ends - 1)
            )
        first, last = tf.gather(sources, first), tf.gather(sources, last)
        ends = tf.gather(origin.values, last) + tf.gather(utf8_sizes(points.values), last)
        return ids.values, ids.row_splits, tf.gather(origin.values, first), ends

    def _normalize(self, points: tf.RaggedTensor) -> Characters:
        characters = Characters(points, tf.range(tf.size(points.values, tf.int64)))
        for step in self._steps:
            characters = step(characters)
        return characters

    def _words(self, points: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Normalized texts -> ids [B, (tokens)], and the first and last character of each in its text: int64 [N]."""
        x, text = points.values, row_numbers(points)
        is_space = tf.equal(tf.gather(self._spaces, tf.searchsorted(self._spaces, x)), x)
        follows = tf.equal(text, shift(text, 1)) & (tf.range(tf.size(x)) > 0) & ~shift(is_space, 1)
        is_blank = tf.equal(x, ord(" ")) & self._keeps_blanks
        has_mark = tf.equal(x, ord(SPACE)) | is_blank
        begins = ~is_space & (has_mark | ~follows)
        copies = tf.cast(~is_space, tf.int64) + tf.cast(begins & ~has_mark, tf.int64)  # one more for ▁
        place = repeat(tf.range(tf.size(x, tf.int64)), copies)  # source of each character of the words
        is_copy = tf.equal(place, shift(place, 1)) & (tf.range(tf.size(place)) > 0)
        is_first = tf.gather(begins, place) & ~is_copy
        letters = tf.where(is_first, ord(SPACE), tf.gather(x, place))
        starts = tf.concat([tf.where(is_first)[:, 0], [tf.size(place, tf.int64)]], 0)
        words = tf.RaggedTensor.from_row_splits(letters, starts, validate=False)
        different, index = tf.unique(tf.strings.unicode_encode(words, "UTF-8"))
        tokens, first, last = self._unigram(different)
        chosen = ragged_rows(tokens.row_splits, index)  # indices of the tokens of each word: [words, (tokens)]
        base = repeat(starts[:-1], chosen.row_lengths())
        before = tf.concat([[0], tf.cumsum(tf.cast(begins, tf.int64))], 0)  # words before each character
        splits = tf.gather(chosen.row_splits, tf.gather(before, points.row_splits))
        ids = tf.RaggedTensor.from_row_splits(tf.gather(tokens.values, chosen.values), splits, validate=False)
        zero = tf.gather(points.row_starts(), row_numbers(ids))
        first, last = (tf.gather(place, base + tf.gather(each, chosen.values)) for each in (first, last))
        if self._keeps_blanks:  # offsets begin after a token's space, if a character follows
            first += tf.cast(
                tf.gather(is_blank & shift(tf.equal(text, shift(text, 1)) & ~is_blank, -1), first), tf.int64
            )
            last = tf.maximum(first, last)
        return ids, first - zero, last - zero


@functools.cache
def _folding(*, lower_case: bool = True) -> dict[str, str]:
    """Replacements of uncased ALBERT models and, without lower-casing, XLNet: {character: others}."""
    codes = (*range(0xD800), *range(0xE000, 0x110000))
    return {c: folded for c in map(chr, codes) if (folded := normalize_albert(c, lower_case=lower_case)) != c}

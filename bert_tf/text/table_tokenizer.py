"""Texts to WordPiece ids without TensorFlow, for processes that prepare records: a hash table of words in NumPy.

B texts, N bytes, W words, T tokens. Produces the ids of `bert_tf.text.tokenizer.Tokenizer`, using its reference in
`bert_tf.text.characters`: each distinct word is split once in plain Python, then found in a table by its bytes.
"""

import re
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from bert_tf.text.any_tokenizer import AnyTokenizer
from bert_tf.text.characters import (
    clean,
    fold,
    is_punctuation,
    is_space,
    isolate_punctuation,
    special_token_pattern,
    split_at_added_tokens,
    wordpiece,
)
from bert_tf.text.tokenizer_kinds import WORDPIECE
from bert_tf.text.tokenizer_settings import DEFAULT, TokenizerSettings
from bert_tf.text.vocabulary import kind_of, settings_of

if TYPE_CHECKING:
    from bert_tf.text.chinese_words import WordFinder

SEPARATOR = "\n"  # between texts; inside a text it is a space like any other
UNUSUAL = re.compile(r"[^ -~]+")  # controls, spaces except U+0020, and anything that is not ASCII
SPACE, LETTER, ALONE = range(3)  # kinds of bytes; bytes of non-ASCII characters are letters
KINDS = np.array([LETTER] * 256, np.uint8)
KINDS[[code for code in range(128) if is_space(chr(code))]] = SPACE
KINDS[[code for code in range(128) if is_punctuation(chr(code))]] = ALONE
KEY = np.dtype("<u8")  # eight bytes of a word
LONGEST_KEY = 16  # bytes of a word that fits the table; longer ones are in a dictionary only
PREFIX_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], KEY)
MAX_WORDS = 1 << 17  # the table is then cleared: memory stays bounded
SLOT_BITS = 19
MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], KEY)


class TableTokenizer(AnyTokenizer):
    """Splits texts into ids exactly like the original, `reference_tokenize`, but at NumPy's speed.

    Recognizes special tokens in raw texts only, not in normalized ones.
    """

    words: "WordFinder | None" = None  # Chinese words, see `record_tokenizer`

    @classmethod
    def of(cls, vocabulary: Sequence[str], lower_case: bool, special_tokens: tuple[str, ...] = ()) -> Self | None:
        """The one for a WordPiece vocabulary; None for others, and for tokens to recognize in normalized texts."""
        is_raw = not any(token.normalized for token in settings_of(vocabulary).found_as(special_tokens))
        if kind_of(vocabulary) == WORDPIECE and is_raw:
            return cls(vocabulary, lower_case, special_tokens_in_strings=special_tokens)
        return None

    def _set_up(self) -> None:
        outside = self.settings.outside_wordpiece()
        self._pieces = {token: number for token, number in self.ids.items() if token not in outside}
        self._pattern = re.compile(special_token_pattern(token.content for token in self._found))
        self._forget_words()

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """B texts -> ids of all texts, int32 [T], and the number of tokens of each, int64 [B]."""
        if not (self._found and any(map(self._pattern.search, texts))):
            return self._split(texts)
        parts = [list(split_at_added_tokens(text, self._found)) for text in texts]
        flat = [part for each in parts for part in each]
        ids, counts = self._split(["" if token else text for text, token in flat])
        added = np.array([self.ids[token.content] if token else -1 for _, token in flat], np.int32)
        is_added = added >= 0
        places = (np.cumsum(counts) - counts)[is_added]
        counts = counts + is_added
        bounds = np.cumsum([len(each) for each in parts])
        sums = np.concatenate([[0], np.cumsum(counts)])[np.concatenate([[0], bounds])]
        return np.insert(ids, places, added[is_added]), np.diff(sums)

    def _split(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The same for texts without special tokens."""
        starts, sizes, data, ends_of_texts = self._words(texts)
        words = self._look_up(starts, sizes, data)
        first, count = (np.frombuffer(each, np.int64)[words] for each in (self._first, self._count))
        edges = np.concatenate([[0], np.cumsum(count)])  # tokens before each word
        ids = np.frombuffer(self._tokens, np.int32)[np.repeat(first - edges[:-1], count) + np.arange(edges[-1])]
        return ids, np.diff(edges[np.searchsorted(starts, ends_of_texts)], prepend=0)

    def _words(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """B texts -> starts and sizes of words in bytes, int64 [W]; the bytes, uint8 [N]; ends of texts, int64 [B]."""
        text = SEPARATOR.join(normalize(texts, lower_case=self.lower_case, settings=self.settings)) + SEPARATOR
        encoded = text.encode("utf-8", "ignore")
        data = np.frombuffer(encoded + bytes(LONGEST_KEY), np.uint8)  # eight bytes can be read from any position
        kinds = KINDS[data[: len(encoded)]]
        is_letter, is_alone = kinds == LETTER, kinds == ALONE
        is_start, is_last = is_letter.copy(), is_letter.copy()
        is_start[1:] &= ~is_letter[:-1]
        is_last[:-1] &= ~is_letter[1:]
        starts = np.flatnonzero(is_start | is_alone)
        sizes = np.flatnonzero(is_last | is_alone) + 1 - starts
        return starts, sizes, data, np.flatnonzero(data == ord(SEPARATOR))

    def _look_up(self, starts: np.ndarray, sizes: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Numbers of the words, int64 [W]; splits and adds new words."""
        if len(self._first) > MAX_WORDS:
            self._forget_words()
        low, high = _keys(starts, sizes, data)
        slots = _slots(low, high)
        numbers = self._find(low, high, slots.copy())
        numbers[sizes > LONGEST_KEY] = -1
        for index in np.flatnonzero(numbers < 0).tolist():
            start = starts[index]
            word = data[start : start + sizes[index]].tobytes()
            numbers[index] = (
                self._known[word]
                if word in self._known
                else self._add(word, low[index], high[index], int(slots[index]))
            )
        return numbers

    def _find(self, low: np.ndarray, high: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Numbers of the words with these keys in the table, int64 [W], -1 if it has none; changes `slots`."""
        numbers = self._numbers[slots]
        searching = np.flatnonzero((self._low[slots] != low) | (self._high[slots] != high))
        while len(searching := searching[numbers[searching] >= 0]):  # another word is in the slot: try the next one
            slots[searching] = tried = (slots[searching] + 1) % len(self._numbers)
            numbers[searching] = self._numbers[tried]
            searching = searching[(self._low[tried] != low[searching]) | (self._high[tried] != high[searching])]
        return numbers

    def _add(self, word: bytes, low: np.ndarray, high: np.ndarray, slot: int) -> int:
        """Splits a new word and adds it to the table, or to the dictionary of long words. Returns its number."""
        number, limit = len(self._first), self.settings.max_word_characters
        self._known[word] = number
        tokens = [self.ids[token] for token in wordpiece(word.decode(), self._pieces, limit)]
        self._first.append(len(self._tokens))
        self._count.append(len(tokens))
        self._tokens.extend(tokens)
        if len(word) <= LONGEST_KEY and number < len(self._numbers) // 2:
            while self._numbers[slot] >= 0:
                slot = (slot + 1) % len(self._numbers)
            self._low[slot], self._high[slot], self._numbers[slot] = low, high, number
        return number

    def _forget_words(self) -> None:
        self._low, self._high = np.zeros((2, 1 << SLOT_BITS), KEY)
        self._numbers = np.full(1 << SLOT_BITS, -1, np.int32)
        self._known: dict[bytes, int] = {}
        self._first, self._count, self._tokens = array("q", [0]), array("q", [0]), array("i", [0])  # word 0 is unused


def normalize(texts: Sequence[str], *, lower_case: bool, settings: TokenizerSettings = DEFAULT) -> list[str]:
    """The texts cleaned as in the original; words are then separated by white space or are ASCII punctuation."""
    joined = SEPARATOR.join(texts)
    if joined.isascii() and len(texts) == joined.count(SEPARATOR) + 1 and joined.replace("\n", "").isprintable():
        return [joined.lower() if lower_case else joined]
    return [_normalize(text, lower_case, settings) for text in texts]


def _normalize(text: str, lower_case: bool, settings: TokenizerSettings) -> str:
    if text.isascii() and text.isprintable():
        return text.lower() if lower_case else text
    text = UNUSUAL.sub(lambda match: clean(match[0], split_ideographs=settings.split_ideographs), text)
    text = fold(text, **settings.folding(lower_case))
    return UNUSUAL.sub(lambda match: isolate_punctuation(match[0]), text)


def _keys(starts: np.ndarray, sizes: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first eight bytes of each word and the next eight, zero-padded: uint64 [W] each."""
    eight = np.ndarray(len(data) - 7, KEY, data, strides=(1,))  # the eight bytes from each position on
    low = eight[starts] & PREFIX_MASKS[np.minimum(sizes, 8)]
    high = np.zeros_like(low)
    wide = np.flatnonzero(sizes > 8)
    high[wide] = eight[starts[wide] + 8] & PREFIX_MASKS[np.minimum(sizes[wide] - 8, 8)]
    return low, high


def _slots(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    mixed = low * MULTIPLIERS[0] ^ high * MULTIPLIERS[1]
    mixed ^= mixed >> KEY.type(32)
    return (mixed * MULTIPLIERS[0] >> KEY.type(64 - SLOT_BITS)).astype(np.int64)

"""Texts to ids and offsets without TensorFlow, for inference processes: the tokens of `text.tokenizer`.

P tokens of a text. WordPiece uses the reference, `text.characters`, once per distinct word; other kinds are in
`text.host_subwords`.
"""

import abc
import dataclasses
import functools
import itertools
import re
import string
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.text import special_tokens
from bert_tf.text import vocabulary as vocabularies
from bert_tf.text.any_tokenizer import AnyTokenizer
from bert_tf.text.characters import (
    SIGMA,
    clean,
    fold,
    is_cjk,
    is_punctuation,
    is_space,
    split_at_added_tokens,
    wordpiece,
)
from bert_tf.text.tokenizer_kinds import KINDS, class_of
from bert_tf.text.tokenizer_settings import AddedToken

MAX_WORDS = 1 << 16  # cached; the cache is then cleared: memory stays bounded
MAX_REMEMBERED = 256  # characters of a cached word
ASCII_WORDS = re.compile(rf"[0-9A-Za-z]+|[{re.escape(string.punctuation)}]")


class Tokens(NamedTuple):
    """The tokens of a text: ids, and start and end of each in characters; lists of P int."""

    ids: list[int]
    starts: list[int]
    ends: list[int]

    @classmethod
    def joined(cls, parts: "Sequence[Tokens]") -> "Tokens":
        """The tokens of the parts of a text, with offsets in the whole text."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(list(itertools.chain(*(part[column] for part in parts))) for column in range(3)))

    def moved(self, start: int) -> "Tokens":
        """The tokens with offsets moved by `start`, where their part of the text begins."""
        return Tokens(self.ids, [x + start for x in self.starts], [x + start for x in self.ends]) if start else self


class HostTokenizer(AnyTokenizer, abc.ABC):
    """Produces the tokens of a `text.tokenizer.Tokenizer` with the same arguments, text by text."""

    _named: Mapping[str, AddedToken]  # by normal form
    _normalize: Callable[[str], tuple[Any, list[int]]]  # the normal form, and where each of its characters comes from

    def _set_up(self) -> None:
        self._prepare([token for token in self._found if token.normalized])
        self._added = [token for token in self._found if not token.normalized]

    def __call__(self, text: str) -> list[int]:
        """The ids of a text."""
        return self.with_offsets(text).ids

    def inside_text(self, text: str) -> list[int]:
        """The ids of a word or sentence inside a text."""
        return self(text)

    def flat_ids(self, texts: Sequence[str], *, inside_text: bool = False) -> tuple[list[int], list[int]]:
        """The ids of texts, one after the other, and the number of tokens of each."""
        ids = list(map(self.inside_text if inside_text else self, texts))
        return list(itertools.chain(*ids)), list(map(len, ids))

    def ids_with_masks(self, text: str) -> list[int]:
        """The ids of a text with the mask recognized, see `Tokenizer.ids_with_masks`."""
        text = text.replace(special_tokens.MASK, self.mask_token)
        if self.mask_token in self.special_tokens:
            return self(text)
        mask = special_tokens.unrecognized_mask(self.vocabulary)
        return normal_tokens(text, [mask], self._token, self.with_offsets).ids

    def with_offsets(self, text: str) -> Tokens:
        """The ids of a text, and the offsets of each token in it, in characters; see `Tokenizer.with_offsets`."""
        return normal_tokens(text, self._added, self._token, self._split)

    @abc.abstractmethod
    def continues_word(self, tokens: Tokens) -> np.ndarray:
        """Returns whether each token continues the word of the token before; punctuation counts as words: bool [P]."""

    @abc.abstractmethod
    def _prepare(self, normalized: Sequence[AddedToken]) -> None:
        """Prepares `_split`; normalized: tokens to look for in normalized texts."""

    @abc.abstractmethod
    def _split(self, text: str) -> Tokens:
        """The tokens of a text without the special tokens of the raw text."""

    def _token(self, token: AddedToken, part: str) -> Tokens:
        return Tokens([self.ids[token.content]], [0], [len(part)])

    def _look_for(self, normalized: Sequence[AddedToken]) -> None:
        """Prepares the search for added tokens in normalized texts, in their normal form; the first of two counts."""
        names = {"".join(self._normalize(token.content)[0]): token for token in reversed(normalized)}
        self._named = {normal: token for normal, token in names.items() if normal.strip()}
        self._in_normal = [dataclasses.replace(token, content=normal) for normal, token in self._named.items()]

    def _named_token(self, token: AddedToken, part: str) -> Tokens:
        """The token of a part of a normalized text; `_named` maps the normalized form to the token."""
        return self._token(self._named[token.content], part)


class WordPiece(HostTokenizer):
    """The original's tokens, see `text.tokenizer`."""

    def _prepare(self, normalized: Sequence[AddedToken]) -> None:
        outside = self.settings.outside_wordpiece()
        self._pieces = {token: number for token, number in self.ids.items() if token not in outside}
        self._folding = self.settings.folding(self.lower_case)
        self._words: dict[str, tuple[list[int], list[int]]] = {}  # word -> ids, starts of all and end of the last
        self._normal: dict[str, str] = {}
        self._look_for(normalized)

    def continues_word(self, tokens: Tokens) -> np.ndarray:
        return np.array([self.marks.continues(self.vocabulary[number]) for number in tokens.ids], bool)

    def _split(self, text: str) -> Tokens:
        if text.isascii() and text.isprintable():
            normal, places = text.lower() if self.lower_case else text, None
        else:
            normal, places = self._normalize(text)
        splits = self.settings.split_ideographs
        tokens = normal_tokens(normal, self._in_normal, self._named_token, self._of_normal, without_ideographs=splits)
        return tokens if places is None else _in_source(tokens, places, len(text))

    def _of_normal(self, text: str) -> Tokens:
        tokens = Tokens([], [], [])
        for word, start in _words(text, self.settings.split_ideographs):
            ids, bounds = self._words.get(word) or self._add(word)
            tokens.ids.extend(ids)
            tokens.starts.extend([start + bound for bound in bounds[:-1]])
            tokens.ends.extend([start + bound for bound in bounds[1:]])
        return tokens

    def _add(self, word: str) -> tuple[list[int], list[int]]:
        if len(self._words) >= MAX_WORDS:
            self._words.clear()
        pieces = wordpiece(word, self._pieces, self.settings.max_word_characters)
        sizes = [len(word)] if pieces == ["[UNK]"] else [len(self.surface(piece)) for piece in pieces]
        ids = [self.ids.get(piece, self.unknown_id) for piece in pieces]
        added = ids, [0, *np.cumsum(sizes).tolist()]
        if len(word) <= MAX_REMEMBERED:
            self._words[word] = added
        return added

    def _normalize(self, text: str) -> tuple[str, list[int]]:
        """The normalized text, which words are looked for in, and the original character of each of its characters."""
        normal, places = [], []
        in_context = self.lower_case and self._folding["final_sigma"] and SIGMA in text
        lowered = self._with_final_sigmas(text) if in_context else text
        for place, character in enumerate(lowered):
            found = self._normal.get(character)
            if found is None:
                cleaned = clean(character, split_ideographs=False)
                found = fold(cleaned, **self._folding)
                self._normal[character] = found
            normal.append(found)
            places.extend([place] * len(found))
        return "".join(normal), places

    @staticmethod
    def _with_final_sigmas(text: str) -> str:
        """The text with each capital sigma lower-cased as by `str.lower` in the cleaned text."""
        kept = [(place, character) for place, character in enumerate(text) if clean(character)]
        lowered, characters, at = "".join(character for _, character in kept).lower(), list(text), 0
        for place, character in kept:
            if character == SIGMA:
                characters[place] = lowered[at]
            at += len(character.lower())
        return "".join(characters)


def create_host_tokenizer(
    vocabulary: Sequence[str], lower_case: bool = True, *, special_tokens_in_strings: bool | Sequence[str] = False
) -> HostTokenizer:
    """The tokenizer for a vocabulary and its kind: WordPiece for a plain list. For arguments see AnyTokenizer."""
    kind: type[HostTokenizer] = class_of(KINDS[vocabularies.kind_of(vocabulary)].host)
    return kind(vocabulary, lower_case, special_tokens_in_strings=special_tokens_in_strings)


def normal_tokens(
    text: str,
    added: Collection[AddedToken],
    of_added: Callable[[AddedToken, str], Tokens],
    of_others: Callable[[str], Tokens],
    **options: bool,
) -> Tokens:
    """The tokens of a text, with added tokens looked for in it. options: options of `split_at_added_tokens`."""
    if not added:
        return of_others(text)
    parts, begin = [], 0
    for part, token in split_at_added_tokens(text, added, **options):
        parts.append((of_added(token, part) if token else of_others(part)).moved(begin))
        begin += len(part)
    return Tokens.joined(parts)


def _words(text: str, splits_ideographs: bool) -> Iterator[tuple[str, int]]:
    """The words of a normalized text, each with its start."""
    if text.isascii():
        yield from ((match[0], match.start()) for match in ASCII_WORDS.finditer(text))
        return
    begin = -1
    for place, character in enumerate(text):
        kind = _kind(character)
        if kind == "letter" or kind == "ideograph" and not splits_ideographs:
            begin = place if begin < 0 else begin
            continue
        if begin >= 0:
            yield text[begin:place], begin
            begin = -1
        if kind != "space":
            yield character, place
    if begin >= 0:
        yield text[begin:], begin


@functools.lru_cache(maxsize=1 << 16)
def _kind(character: str) -> str:
    if is_space(character):
        return "space"
    if is_punctuation(character):
        return "mark"
    return "ideograph" if is_cjk(character) else "letter"


def _in_source(tokens: Tokens, places: list[int], size: int) -> Tokens:
    """Maps tokens of a normalized text to the original text of `size` characters.

    A token ends where the next normalized character comes from, so it includes deleted characters after it.
    """
    after = [*places, size]
    ends = [after[end] if after[end] != after[end - 1] else after[end] + 1 for end in tokens.ends]
    return Tokens(tokens.ids, [places[start] for start in tokens.starts], ends)

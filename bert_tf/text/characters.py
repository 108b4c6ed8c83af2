"""The original BERT tokenizer in plain Python: character classes, basic tokenization, WordPiece. Free of TensorFlow.

Follows google-research/bert `tokenization.py` (BasicTokenizer, WordpieceTokenizer). The Unicode version is Python's.
"""

import dataclasses
import functools
import re
import string
import unicodedata
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Set
from typing import Any

from bert_tf.runtime.lazy import module
from bert_tf.text.byte_level import spaces_for_blanks
from bert_tf.text.tokenizer_settings import DEFAULT, AddedToken, TokenizerSettings

normalizers = module("tokenizers.normalizers")
# `\s` of Hugging Face's `tokenizers`.
SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
SIGMA = "Σ"  # the only letter whose lower case depends on its context
IS_SPACE = re.compile(f"[{SPACES}]").match
CJK_RANGES = (  # `_is_chinese_char` of the original: not Hangul, not kana
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def is_deleted(character: str) -> bool:
    """U+0000, U+FFFD and the categories Cc and Cf, except tab, line feed and carriage return."""
    if character in "\t\n\r":
        return False
    return character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf")


def is_space(character: str) -> bool:
    """Tab, line feed, carriage return, category Zs; U+2028 and U+2029 because `str.split` breaks there."""
    return character in "\t\n\r\u2028\u2029" or unicodedata.category(character) == "Zs"


def is_cjk(character: str) -> bool:
    """An ideograph in the original's ranges: a separate word."""
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in CJK_RANGES)


def is_punctuation(character: str) -> bool:
    """ASCII 33-47, 58-64, 91-96, 123-126 and the categories P*: a separate word."""
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def is_accent(character: str) -> bool:
    """Category Mn: dropped from lower-cased text after NFD."""
    return unicodedata.category(character) == "Mn"


class _TranslationTable(dict[int, str]):
    """A table for `str.translate` that calls `rule` once per character."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self.rule = rule

    def __missing__(self, code: int) -> str:
        self[code] = replacement = self.rule(chr(code))
        return replacement


def _clean_character(character: str) -> str:
    if is_deleted(character):
        return ""
    return " " if is_space(character) else character


def _clean_and_split(character: str) -> str:
    return f" {character} " if is_cjk(character) else _clean_character(character)


_CLEAN = {False: _TranslationTable(_clean_character), True: _TranslationTable(_clean_and_split)}
_STRIP_ACCENTS = _TranslationTable(lambda c: "" if is_accent(c) else c)
_ISOLATE_PUNCTUATION = _TranslationTable(lambda c: f" {c} " if is_punctuation(c) else c)


def fold(text: str, *, lower_case: bool, strip_accents: bool, final_sigma: bool = True) -> str:
    """`lower()`, and NFD without Mn: in the original, `lower_case` means both.

    final_sigma: whether a capital sigma at the end of a word becomes a final one.
    """
    if lower_case:
        text = (text if final_sigma else text.replace(SIGMA, SIGMA.lower())).lower()
    return unicodedata.normalize("NFD", text).translate(_STRIP_ACCENTS) if strip_accents else text


def clean(text: str, *, split_ideographs: bool = True) -> str:
    """Drops deleted characters, replaces each space by U+0020 and, by default, puts spaces around ideographs."""
    return text.translate(_CLEAN[split_ideographs])


def isolate_punctuation(text: str) -> str:
    """Puts spaces around punctuation marks."""
    return text.translate(_ISOLATE_PUNCTUATION)


def basic_tokenize(text: str, *, lower_case: bool, settings: TokenizerSettings = DEFAULT) -> list[str]:
    """Cleans a text and splits it into words and punctuation marks, the input of WordPiece: "Don't" -> don ' t."""
    text = clean(text, split_ideographs=settings.split_ideographs)
    return isolate_punctuation(fold(text, **settings.folding(lower_case))).split()


def special_token_pattern(tokens: Iterable[str]) -> str:
    """A regular expression, of Python and RE2, that finds the leftmost and then longest of `tokens`."""
    return "|".join(map(re.escape, sorted(tokens, key=len, reverse=True)))


@functools.cache
def word_characters(*, without_ideographs: bool = False) -> str:
    r"""The ranges of `\w` in Hugging Face's `tokenizers`, for character classes of Python and RE2."""
    joiners = {0x200C, 0x200D}
    circled = {*range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A), *range(0x1F150, 0x1F16A), *range(0x1F170, 0x1F18A)}
    ranges: list[list[str]] = []
    for code in (*range(0xD800), *range(0xE000, 0x110000)):
        character, category = chr(code), unicodedata.category(chr(code))
        is_word = category[0] in "LM" or category in ("Nd", "Nl", "Pc") or code in joiners or code in circled
        if not is_word or without_ideographs and is_cjk(character):
            continue
        if ranges and ord(ranges[-1][1]) == code - 1:
            ranges[-1][1] = character
        else:
            ranges.append([character, character])
    return "".join("-".join(bounds) for bounds in ranges)


def split_at_added_tokens(
    text: str, tokens: Collection[AddedToken], *, without_ideographs: bool = False
) -> Iterator[tuple[str, AddedToken | None]]:
    """Yields (part of a text, its token or None), like `AddedTokenSplit` in the graph.

    without_ideographs: whether ideographs are excluded from words.
    """
    found = {spaces_for_blanks(token.content): token for token in tokens}
    end = 0
    for match in re.finditer(special_token_pattern(found), text) if tokens else ():
        token, start, stop = found[match[0]], match.start(), match.end()
        if token.single_word:
            is_word = re.compile(f"[{word_characters(without_ideographs=without_ideographs)}]").match
            if start and is_word(text, start - 1) or is_word(text, stop):
                continue
        while token.lstrip and start > end and IS_SPACE(text, start - 1):
            start -= 1
        while token.rstrip and IS_SPACE(text, stop):
            stop += 1
        yield text[end:start], None
        yield text[start:stop], token
        end = stop
    yield text[end:], None


def reference_tokenize(
    text: str,
    vocabulary: Set[str],
    *,
    lower_case: bool,
    special_tokens: Collection[str] = (),
    settings: TokenizerSettings = DEFAULT,
) -> list[str]:
    """The WordPiece tokens of one text; `vocabulary` is a set of tokens, `special_tokens` are recognized in texts.

    Slow and simple: the kernels of `bert_tf.text.wordpiece` are checked against it when a tokenizer is built.
    """

    def normalize(part: str) -> str:
        cleaned = clean(part, split_ideographs=settings.split_ideographs)
        return fold(cleaned, **settings.folding(lower_case))

    found, known = settings.found_as(special_tokens), vocabulary - settings.outside_wordpiece()
    names = {normalize(token.content): token.content for token in found if token.normalized}
    of_normal = [dataclasses.replace(settings.found_as([name])[0], content=normal) for normal, name in names.items()]
    tokens: list[str] = []
    for part, special in split_at_added_tokens(text, [token for token in found if not token.normalized]):
        if special:
            tokens.append(special.content)
            continue
        for normal, special in split_at_added_tokens(normalize(part), of_normal):
            words = [] if special else isolate_punctuation(normal).split()
            tokens += [names[special.content]] if special else []
            tokens += [piece for word in words for piece in wordpiece(word, known, settings.max_word_characters)]
    return tokens


def wordpiece(
    word: str, vocabulary: Container[str], limit: int = DEFAULT.max_word_characters, *, inside: bool = False
) -> list[str]:
    """Splits one word into tokens, greedily by longest match; [UNK] if that fails.

    vocabulary: a set or dictionary of tokens. limit: maximum characters of a word; longer words become [UNK]. inside:
    whether `word` is the rest of a longer word, so that its first token begins with ## too.
    """
    if len(word) > limit:
        return ["[UNK]"]
    tokens: list[str] = []
    start = 0
    while start < len(word):
        prefix = "##" if start or inside else ""
        end = next((end for end in range(len(word), start, -1) if prefix + word[start:end] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        tokens.append(prefix + word[start:end])
        start = end
    return tokens


def normalize_albert(text: str, *, lower_case: bool = True) -> str:
    """The normalization of uncased ALBERT models before SentencePiece's own: quotes, NFKD, no accents, lower case.

    XLNet does not lower-case. Uses `tokenizers` because its Unicode version differs from Python's.
    """
    folded: str = _folding(lower_case).normalize_str(text)
    return folded


@functools.cache
def _folding(lower_case: bool) -> Any:
    quotes = [normalizers.Replace(quote, '"') for quote in ("``", "''")]
    steps = [*quotes, normalizers.NFKD(), normalizers.StripAccents()]
    return normalizers.Sequence([*steps, normalizers.Lowercase()] if lower_case else steps)

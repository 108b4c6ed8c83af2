"""NFC normalization with the place of each character, without TensorFlow, as in the library ICU."""

import functools
import itertools
import unicodedata

OVERLAY = "\u0334"  # a mark that sorts before all others
LEADING, VOWELS, TRAILING = (
    "".join(map(chr, range(*ends))) for ends in ((0x1100, 0x1113), (0x1161, 0x1176), (0x11A8, 0x11C3))
)


def composed(text: str) -> tuple[str, list[int]]:
    """The text in NFC, and the position in the original text of each boundary between its characters.

    Inside a composed or decomposed group of characters, it is the end of the group. Parts are composed as in
    the library ICU (`Normalizer2Impl::compose`), which determines these boundaries.
    """
    normal: list[str] = []
    bounds: list[int] = []

    def add(first: int, end: int) -> None:
        part = text[first:end]
        new = unicodedata.normalize("NFC", _in_order(part))
        normal.append(new)
        bounds.extend(range(first, end) if new == part else [first] + [end] * (len(new) - 1))

    at = done = 0
    while at < len(text):
        first, character = at, text[at]
        at += 1
        if _stays(character):
            continue
        before = text[first - 1] if first > done else ""
        is_whole = False  # the part ends here
        if unicodedata.normalize("NFC", character) != character:
            is_whole = _begins(character) and (_ends(character) or _begins(text[at : at + 1]))
            is_whole &= unicodedata.normalize("NFD", character) == unicodedata.normalize("NFC", character)
        elif character in VOWELS and "" < before in LEADING:
            has_trailing = text[at : at + 1] > "" and text[at] in TRAILING
            is_whole = has_trailing or _begins(text[at : at + 1])
            at += has_trailing
            first -= is_whole
        elif character in TRAILING and before in _syllables():
            first, is_whole = first - 1, True
        elif unicodedata.combining(character) and character not in _second():
            while at < len(text) and _is_mark(text[at]) and _class(text[at - 1]) <= _class(text[at]):
                at += 1
            if _begins(text[at : at + 1]):
                continue
        if not is_whole:
            first -= before > "" and not _begins(character) and not _ends(before)
            while not _begins(text[at : at + 1]):
                at += 1
                if _ends(text[at - 1]):
                    break
        for place in range(done, first):
            normal.append(text[place])
            bounds.append(place)
        add(first, at)
        done = at
    normal.append(text[done:])
    return "".join(normal), [*bounds, *range(done, len(text) + 1)]


def _in_order(text: str) -> str:
    """The text with its marks in canonical order: Python takes quadratic time to sort many in a row."""
    runs = itertools.groupby(text, key=lambda character: _class(character) > 0)
    return "".join("".join(sorted(run, key=_class) if is_mark else run) for is_mark, run in runs)


def _class(character: str) -> int:
    return unicodedata.combining(character)


@functools.cache
def _second() -> frozenset[str]:
    """The characters that NFC may join with one before them."""
    parts = (unicodedata.decomposition(chr(code)).split() for code in (*range(0xC0, 0xD800), *range(0xF900, 0x30000)))
    pairs = ("".join(chr(int(x, 16)) for x in each) for each in parts if len(each) == 2 and "<" not in each[0])
    return frozenset([*(pair[1] for pair in pairs if len(unicodedata.normalize("NFC", pair)) == 1), *VOWELS, *TRAILING])


@functools.cache
def _syllables() -> frozenset[str]:
    """Hangul syllables without a trailing consonant."""
    return frozenset(map(chr, range(0xAC00, 0xD7A4, 28)))


@functools.lru_cache(maxsize=1 << 14)
def _stays(character: str) -> bool:
    """Returns whether NFC leaves a character unchanged, whatever is before it."""
    return _begins(character) and unicodedata.normalize("NFC", character) == character


def _is_mark(character: str) -> bool:
    """Returns whether a character is a combining mark that stays and joins nothing."""
    stays = unicodedata.normalize("NFC", character) == character
    return stays and _class(character) > 0 and character not in _second()


@functools.lru_cache(maxsize=1 << 14)
def _begins(character: str) -> bool:
    """Returns whether nothing before a character changes with it; true for ""."""
    first = unicodedata.normalize("NFD", character)[:1]
    return not first or not (_class(first) or first in _second())


@functools.lru_cache(maxsize=1 << 14)
def _ends(character: str) -> bool:
    """Returns whether nothing after a character changes with it."""
    normal = unicodedata.normalize("NFC", character)
    others = (*_second(), OVERLAY)
    return _begins(character) and all(unicodedata.normalize("NFC", character + x) == normal + x for x in others)

"""The original BERT tokenizer in plain Python: what it does to a character, a text, a word. Free of TensorFlow.

Follows google-research/bert `tokenization.py` (BasicTokenizer, WordpieceTokenizer). Unicode is that of Python.
"""

import string
import unicodedata

MAX_CHARACTERS = 200  # of a word, `max_input_chars_per_word` of the original; a longer one is [UNK]
CJK_RANGES = (  # `_is_chinese_char` of the original: not Hangul, not kana
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def is_deleted(character):
    """U+0000, U+FFFD and the categories Cc and Cf, except tab, line feed and carriage return."""
    if character in "\t\n\r":
        return False
    return character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf")


def is_space(character):
    """Tab, line feed, carriage return, category Zs; U+2028 and U+2029 because `str.split` breaks there."""
    return character in "\t\n\r\u2028\u2029" or unicodedata.category(character) == "Zs"


def is_cjk(character):
    """An ideograph of the original's ranges: a word by itself."""
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in CJK_RANGES)


def is_punctuation(character):
    """ASCII 33-47, 58-64, 91-96, 123-126 and the categories P*: a word by itself."""
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def is_accent(character):
    """Category Mn: dropped from lower-cased text after NFD."""
    return unicodedata.category(character) == "Mn"


class _Replacements(dict):
    """A table for `str.translate` that asks `rule` once per character."""

    def __init__(self, rule):
        super().__init__()
        self.rule = rule

    def __missing__(self, code):
        self[code] = new = self.rule(chr(code))
        return new


_CLEANED = _Replacements(lambda c: "" if is_deleted(c) else " " if is_space(c) else f" {c} " if is_cjk(c) else c)
_ACCENTS_DROPPED = _Replacements(lambda c: "" if is_accent(c) else c)
_PUNCTUATION_APART = _Replacements(lambda c: f" {c} " if is_punctuation(c) else c)


def without_case_and_accents(text):
    """`lower()`, NFD, drop Mn: what `lower_case` means in the original."""
    return unicodedata.normalize("NFD", text.lower()).translate(_ACCENTS_DROPPED)


def words(text, *, lower_case):
    """The words and punctuation marks of a text, cleaned: what WordPiece is given. "Don't" -> don ' t"""
    text = text.translate(_CLEANED)
    if lower_case:
        text = without_case_and_accents(text)
    return text.translate(_PUNCTUATION_APART).split()


def plain_pieces(text, vocabulary, *, lower_case):
    """The pieces of one text, longest match first; `vocabulary` is a set of pieces.

    Slow and simple: the automata of `bert_tf.text.wordpiece` are checked against it when a tokenizer is built.
    """
    return [piece for word in words(text, lower_case=lower_case) for piece in longest_matches(word, vocabulary)]


def longest_matches(word, vocabulary, *, inside=False):
    """The pieces of one word, [UNK] where it has others; `vocabulary` is a set or a dictionary of pieces.

    inside: the word is the rest of one, so that its first piece begins with ## too.
    """
    if len(word) > MAX_CHARACTERS:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start or inside else ""
        end = next((end for end in range(len(word), start, -1) if prefix + word[start:end] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces

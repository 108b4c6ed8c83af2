"""Byte-level BPE as in GPT-2 and RoBERTa: its alphabet, its merges, its word splitting. No TensorFlow.

A text is split into words, each with the space before it; the merges join the bytes of a word to tokens, lowest rank
first (Sennrich et al. 2016; openai/gpt-2 `encoder.py`).
"""

import functools
import unicodedata
from collections.abc import Collection, Sequence

import numpy as np

from bert_tf.errors import UserError

HEADER = "#version: 0.2"  # first line of merges.txt
LETTER, NUMBER, SPACE, OTHER = range(4)  # classes of characters
SPACES = (*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
WHITE = "".join(map(chr, SPACES))
CHARACTERS = 0x110000
BLANK = "\u2423"  # for a space in the names of tokens that consist of spaces, which a file of lines cannot store
# Characters added by Unicode 15 and 16: the Unicode version of `tokenizers` does not depend on Python's.
LATER_LETTERS = (
    (0x1C89, 0x1C8A), (0xA7CB, 0xA7CD), (0xA7DA, 0xA7DC), (0x105C0, 0x105F3), (0x10D4A, 0x10D65), (0x10D6F, 0x10D85),
    (0x10EC2, 0x10EC4), (0x1123F, 0x11240), (0x11380, 0x11389), (0x1138B, 0x1138B), (0x1138E, 0x1138E),
    (0x11390, 0x113B5), (0x113B7, 0x113B7), (0x113D1, 0x113D1), (0x113D3, 0x113D3), (0x11BC0, 0x11BE0),
    (0x11F02, 0x11F02), (0x11F04, 0x11F10), (0x11F12, 0x11F33), (0x1342F, 0x1342F), (0x13441, 0x13446),
    (0x13460, 0x143FA), (0x16100, 0x1611D), (0x16D40, 0x16D6C), (0x18CFF, 0x18CFF), (0x1B132, 0x1B132),
    (0x1B155, 0x1B155), (0x1DF25, 0x1DF2A), (0x1E030, 0x1E06D), (0x1E4D0, 0x1E4EB), (0x1E5D0, 0x1E5ED),
    (0x1E5F0, 0x1E5F0), (0x2B739, 0x2B739), (0x2EBF0, 0x2EE5D), (0x31350, 0x323AF),
)  # fmt: skip
LATER_NUMBERS = (
    (0x10D40, 0x10D49), (0x116D0, 0x116E3), (0x11BF0, 0x11BF9), (0x11F50, 0x11F59), (0x16130, 0x16139),
    (0x16D70, 0x16D79), (0x1CCF0, 0x1CCF9), (0x1D2C0, 0x1D2D3), (0x1E4F0, 0x1E4F9), (0x1E5F1, 0x1E5FA),
)  # fmt: skip


@functools.cache
def alphabet() -> list[str]:
    """The character that stands for each byte in tokens: itself if it is printable, else one from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


@functools.cache
def _bytes_of_characters() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(alphabet())}


def spaces_for_blanks(token: str) -> str:
    """A token as it appears in texts."""
    return token.replace(BLANK, " ") if set(token) == {BLANK} else token


def blanks_for_spaces(token: str) -> str:
    """The name of a token that appears in texts."""
    return token.replace(" ", BLANK) if set(token) == {" "} else token


def token_bytes(token: str) -> bytes:
    """The bytes that a token stands for; the name of a special token such as <mask>."""
    if set(token) == {BLANK}:
        return spaces_for_blanks(token).encode()
    table = _bytes_of_characters()
    return bytes(table[character] for character in token) if all(c in table for c in token) else token.encode()


@functools.cache
def character_classes() -> np.ndarray:
    """The class of every code point, uint8 [CHARACTERS]."""
    classes = np.full(CHARACTERS, OTHER, np.uint8)
    categories = {"L": LETTER, "N": NUMBER}
    for code in range(CHARACTERS):
        if (first := unicodedata.category(chr(code))[0]) in categories:
            classes[code] = categories[first]
    for ranges, kind in ((LATER_LETTERS, LETTER), (LATER_NUMBERS, NUMBER)):
        for first_code, last_code in ranges:
            classes[first_code : last_code + 1] = kind
    classes[list(SPACES)] = SPACE
    return classes


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without white space at its ends; empty if it is all white space."""
    part = text[start:end].lstrip(WHITE)
    begin = end - len(part)
    return (begin, begin + len(part.rstrip(WHITE))) if part else (start, start)


def parse_merges(content: bytes) -> list[tuple[str, str]]:
    """The pairs of tokens in a merges.txt, in the order of their ranks; UserError for a line that is not a pair."""
    try:
        text = content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise UserError("merges.txt is not UTF-8 text: fetch it again.") from None
    lines = text.removesuffix("\n").split("\n")
    lines = lines[1:] if lines[0].startswith("#version") else lines
    pairs = [tuple(line.split(" ")) for line in lines if line]
    wrong = next((pair for pair in pairs if len(pair) != 2 or not all(pair)), None)
    if wrong is not None:
        raise UserError(
            f"The merges (merges.txt, or in tokenizer.json) have the line {' '.join(wrong)[:60]!r}; expected two "
            "tokens with a space between."
        )
    return [(first, second) for first, second in pairs]


def merges_of(tokens: Collection[str], rules: bytes) -> list[tuple[str, str]]:
    """The pairs in the rules of a vocabulary with these tokens; UserError if they do not fit each other."""
    missing = next((byte for byte, token in enumerate(alphabet()) if token not in tokens), None)
    if missing is not None:
        raise UserError(f"The vocabulary has no token for the byte {missing}: pass that of a byte-level BPE.")
    pairs = parse_merges(rules)
    if not pairs:
        raise UserError("merges.txt or tokenizer.json has no merges: pass that of a trained byte-level BPE.")
    for first, second in pairs:
        unknown = next((token for token in (first, second, first + second) if token not in tokens), None)
        if unknown is not None:
            raise UserError(
                f"The merges (merges.txt, or in tokenizer.json) have the token {unknown!r}, which the vocabulary "
                "lacks: pass both of one model."
            )
    return pairs


def format_merges(pairs: Sequence[Sequence[str]]) -> str:
    """The content of a merges.txt."""
    return "".join(f"{line}\n" for line in (HEADER, *(" ".join(pair) for pair in pairs)))

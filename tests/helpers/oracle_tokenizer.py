"""The original BERT tokenizer once more, in plain Python: what the tests and the benchmark compare with.

Written from a description of google-research/bert `tokenization.py`, not from `bert_tf`, of which it imports nothing:
an error would have to be made twice to go unseen.
"""

import unicodedata

LONGEST_WORD = 200


def tokenize(text, vocabulary, *, lower_case):
    """One str -> its pieces; `vocabulary` is a set or dict of pieces. Clean, space CJK, split, lower, split, match."""
    pieces = []
    for word in _spaced(_cleaned(text)).split():
        if lower_case:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        for part in _split_at_punctuation(word):
            pieces += _wordpiece(part, vocabulary)
    return pieces


def tokenize_with_places(text, vocabulary, *, lower_case):
    """One str without capital sigma -> [(piece, start, earliest end, latest end)] in characters of the text.

    The earliest end is that of the piece's last character; the latest is behind the characters after it that leave
    nothing. Works character by character, each with its place.
    """
    words = [[]]
    for place, character in enumerate(text):
        if _becomes_space(character):
            words.append([])
            continue
        left = _lowered(character) if lower_case else character
        for c in "" if _is_dropped(character) else left:
            if _stands_alone(c) or _is_cjk(ord(character)):
                words += [[(c, place)], []]
            else:
                words[-1].append((c, place))
    found = []
    for word in words:
        found += _placed(text, word, vocabulary, lower_case)
    return found


def _placed(text, word, vocabulary, lower_case):
    at, found = 0, []
    pieces = _wordpiece("".join(c for c, _ in word), vocabulary) if word else []
    for piece in pieces:
        size = len(word) if piece == "[UNK]" else len(piece) - 2 * piece.startswith("##")
        earliest = latest = word[at + size - 1][1] + 1
        while latest < len(text) and _leaves_nothing(text[latest], lower_case):
            latest += 1
        found.append((piece, word[at][1], earliest, latest))
        at += size
    return found


def _leaves_nothing(character, lower_case):
    return _is_dropped(character) or (lower_case and not _becomes_space(character) and not _lowered(character))


def _lowered(character):
    return "".join(c for c in unicodedata.normalize("NFD", character.lower()) if unicodedata.category(c) != "Mn")


def _becomes_space(character):
    return character in " \t\n\r\u2028\u2029" or unicodedata.category(character) == "Zs"


def _is_dropped(character):
    if character in "\t\n\r":
        return False
    return ord(character) in (0, 0xFFFD) or unicodedata.category(character) in {"Cc", "Cf"}


def _cleaned(text):
    return "".join(" " if c in " \t\n\r" or unicodedata.category(c) == "Zs" else c for c in text if not _is_dropped(c))


def _is_cjk(code):
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B73F
        or 0x2B740 <= code <= 0x2B81F
        or 0x2B820 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )


def _spaced(text):
    return "".join(" " + c + " " if _is_cjk(ord(c)) else c for c in text)


def _stands_alone(character):
    code = ord(character)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(character)[0] == "P"


def _split_at_punctuation(word):
    parts, fresh = [], True
    for c in word:
        if _stands_alone(c):
            parts.append(c)
            fresh = True
        elif fresh:
            parts.append(c)
            fresh = False
        else:
            parts[-1] += c
    return parts


def _wordpiece(word, vocabulary):
    if len(word) > LONGEST_WORD:
        return ["[UNK]"]
    pieces, rest = [], word
    while rest:
        for size in range(len(rest), 0, -1):
            piece = ("##" if pieces else "") + rest[:size]
            if piece in vocabulary:
                pieces.append(piece)
                rest = rest[size:]
                break
        else:
            return ["[UNK]"]
    return pieces

"""A second implementation of the original BERT tokenizer in plain Python, for tests and benchmarks to compare with.

Written from a description of google-research/bert `tokenization.py`, not from `bert_tf`, of which it imports nothing:
an error in both would have to be the same to go unnoticed.
"""

import unicodedata

LONGEST_WORD = 200


def tokenize(text, vocabulary, *, lower_case):
    """One str -> its tokens; `vocabulary` is a set or dict of tokens. Clean, space CJK, split, lower, split, match."""
    tokens = []
    for word in _spaced(_cleaned(text)).split():
        if lower_case:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        for part in _split_at_punctuation(word):
            tokens += _wordpiece(part, vocabulary)
    return tokens


def tokenize_with_offsets(text, vocabulary, *, lower_case):
    """One str without capital sigma -> [(token, start, earliest end, latest end)] in characters of the text.

    The earliest end is that of the token's last character; the latest includes the following characters that are
    deleted. Works character by character, each with its position.
    """
    words = [[]]
    for position, character in enumerate(text):
        if _becomes_space(character):
            words.append([])
            continue
        normalized = _lowered(character) if lower_case else character
        for c in "" if _is_dropped(character) else normalized:
            if _stands_alone(c) or _is_cjk(ord(character)):
                words += [[(c, position)], []]
            else:
                words[-1].append((c, position))
    return [token for word in words for token in _tokens_with_offsets(text, word, vocabulary, lower_case)]


def _tokens_with_offsets(text, word, vocabulary, lower_case):
    index, result = 0, []
    for token in _wordpiece("".join(c for c, _ in word), vocabulary) if word else []:
        size = len(word) if token == "[UNK]" else len(token) - 2 * token.startswith("##")
        earliest = latest = word[index + size - 1][1] + 1
        while latest < len(text) and _leaves_nothing(text[latest], lower_case):
            latest += 1
        result.append((token, word[index][1], earliest, latest))
        index += size
    return result


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
    parts, starts_part = [], True
    for c in word:
        if _stands_alone(c):
            parts.append(c)
            starts_part = True
        elif starts_part:
            parts.append(c)
            starts_part = False
        else:
            parts[-1] += c
    return parts


def _wordpiece(word, vocabulary):
    if len(word) > LONGEST_WORD:
        return ["[UNK]"]
    tokens, rest = [], word
    while rest:
        for size in range(len(rest), 0, -1):
            token = ("##" if tokens else "") + rest[:size]
            if token in vocabulary:
                tokens.append(token)
                rest = rest[size:]
                break
        else:
            return ["[UNK]"]
    return tokens

"""Words of a sentence as one text."""

from collections.abc import Sequence

from bert_tf.text.characters import is_cjk


def join_words(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """A sentence's text, and the span of each word in it: (text, [(start, end)]) in characters.

    Words are joined by a space, but not ideographs, kana and their punctuation.

    join_words(["我", "。", "I"])[0]  ->  "我。 I"
    """
    text = ""
    spans: list[tuple[int, int]] = []
    for word in words:
        if spans and not (word and text and _is_unspaced(text[-1]) and _is_unspaced(word[0])):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
    return text, spans


def _is_unspaced(character: str) -> bool:
    """Returns whether a character is of a script that puts no space between words."""
    return is_cjk(character) or "\u3000" <= character <= "\u30ff" or "\uff00" <= character <= "\uffef"

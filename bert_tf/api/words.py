"""Texts that are split into words, as the methods of a loaded model take them with is_split_into_words."""

from typing import Any

from bert_tf.api import texts as given_texts
from bert_tf.errors import UserError


def listed(texts: Any) -> Any:
    """Texts that are split into words as lists: of a Series, an array, a tf.data.Dataset or a generator."""
    if isinstance(texts, tuple | str):
        return texts
    several = given_texts.elements(texts, "The text")
    return [_plain(each) for each in several]


def _plain(words: Any) -> Any:
    words = words.tolist() if hasattr(words, "tolist") else words
    if isinstance(words, list):
        return [_plain(each) for each in words]
    return words.decode() if isinstance(words, bytes) else words


def is_words(value: Any) -> bool:
    """Returns whether a value is a text that is split into words, not a list of such texts, as an empty list is."""
    return isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)


def join_words(texts: Any, *, is_inner: bool = False, place: str = "") -> Any:
    """Texts that are split into words, with the words of each joined: a text, a tuple of texts, or a list of either.

    Words joined by spaces have the tokens that they have alone. is_inner: whether an empty list is a text. UserError,
    with its place, for something else, as a text that is not split.
    """
    if is_words(texts) or (is_inner and texts == []):
        return " ".join(texts)
    if isinstance(texts, tuple):
        return tuple(join_words(each, is_inner=True, place=place) for each in texts)
    if isinstance(texts, list) and not is_inner:
        return [
            join_words(each, is_inner=not isinstance(each, tuple), place=f" as text {number}")
            for number, each in enumerate(texts)
        ]
    shown = str(texts)[:60]
    raise UserError(
        f"is_split_into_words is for lists of words, and {shown!r} was given{place}: split it, or leave it out."
    )

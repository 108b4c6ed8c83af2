"""Embeddings of one text, and the contents of an embeddings file. Free of TensorFlow.

n tokens or words of a text (1 for a whole text), K vectors each, E dimensions of a vector.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_tf.text import byte_level


@dataclasses.dataclass(frozen=True)
class TextVectors:
    """The embeddings of one text, float32 [n, K, E]: of tokens, of words, or (if n is 1) of the whole text.

    names: the tokens, or the words as in the text; None for a whole text. starts, ends: character offsets, -1 for
    [CLS] and [SEP]. segments: 0, or 1 in the second text of a pair.
    """

    vectors: np.ndarray
    names: Any = None  # a sequence of str
    starts: np.ndarray | None = None
    ends: np.ndarray | None = None
    segments: np.ndarray | None = None


def words_of(
    texts: Sequence[str], vectors: np.ndarray, starts: np.ndarray, ends: np.ndarray, segments: np.ndarray
) -> TextVectors:
    """The word embeddings of a text or a pair, except for white space that has tokens."""
    places = list(zip(segments, starts, ends, strict=True))
    bounds = [byte_level.trimmed(texts[segment], start, end) for segment, start, end in places]
    begins, stops = np.array(bounds, np.int32).reshape(-1, 2).T
    kept = begins < stops
    begins, stops, segments = begins[kept], stops[kept], segments[kept]
    names = tuple(texts[segment][start:end] for segment, start, end in zip(segments, begins, stops, strict=True))
    return TextVectors(vectors[kept], names, begins, stops, segments)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """Format of an embeddings file. layers: the names of the K vectors. has_ids: whether texts have ids."""

    unit: str
    layers: tuple[int | str, ...]
    width: int
    has_ids: bool = False


Add = Callable[..., Any]  # add(number, text_vectors, id=None)

"""Which ideographs are one word, as a segmenter finds them (whole word masking of Chinese: Cui et al. 2021).

Tokens stay single characters. An id from the size of the vocabulary V on, V + id, is a token that continues a word.
jieba is imported when it is needed. Free of TensorFlow. B texts, T tokens.
"""

import importlib.metadata
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bert_tf.errors import UserError
from bert_tf.text.characters import CJK_RANGES, is_cjk

PACKAGE = "jieba"
SILENT = 60  # a level of logging
_RANGES = "".join(f"{chr(first)}-{chr(last)}" for first, last in CJK_RANGES)
IDEOGRAPHS = re.compile(f"([{_RANGES}]+)")

Tokenize = Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]]


def segmenter() -> str:
    """Name and version of the segmenter; raises UserError if it is not installed."""
    try:
        return f"{PACKAGE} {importlib.metadata.version(PACKAGE)}"
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            'chinese_word_segmentation needs jieba, which is not installed: pip install "bert-tf[chinese]".'
        ) from None


class WordMarks:
    """A tokenizer whose ids say which ideographs belong to the word of the one before.

    Args:
        tokenize: B texts -> ids int32 [T] of all of them, and the number of tokens of each, int64 [B], in which an
            ideograph is a token.
        size: of the vocabulary, V.
    """

    def __init__(self, tokenize: Tokenize, size: int) -> None:
        segmenter()
        import jieba

        jieba.setLogLevel(SILENT)
        self._tokenize, self._size, self._cut = tokenize, size, jieba.Tokenizer().cut

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """B texts -> ids below 2 V, int32 [T], and the number of tokens of each text, int64 [B]."""
        pieces: list[str] = []
        ends = []
        for text in texts:
            pieces += self._pieces(text)
            ends.append(len(pieces))
        ids, sizes = self._tokenize(pieces)
        is_word = np.array([len(piece) > 1 and is_cjk(piece[0]) for piece in pieces], bool)
        begins = np.cumsum(sizes) - sizes
        continues = np.repeat(is_word, sizes)
        continues[begins[is_word & (sizes > 0)]] = False
        counts = np.diff(np.concatenate([[0], np.cumsum(sizes)])[ends], prepend=0)
        return np.where(continues, ids + self._size, ids).astype(np.int32), counts

    def _pieces(self, text: str) -> Iterator[str]:
        """The words that the segmenter finds in runs of ideographs, and what is between these, both maybe empty."""
        between = True
        for run in IDEOGRAPHS.split(text):
            if between:
                yield run
            else:
                yield from self._cut(run)
            between = not between


def without_marks(ids: np.ndarray, size: int) -> np.ndarray:
    """The ids of the vocabulary, below `size`."""
    return np.where(ids >= size, ids - size, ids)

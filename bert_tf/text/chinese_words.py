"""Finds words of several ideographs with a segmenter (Chinese whole word masking: Cui et al. 2021).

Tokens stay single characters. jieba is imported when needed. Free of TensorFlow. N ids, S sentences, V
vocabulary.
"""

import importlib.metadata
import itertools
from collections.abc import Sequence

import numpy as np

from bert_tf.errors import UserError
from bert_tf.runtime.lazy import module
from bert_tf.text.characters import is_cjk

jieba = module("jieba")
PACKAGE = "jieba"
SILENT = 60  # a logging level


def segmenter() -> str:
    """The segmenter's name and version; raises UserError if it is not installed."""
    try:
        return f"{PACKAGE} {importlib.metadata.version(PACKAGE)}"
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            'chinese_word_segmentation needs jieba, which is not installed: pip install "bert-tf[chinese]".'
        ) from None


class WordFinder:
    """Finds the words in runs of ideograph ids.

    Args:
        vocabulary: the V tokens; each ideograph is a separate token.

    Raises:
        UserError: jieba is not installed.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        segmenter()
        jieba.setLogLevel(SILENT)
        self._cut = jieba.Tokenizer().cut
        self._characters = np.array([ord(each) if len(each) == 1 and is_cjk(each) else 0 for each in vocabulary], "<u4")

    def __call__(self, ids: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Marks ids that continue the word of the id before, bool [N].

        ids: int32 [N]. starts: where the sentences begin, int64 [S + 1]; the last value is N.
        """
        characters = self._characters[ids]
        edges = np.union1d(starts, np.flatnonzero(np.diff(characters > 0, prepend=False, append=False)))
        continues = np.zeros(len(ids), bool)
        for first, end in itertools.pairwise(edges.tolist()):
            if characters[first]:
                words = self._cut(characters[first:end].tobytes().decode("utf-32-le"))
                begins = np.cumsum([first, *map(len, words)])[:-1]
                continues[first:end] = True
                continues[begins] = False
        return continues

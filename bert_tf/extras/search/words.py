"""Search by words: BM25 (Robertson et al. 1994) from the bm25s package, and its fusion with vector search.

n texts, q queries, k texts found for each.
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from bert_tf.errors import UserError, count_text, reason_of
from bert_tf.extras.search.neighbors import Found
from bert_tf.runtime.lazy import module

bm25s = module(
    "bm25s",
    'Search by words needs the package bm25s ({reason}): pip install "bert-tf[search]", or search by vectors only.',
)
TOKEN = re.compile(r"[\u3040-\u9fff\uac00-\ud7ff]|[^\W\u3040-\u9fff\uac00-\ud7ff]+")  # a CJK character, or a word
CONSTANT = 60  # of reciprocal rank fusion
NONE = -1  # number for a missing text


def _tokens(texts: Iterable[str]) -> list[list[str]]:
    return [TOKEN.findall(text.lower()) for text in texts]


def build(texts: Iterable[str], folder: str) -> None:
    """Writes the folder with the words of n texts; UserError if no text has a word."""
    tokens = _tokens(texts)
    if not any(tokens):
        raise UserError("No text has a word: remove bm25.")
    ranker = bm25s.BM25()
    ranker.index(tokens, show_progress=False)
    ranker.save(folder, show_progress=False)


class Words:
    """A folder written by `build`."""

    def __init__(self, folder: str, size: int) -> None:
        """Loads it; UserError if it is damaged, or does not have `size` texts."""
        load = bm25s.BM25.load
        try:
            self._ranker = load(folder, show_progress=False)
            count = int(self._ranker.scores["num_docs"])
        except Exception as error:  # bm25s, NumPy and JSON raise all kinds of errors for damaged files
            raise UserError(f"{folder} cannot be read ({reason_of(error)}): rebuild the index.") from None
        if count != size:
            raise UserError(
                f"{folder} has the words of {count_text(count, 'text')}; expected {size:,}: rebuild the index."
            )
        self._size = size

    def __call__(self, queries: Sequence[str], count: int) -> Found:
        """Numbers int64 [q, k] and scores float32 [q, k] of the best texts, NONE for texts that share no word."""
        count = min(count, self._size)
        numbers, scores = np.full([len(queries), count], NONE), np.zeros([len(queries), count], np.float32)
        for row, tokens in enumerate(_tokens(queries)):
            found = self._ranker.get_scores(tokens) if tokens else np.zeros(self._size, np.float32)
            order = np.argsort(-found, kind="stable")[:count]
            order = order[found[order] > 0]
            numbers[row, : len(order)], scores[row, : len(order)] = order, found[order]
        return numbers, scores


def fused(rankings: Sequence[np.ndarray], count: int) -> Found:
    """Reciprocal rank fusion (Cormack et al. 2009): the sum of 1 / (60 + rank) in each ranking.

    rankings: numbers of texts, int64 [q, k] each, best first, NONE for no text. Returns the same as `neighbors.exact`.
    """
    rows = len(rankings[0])
    numbers, scores = np.full([rows, count], NONE), np.zeros([rows, count], np.float32)
    for row in range(rows):
        sums: dict[int, float] = {}
        for ranking in rankings:
            for rank, number in enumerate(ranking[row].tolist(), 1):
                if number != NONE:
                    sums[number] = sums.get(number, 0.0) + 1 / (CONSTANT + rank)
        best = sorted(sums.items(), key=lambda pair: -pair[1])[:count]
        numbers[row, : len(best)] = [number for number, _ in best]
        scores[row, : len(best)] = [score for _, score in best]
    return numbers, scores

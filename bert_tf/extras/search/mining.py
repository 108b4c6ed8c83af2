"""Hard negatives: texts of an index that are near a query but do not answer it, for training (Xiong et al. 2021).

k texts of the index considered for each query.
"""

import dataclasses
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from bert_tf.errors import UserError
from bert_tf.export.reranking import Reranker
from bert_tf.extras.search.index import Hit, Index
from bert_tf.text.characters import basic_tokenize

AT_ONCE = 64  # pairs per batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class MiningOptions:
    """Which texts count as negatives.

    Attributes:
        negatives: number of negatives per pair.
        margin: minimum difference of the positive's score and theirs; below 0, theirs may be higher.
        skip: number of nearest texts to skip, since they may be unlabeled answers.
        depth: number of nearest texts to consider, k.
    """

    negatives: int = 1
    margin: float = 0.0
    skip: int = 0
    depth: int = 100

    def check(self) -> None:
        """Raises UserError for values that are too small."""
        for name, least in (("negatives", 1), ("skip", 0)):
            if not getattr(self, name) >= least:
                raise UserError(f"{name} is {getattr(self, name)}; expected {least} or more.")
        if math.isnan(self.margin):
            raise UserError("margin is not a number; expected one, such as 0.05.")
        if self.depth < self.skip + self.negatives:
            raise UserError(f"depth is {self.depth}; expected skip and negatives together or more.")


def mine(
    index: Index, pairs: Sequence[tuple[str, str]], options: MiningOptions, reranker: Reranker | None = None
) -> Iterator[tuple[str, ...]]:
    """Yields (query, positive, negatives...) for each pair with enough negatives, in order.

    Scores are vector similarities, or come from a reranker. Negatives differ from each other and from every positive of
    the query in more than case, accents and white space.

    Args:
        index: the index to search for negatives.
        pairs: (query, positive); a query may have several.
        options: which texts count.
        reranker: rescores the texts for each query; None: no rescoring.
    """
    options.check()
    positives: dict[str, set[str]] = {}
    for query, positive in pairs:
        positives.setdefault(_key(query), set()).add(_key(positive))
    for first in range(0, len(pairs), AT_ONCE):
        block = pairs[first : first + AT_ONCE]
        asked = index.embedder.queries([query for query, _ in block])
        found = [index.hits(*each) for each in zip(*index.nearest(asked, options.depth + options.skip), strict=True)]
        own = _scores_of_positives(index, block, asked, found)
        for row, (query, positive) in enumerate(block):
            different: dict[str, Hit] = {}
            for hit in found[row]:
                different.setdefault(_key(hit.text), hit)
            hits = [hit for key, hit in different.items() if key not in positives[_key(query)]][options.skip :]
            scored, least = [(hit.text, hit.score) for hit in hits], own[row]
            if reranker is not None and hits:
                again = reranker(query, [positive, *(hit.text for hit in hits)]).tolist()
                scored, least = list(zip([hit.text for hit in hits], again[1:], strict=True)), again[0]
            kept = [text for text, score in scored if score <= least - options.margin][: options.negatives]
            if len(kept) == options.negatives:
                yield query, positive, *kept


def _key(text: str) -> str:
    """The words and punctuation of a text without case and accents; texts with the same key are the same to a model."""
    return " ".join(basic_tokenize(unicodedata.normalize("NFKC", text).casefold(), lower_case=True))


def _scores_of_positives(
    index: Index, pairs: Sequence[tuple[str, str]], queries: np.ndarray, found: Sequence[Sequence[Hit]]
) -> list[float]:
    """The similarity of each query embedding with its positive, which is usually among the found texts."""
    scores = [
        next((hit.score for hit in hits if hit.text == positive), math.nan)
        for (_, positive), hits in zip(pairs, found, strict=True)
    ]
    others = np.flatnonzero(np.isnan(scores)).tolist()
    vectors = index.embedder.texts([pairs[row][1] for row in others]) if others else ()
    for row, vector in zip(others, vectors, strict=True):
        scores[row] = float(queries[row] @ vector)
    return scores


def columns(rows: Iterable[tuple[str, ...]], names: tuple[str, str]) -> Iterator[Mapping[str, str]]:
    """Table rows for the triplets task: query, positive, negative_1, negative_2, ..."""
    for query, positive, *negatives in rows:
        yield {names[0]: query, names[1]: positive} | {f"negative_{n}": text for n, text in enumerate(negatives, 1)}


def judged(rows: Iterable[tuple[str, ...]], names: tuple[str, str]) -> Iterator[Mapping[str, object]]:
    """Table rows for a reranker: query, text, and label, 1 for a positive and 0 for a negative."""
    for query, *texts in rows:
        yield from ({names[0]: query, names[1]: text, "label": int(not place)} for place, text in enumerate(texts))

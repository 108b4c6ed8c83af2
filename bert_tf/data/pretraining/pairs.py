"""Sentence pairs for next-sentence prediction, as offsets into one flat array of ids.

No TensorFlow here. N ids in a bucket, S sentences, D documents, I instances. The sentences of a chunk are adjacent, and
truncation removes ids from the two ends of a segment, so a segment is always one slice of the flat ids: an instance is
five numbers, and no id is copied before it is written.
"""

import bisect
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

FULL_SENTENCES = "full_sentences"
MAX_TRIES = 10  # tries to find another document, as in the original
FIRST_START, FIRST_END, SECOND_START, SECOND_END, RANDOM_NEXT = range(5)  # the columns of an instance


@dataclasses.dataclass(frozen=True)
class FlatDocuments:
    """Documents as flat ids: sentence s is ids[sentence_starts[s]:sentence_starts[s + 1]]; documents likewise.

    ids: int32 [N]; sentence_starts: int64 [S + 1], in ids; document_starts: int64 [D + 1], in sentences. No sentence
    and no document is empty.
    """

    ids: np.ndarray
    sentence_starts: np.ndarray
    document_starts: np.ndarray

    @functools.cached_property
    def document_begins(self) -> np.ndarray:
        """Start of each document, in ids: int64 [D]."""
        return self.sentence_starts[self.document_starts[:-1]]


class BufferedRandom:
    """Random numbers one at a time, from a numpy Generator that draws thousands at once (30 times cheaper)."""

    BLOCK = 8192

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self._uniforms: Iterator[float] = iter(())

    def uniform(self) -> float:
        """A float in [0, 1)."""
        for value in self._uniforms:
            return value
        self._uniforms = iter(self.generator.random(self.BLOCK).tolist())
        return next(self._uniforms)

    def below(self, n: int) -> int:
        """An integer in [0, n)."""
        return int(self.uniform() * n)

    def fair_binomial(self, trials: np.ndarray) -> np.ndarray:
        """The number of heads in `trials` (int64 [I]) tosses of a fair coin: int64 [I]."""
        return self.generator.binomial(trials, 0.5)


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Lengths of rows: max_seq_length, or anything shorter with probability short_seq_prob, like short texts.

    The length is drawn for each row, or with short_seq_per_document once per document, as in the original: a long
    document with a small length then yields thousands of tiny rows.
    """

    max_seq_length: int
    short_seq_prob: float
    short_seq_per_document: bool = False

    def targets(self, random: BufferedRandom, specials: int) -> Callable[[], int]:
        """A function that draws the number of ids of a document's next row: at least 2 without special tokens."""
        budget = self.max_seq_length - specials
        if budget < 2:
            raise ValueError(f"max_seq_length={self.max_seq_length}: there is no room for two tokens.")

        def draw() -> int:
            return 2 + random.below(budget - 1) if random.uniform() < self.short_seq_prob else budget

        return functools.cache(draw) if self.short_seq_per_document else draw


def next_sentence_pairs(documents: FlatDocuments, random: BufferedRandom, lengths: Lengths) -> np.ndarray:
    """One pass over all documents -> instances int64 [I, 5]: first start, first end, second start, second end, random.

    The algorithm of google-research/bert `create_pretraining_data.py` (`create_instances_from_document`): a chunk of
    sentences up to the target length, split at a random sentence; with probability 0.5, or if it is a single sentence,
    the second segment comes from another document and the sentences it displaces are used again. Segments are truncated
    to max_seq_length - 3 ids.
    """
    sentence_starts, document_starts = documents.sentence_starts.tolist(), documents.document_starts.tolist()
    rows = []
    for document, start, end in _documents(documents):
        target = lengths.targets(random, 3)
        while start < end:
            length = target()
            stop = _chunk_end(sentence_starts, start, end, length)  # the chunk is sentences start:stop
            count = stop - start
            middle = start + 1 + (random.below(count - 1) if count > 1 else 0)
            first = sentence_starts[start], sentence_starts[middle]
            if count == 1 or random.uniform() < 0.5:
                left = length - (first[1] - first[0])
                rows.append((*first, *_random_segment(sentence_starts, document_starts, document, left, random), 1))
                start = middle
            else:
                rows.append((*first, sentence_starts[middle], sentence_starts[stop], 0))
                start = stop
    return _truncate(_array(rows), lengths.max_seq_length - 3, random)


def sentence_order_pairs(documents: FlatDocuments, random: BufferedRandom, lengths: Lengths) -> np.ndarray:
    """One pass over all documents -> instances as in `next_sentence_pairs`; label 1: the segments are swapped.

    The segments are consecutive, and in half of the instances the second comes first (Lan et al. 2019, section 3.1).
    A chunk of a single sentence is split in the middle.
    """
    sentence_starts = documents.sentence_starts.tolist()
    rows = []
    for _, start, end in _documents(documents):
        target = lengths.targets(random, 3)
        while start < end:
            stop = _chunk_end(sentence_starts, start, end, target())
            first, last = sentence_starts[start], sentence_starts[stop]
            middle = (first + last) // 2
            if stop - start > 1:
                middle = sentence_starts[start + 1 + random.below(stop - start - 1)]
            start = stop
            if first < middle:
                parts = (first, middle), (middle, last)
                is_swapped = random.uniform() < 0.5
                rows.append((*parts[is_swapped], *parts[not is_swapped], int(is_swapped)))
    return _truncate(_array(rows), lengths.max_seq_length - 3, random)


def single_segments(documents: FlatDocuments, random: BufferedRandom, lengths: Lengths) -> np.ndarray:
    """One pass without next-sentence prediction -> instances int64 [I, 5] with an empty second segment, label 0.

    [CLS] ids [SEP]: whole consecutive sentences of one document while they fit the target length; a longer sentence is
    split and continues in the next instance, so each id of the corpus is used once per pass.
    """
    sentence_starts = documents.sentence_starts.tolist()
    rows = []
    for _, first_sentence, end_sentence in _documents(documents):
        start, end, target = sentence_starts[first_sentence], sentence_starts[end_sentence], lengths.targets(random, 2)
        while start < end:
            limit = start + target()
            stop = sentence_starts[bisect.bisect_right(sentence_starts, limit, first_sentence, end_sentence + 1) - 1]
            stop = stop if stop > start else limit
            rows.append((start, stop, stop, stop, 0))
            start = stop
    return _array(rows)


def full_sentences(documents: FlatDocuments, random: BufferedRandom, lengths: Lengths) -> np.ndarray:
    """Like `single_segments`, but rows cross document boundaries (FULL-SENTENCES of Liu et al. 2019, 4.2).

    If a document ends inside a row, a separator takes one position: see `documents_inside`. Lengths are always drawn
    per row, because a row can contain parts of several documents.
    """
    target = dataclasses.replace(lengths, short_seq_per_document=False).targets(random, 2)
    sentence_starts = documents.sentence_starts.tolist()
    rows, start, number, end = [], 0, 1, sentence_starts[-1]  # number: first sentence that ends after `start`
    while start < end:
        limit, stop = target(), start
        while number < len(sentence_starts):
            next_stop = sentence_starts[number]
            if next_stop - start + len(documents_inside(documents, start, next_stop)) > limit:
                break
            stop, number = next_stop, number + 1
        stop = stop if stop > start else start + limit  # a part of a sentence
        rows.append((start, stop, stop, stop, 0))
        start = stop
    return _array(rows)


def _documents(documents: FlatDocuments) -> Iterator[tuple[int, int, int]]:
    """Yields the number of each document, its first sentence and the one after its last."""
    for number, (start, end) in enumerate(itertools.pairwise(documents.document_starts.tolist())):
        yield number, start, end


def _array(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, 5)


def documents_inside(documents: FlatDocuments, start: int, end: int) -> np.ndarray:
    """Starts of documents strictly between two positions, as indices of ids: int64 [n]."""
    begins = documents.document_begins
    return begins[np.searchsorted(begins, start, "right") : np.searchsorted(begins, end, "left")]


def _chunk_end(sentence_starts: list[int], start: int, end: int, length: int) -> int:
    """The first sentence after `start` (at most `end`) such that the sentences before it have `length` ids."""
    return min(bisect.bisect_left(sentence_starts, sentence_starts[start] + length, start + 1, end), end)


def _random_segment(
    sentence_starts: list[int], document_starts: list[int], document: int, length: int, random: BufferedRandom
) -> tuple[int, int]:
    """Start and end of `length` ids or more, if available, from a random sentence of another document on."""
    for _ in range(MAX_TRIES):
        other = random.below(len(document_starts) - 1)
        if other != document:
            break
    start, end = document_starts[other], document_starts[other + 1]
    start += random.below(end - start)
    return sentence_starts[start], sentence_starts[_chunk_end(sentence_starts, start, end, length)]


def _truncate(rows: np.ndarray, budget: int, random: BufferedRandom) -> np.ndarray:
    """Truncates each pair to `budget` ids: from the longer segment (the second if equal), each id from a random end.

    Equivalent to removing one id at a time: the final lengths are not random, and the number of ids removed from the
    front is binomial.
    """
    rows = rows.copy()
    first = rows[:, FIRST_END] - rows[:, FIRST_START]
    second = rows[:, SECOND_END] - rows[:, SECOND_START]
    new_first = np.minimum(first, np.maximum(budget - second, (budget + 1) // 2))
    new_second = np.minimum(second, np.maximum(budget - first, budget // 2))
    for start, length, new_length in ((FIRST_START, first, new_first), (SECOND_START, second, new_second)):
        rows[:, start] += random.fair_binomial(length - new_length)
        rows[:, start + 1] = rows[:, start] + new_length
    return rows


# The label task of rows with two segments; FULL_SENTENCES and "" for rows with one segment.
KINDS = {
    "next": next_sentence_pairs,
    "order": sentence_order_pairs,
    FULL_SENTENCES: full_sentences,
    "": single_segments,
}

"""Sentence pairs for next-sentence prediction, as places in one flat array of ids.

No TensorFlow here. N ids in a bucket, S sentences, D documents, I instances. The sentences of a chunk lie side by side,
and trimming takes from the two ends of a segment, so that a segment is always one slice of the flat ids: an instance is
five numbers, and no id is copied before it is written.
"""

import bisect
import dataclasses

import numpy as np

TRIES = 10  # to find another document, as in the original
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


class Draws:
    """Random numbers one at a time, from a numpy Generator asked for thousands at once (30 times cheaper)."""

    BLOCK = 8192

    def __init__(self, generator):
        self.generator = generator
        self._uniforms = iter(())

    def uniform(self):
        """A float in [0, 1)."""
        for value in self._uniforms:
            return value
        self._uniforms = iter(self.generator.random(self.BLOCK).tolist())
        return next(self._uniforms)

    def below(self, n):
        """An integer in [0, n)."""
        return int(self.uniform() * n)

    def heads(self, tosses):
        """How many of `tosses` (int64 [I]) tosses of a fair coin show heads: int64 [I]."""
        return self.generator.binomial(tosses, 0.5)


def next_sentence_pairs(documents, draws, *, max_seq_length, short_seq_prob):
    """One pass over all documents -> instances int64 [I, 5]: first start, first end, second start, second end, random.

    The algorithm of google-research/bert `create_pretraining_data.py` (`create_instances_from_document`): a chunk of
    sentences up to the target length, cut at a random sentence; with probability 0.5, or when it is a single sentence,
    the second segment comes from another document and the sentences it displaces are used again. The target length is
    drawn anew for each instance (the original draws it once a document, so that a long document with a small target
    gives thousands of tiny instances). Segments are trimmed to max_seq_length - 3 ids.
    """
    if max_seq_length < 5:
        raise ValueError(f"max_seq_length={max_seq_length}: a pair needs room for [CLS], two [SEP] and two pieces.")
    sentence_starts, document_starts = documents.sentence_starts.tolist(), documents.document_starts.tolist()
    budget = max_seq_length - 3
    rows = []
    for document in range(len(document_starts) - 1):
        start, end = document_starts[document], document_starts[document + 1]
        while start < end:
            target = _target(draws, budget, short_seq_prob)
            stop = _reach(sentence_starts, start, end, target)  # the chunk is sentences start:stop
            count = stop - start
            middle = start + 1 + (draws.below(count - 1) if count > 1 else 0)
            first = sentence_starts[start], sentence_starts[middle]
            if count == 1 or draws.uniform() < 0.5:
                wanted = target - (first[1] - first[0])
                second = _random_segment(sentence_starts, document_starts, document, wanted, draws)
                rows.append((*first, *second, 1))
                start = middle
            else:
                rows.append((*first, sentence_starts[middle], sentence_starts[stop], 0))
                start = stop
    return _trimmed(np.array(rows, np.int64).reshape(-1, 5), budget, draws)


def single_segments(documents, draws, *, max_seq_length, short_seq_prob):
    """One pass without next-sentence prediction -> instances int64 [I, 5] with an empty second segment, label 0.

    [CLS] ids [SEP]: whole consecutive sentences of one document while they fit the target length (max_seq_length - 2,
    with probability short_seq_prob less); a sentence that alone is longer is cut and goes on in the next instance, so
    that each id of the corpus is used once a pass.
    """
    if max_seq_length < 4:
        raise ValueError(f"max_seq_length={max_seq_length}: a text needs room for [CLS], [SEP] and two pieces.")
    sentence_starts = documents.sentence_starts.tolist()
    budget = max_seq_length - 2
    rows = []
    for first_sentence, end_sentence in zip(documents.document_starts, documents.document_starts[1:], strict=False):
        place, end = sentence_starts[first_sentence], sentence_starts[end_sentence]
        while place < end:
            limit = place + _target(draws, budget, short_seq_prob)
            stop = sentence_starts[bisect.bisect_right(sentence_starts, limit, first_sentence, end_sentence + 1) - 1]
            stop = stop if stop > place else limit
            rows.append((place, stop, stop, stop, 0))
            place = stop
    return np.array(rows, np.int64).reshape(-1, 5)


def _target(draws, budget, short_seq_prob):
    """The length to fill: the whole budget, or now and then anything from 2 up, to resemble short texts."""
    return 2 + draws.below(budget - 1) if draws.uniform() < short_seq_prob else budget


def _reach(sentence_starts, start, end, length):
    """The first sentence after `start` (at most `end`) such that those before it hold `length` ids."""
    return min(bisect.bisect_left(sentence_starts, sentence_starts[start] + length, start + 1, end), end)


def _random_segment(sentence_starts, document_starts, document, wanted, draws):
    """At least `wanted` ids if there are, from a random sentence of another document on -> start, end."""
    for _ in range(TRIES):
        other = draws.below(len(document_starts) - 1)
        if other != document:
            break
    start, end = document_starts[other], document_starts[other + 1]
    start += draws.below(end - start)
    return sentence_starts[start], sentence_starts[_reach(sentence_starts, start, end, wanted)]


def _trimmed(rows, budget, draws):
    """Cuts each pair down to `budget` ids: from the longer segment (the second if equal), each id from a random end.

    The same as taking one id at a time: the lengths at the end do not depend on chance, and the number taken from the
    front is the number of heads in as many tosses.
    """
    rows = rows.copy()
    first = rows[:, FIRST_END] - rows[:, FIRST_START]
    second = rows[:, SECOND_END] - rows[:, SECOND_START]
    kept_first = np.minimum(first, np.maximum(budget - second, (budget + 1) // 2))
    kept_second = np.minimum(second, np.maximum(budget - first, budget // 2))
    for start, length, kept in ((FIRST_START, first, kept_first), (SECOND_START, second, kept_second)):
        rows[:, start] += draws.heads(length - kept)
        rows[:, start + 1] = rows[:, start] + kept
    return rows

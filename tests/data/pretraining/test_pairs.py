"""Sentence pairs against the plain-Python oracle, and their statistics."""

import random

import numpy as np
import oracle_pretraining_data as oracle
import pytest

from bert_tf.data.pretraining.pairs import (
    BufferedRandom,
    FlatDocuments,
    Lengths,
    documents_inside,
    full_sentences,
    next_sentence_pairs,
    sentence_order_pairs,
    single_segments,
)


class RepeatableRandom:
    """Random numbers that both sides can repeat: Python's generator, and a fixed number of heads."""

    def __init__(self, seed):
        self.generator = random.Random(seed)

    def uniform(self):
        return self.generator.random()

    def below(self, n):
        return int(self.generator.random() * n)

    def fair_binomial(self, trials):
        return trials * 7 % (trials + 1)


def seeded(seed):
    return BufferedRandom(np.random.default_rng(seed))


def flat(documents):
    sentences = [sentence for document in documents for sentence in document]
    starts = np.cumsum([0, *map(len, sentences)])
    document_starts = np.cumsum([0, *map(len, documents)])
    return FlatDocuments(np.array([i for sentence in sentences for i in sentence], np.int32), starts, document_starts)


def random_documents(count, seed=0, sentences=(1, 30), words=(1, 25)):
    """Lists of sentences of ids that occur once each, so that an id tells its position."""
    generator, next_id, documents = random.Random(seed), 0, []
    for _ in range(count):
        document = []
        for _ in range(generator.randint(*sentences)):
            length = generator.randint(*words)
            document.append(list(range(next_id, next_id + length)))
            next_id += length
        documents.append(document)
    return documents


def segments(documents, rows):
    ids = documents.ids.tolist()
    return [(ids[a:b], ids[c:d], bool(label)) for a, b, c, d, label in rows.tolist()]


@pytest.mark.parametrize("max_seq_length", [5, 16, 17, 64])
@pytest.mark.parametrize("short_seq_prob", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("count", [1, 2, 30])
def test_pairs_match_the_original_for_the_same_random_numbers(max_seq_length, short_seq_prob, count):
    documents = random_documents(count, seed=count)
    options = {"max_seq_length": max_seq_length, "short_seq_prob": short_seq_prob}
    rows = next_sentence_pairs(flat(documents), RepeatableRandom(3), Lengths(**options))
    assert segments(flat(documents), rows) == oracle.next_sentence_pairs(documents, RepeatableRandom(3), **options)


@pytest.mark.parametrize("function", [next_sentence_pairs, sentence_order_pairs, single_segments])
def test_target_length_is_drawn_once_per_document_on_request(function):
    documents = flat([[[i] for i in range(1000)] for _ in range(2)])  # sentences of one token
    sizes = {}
    for per_document in (False, True):
        rows = function(documents, seeded(4), Lengths(50, 1.0, per_document))
        first = rows[rows[:, 0] < 950]  # of the first document; those at its end are shorter
        sizes[per_document] = {int(row[1] - row[0] + row[3] - row[2]) for row in first}
    assert len(sizes[False]) > 10 and len(sizes[True]) == 1


def test_truncation_removes_tokens_from_both_ends():
    documents = flat([[list(range(1000)), list(range(1000, 2000))]] * 300)
    rows = next_sentence_pairs(documents, seeded(5), Lengths(103, 0.0))
    front = rows[:, 0] % 1000  # of 950 ids cut from each first segment
    assert abs(front.mean() - 475) < 5 and 12 < front.std() < 19  # binomial: 475 and 15.4


def test_ten_percent_of_target_lengths_are_short():
    documents = flat([[[1]] * 5000] * 20)
    rows = next_sentence_pairs(documents, seeded(6), Lengths(43, 0.1))
    true_pairs = rows[rows[:, 4] == 0]
    lengths = true_pairs[:, 3] - true_pairs[:, 0]
    assert 0.08 < (lengths < 40).mean() < 0.12
    assert lengths.min() <= 5


def test_single_segments_use_each_token_once_and_end_with_sentences():
    documents = flat([[[1, 2], [3, 4, 5], [6]], [list(range(7, 20))]])
    rows = single_segments(documents, seeded(0), Lengths(7, 0.0))
    texts = [first for first, second, label in segments(documents, rows) if not second and not label]
    assert texts == [[1, 2, 3, 4, 5], [6], [7, 8, 9, 10, 11], [12, 13, 14, 15, 16], [17, 18, 19]]


def test_buffered_random_numbers_are_uniform():
    random = seeded(7)
    counts = np.bincount([random.below(7) for _ in range(70_000)], minlength=7)
    assert len(counts) == 7 and abs(counts - 10_000).max() < 600


def test_pairs_in_order_are_halves_of_a_chunk_and_half_of_them_are_swapped():
    documents = flat(random_documents(30, words=(2, 9)))
    rows = segments(documents, sentence_order_pairs(documents, seeded(1), Lengths(4000, 0.0)))
    assert len(rows) == 30 and 8 < sum(is_swapped for _, _, is_swapped in rows) < 22
    for first, second, is_swapped in rows:
        first, second = (second, first) if is_swapped else (first, second)
        assert second == list(range(first[-1] + 1, first[-1] + 1 + len(second))) and first and second
    short = segments(documents, sentence_order_pairs(documents, seeded(1), Lengths(13, 0.5)))
    assert all(first and second and len(first) + len(second) <= 10 for first, second, _ in short)
    one = flat([[[1, 2, 3, 4]]])
    assert {len(a) + len(b) for a, b, _ in segments(one, sentence_order_pairs(one, seeded(1), Lengths(9, 0)))} == {4}


@pytest.mark.parametrize("max_seq_length, short_seq_prob", [(20, 0.0), (64, 0.3)])
def test_full_sentences_go_on_across_documents_and_use_each_token_once(max_seq_length, short_seq_prob):
    listed = random_documents(20, sentences=(1, 4))
    documents = flat(listed)
    rows = full_sentences(documents, seeded(2), Lengths(max_seq_length, short_seq_prob))
    assert rows[:, 0].tolist() == [0, *rows[:-1, 1].tolist()] and rows[-1, 1] == len(documents.ids)
    sentence_starts, begins = set(documents.sentence_starts.tolist()), {document[0][0] for document in listed}
    crossing = 0
    for start, stop, *_ in rows.tolist():
        inside = documents_inside(documents, start, stop).tolist()
        assert inside == sorted(each for each in begins if start < each < stop)
        assert 0 < stop - start + len(inside) <= max_seq_length - 2
        assert stop in sentence_starts or stop - start + len(inside) > 1
        crossing += bool(inside)
    assert crossing > 3

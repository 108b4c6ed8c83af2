"""Duplicates: which are found, and that those alone are dropped."""

import numpy as np
import pytest

from bert_tf.data.pretraining import buckets, duplicates
from bert_tf.data.pretraining.buckets import Assignment, NumberedDocuments, starts
from bert_tf.data.pretraining.pairs import FlatDocuments

ASSIGNMENT = Assignment(seed=0, counts={"train": 3, "eval": 1}, eval_fraction=0.2, first_eval_part=9)


def numbered(documents, numbers=None):
    """Documents as lists of sentences, lists of ids."""
    sizes = [len(sentence) for document in documents for sentence in document]
    ids = [number for document in documents for sentence in document for number in sentence]
    flat = FlatDocuments(np.array(ids, np.int32), starts(np.array(sizes)), starts(np.array(list(map(len, documents)))))
    return NumberedDocuments(np.arange(len(documents)) if numbers is None else np.array(numbers), flat)


def without_duplicates(parts, kind="none", sentences=False):
    """The documents that are left, by their numbers: as lists of sentences, lists of ids."""
    pieces = [piece for part in parts for piece in duplicates.keys_of(part, kind, sentences).pack(2)]
    drops = {}
    for partition in range(2):
        chosen = [data for number, data in reversed(pieces) if number == partition]
        for code, data in duplicates.find_duplicates(chosen, ASSIGNMENT):
            drops.setdefault(code, []).append(data)
    left = {}
    for part in parts:
        codes = ASSIGNMENT.codes(part.numbers)
        for code, data in buckets.pack_buckets(part, codes, 4):
            kept = duplicates.drop(buckets.unpack([data]), drops.get(code, []))
            flat = kept.documents
            for place, number in enumerate(kept.numbers.tolist()):
                first, end = flat.document_starts[place : place + 2]
                edges = flat.sentence_starts[first : end + 1]
                left[number] = [flat.ids[a:b].tolist() for a, b in zip(edges, edges[1:], strict=False)]
    return left


def test_later_equal_documents_and_sentences_are_dropped():
    first = numbered([[[5, 6], [7]], [[7], [8, 9]], [[5, 6], [7]]])
    second = numbered([[[7]], [[8, 9], [1]], [[5], [6, 7]]], [100, 101, 102])
    by_documents = without_duplicates([first, second], "documents")
    assert sorted(by_documents) == [0, 1, 100, 101]  # 102 has the same ids, in other sentences
    assert by_documents[101] == [[8, 9], [1]]
    assert without_duplicates([first, second], sentences=True) == {
        0: [[5, 6], [7]],
        1: [[8, 9]],
        101: [[1]],
        102: [[5], [6, 7]],
    }


def test_near_duplicates_are_found_and_others_are_not():
    generator = np.random.default_rng(0)
    documents = [[generator.integers(5, 3000, 300).tolist()] for _ in range(40)]
    near = [[[*document[0][:150], 1, *document[0][151:]]] for document in documents]  # 0.97 of the shingles
    half = [[[*document[0][:230], *generator.integers(5, 3000, 70)]] for document in documents[:5]]  # 0.6
    short = [[[1, 2]], [[1, 2]], [[1, 3]]]
    left = without_duplicates([numbered([*documents, *near, *half, *short])], "near")
    assert set(range(40)) <= set(left)
    assert not set(range(40, 80)) & set(left)
    assert len(set(range(80, 85)) & set(left)) >= 2  # 21% of such pairs agree in a band
    assert {85, 87} <= set(left) and 86 not in left


@pytest.mark.parametrize("similarity, share", [(0.5, 0.05), (0.75, 0.77), (0.9, 0.9996)])
def test_documented_shares_are_those_of_the_bands(similarity, share):
    found = 1 - (1 - similarity**duplicates.ROWS) ** duplicates.BANDS
    assert found == pytest.approx(share, abs=0.006)

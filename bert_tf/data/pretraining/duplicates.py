"""Duplicate documents and sentences, found by 64-bit hashes: the first in the input stays.

No TensorFlow here. D documents, S sentences, N ids. Each document or sentence has keys; among those that share a key,
all but the first are dropped. Keys of exact duplicates are hashes of all ids. Near-duplicates are found by MinHash
(Broder 1997) on shingles of five ids, with FineWeb's parameters (Penedo et al. 2024): 14 bands of 8 hashes, which finds
5% of document pairs that share half of their shingles, 77% at three quarters, and 99.96% at nine tenths.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from bert_tf.data.pretraining import buckets
from bert_tf.data.pretraining.buckets import UINT, Assignment, NumberedDocuments, mix, starts
from bert_tf.data.pretraining.pairs import FlatDocuments

KINDS = ("none", "documents", "near")
SHINGLE, BANDS, ROWS = 5, 14, 8
WHOLE = -1  # instead of the index of a sentence
CHUNK = 200_000  # ids whose min-hashes are computed at once
HASHED = 10_000  # sentences hashed at once: bounds memory


def sentence_hashes(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Ids int32 [n] of sentences of these lengths (all above 0) -> uint64 [s]; equal sentences have equal hashes."""
    ends = np.cumsum(lengths)
    hashes = [np.zeros(0, UINT)]
    for first in range(0, len(lengths), HASHED):
        sizes = lengths[first : first + HASHED]
        begins = np.cumsum(sizes) - sizes
        begin = ends[first] - lengths[first]
        tokens = ids[begin : begin + sizes.sum()].astype(UINT)
        positions = np.arange(len(tokens)) - np.repeat(begins, sizes)
        hashes.append(mix(np.add.reduceat(mix(tokens + (positions.astype(UINT) << UINT(32))), begins)))
    return np.concatenate(hashes)


def document_hashes(documents: FlatDocuments) -> np.ndarray:
    """A hash of all ids of each document, uint64 [D]."""
    sizes = np.diff(documents.sentence_starts[documents.document_starts])
    return sentence_hashes(documents.ids, sizes)


@dataclasses.dataclass(frozen=True)
class Keys:
    """Keys uint64 [K], each with the document number and the index of the sentence in it, or WHOLE: int64 [K]."""

    keys: np.ndarray
    numbers: np.ndarray
    sentences: np.ndarray

    def pack(self, partitions: int) -> Iterator[tuple[int, bytes]]:
        """Yields (partition, bytes), with one partition per range of keys."""
        partition = (buckets.uniforms("keys", self.keys.view(np.int64)) * partitions).astype(np.int64)
        table = np.stack([self.keys.view(np.int64), self.numbers, self.sentences])
        yield from _split(partition, table)


def _split(codes: np.ndarray, table: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """Yields (code, bytes of its columns) in order of the codes; table: int64 [rows, K], codes: int64 [K]."""
    for code, indices in buckets.groups(codes):
        yield code, table[:, indices].T.tobytes()


def keys_of(numbered: NumberedDocuments, kind: str, sentences: bool) -> Keys:
    """The keys of documents for the `kind` of duplicates to drop, and of their sentences if these are dropped too."""
    documents, numbers = numbered.documents, numbered.numbers
    keys, owners, places = [np.zeros(0, UINT)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    if kind != "none":
        found = band_keys(documents) if kind == "near" else document_hashes(documents)[:, None]
        keys.append(found.ravel())
        owners.append(np.repeat(numbers, found.shape[1]))
        places.append(np.full(found.size, WHOLE))
    if sentences:
        counts = np.diff(documents.document_starts)
        salt = UINT(0x5E47E4CE)  # a document of one sentence is not a duplicate of that sentence
        keys.append(mix(sentence_hashes(documents.ids, np.diff(documents.sentence_starts)) ^ salt))
        owners.append(np.repeat(numbers, counts))
        places.append(np.arange(counts.sum()) - np.repeat(documents.document_starts[:-1], counts))
    return Keys(*(np.concatenate(arrays) for arrays in (keys, owners, places)))


def band_keys(documents: FlatDocuments) -> np.ndarray:
    """The MinHash keys, uint64 [D, BANDS]. Documents of fewer than SHINGLE ids form a single shingle."""
    edges = documents.sentence_starts[documents.document_starts]
    wholes = document_hashes(documents)
    keys = np.empty((len(wholes), BANDS), UINT)
    first = 0
    while first < len(wholes):
        end = max(first + 1, int(np.searchsorted(edges, edges[first] + CHUNK, side="right")) - 1)
        chunk = documents.ids[edges[first] : edges[end]]
        keys[first:end] = _bands(_shingles(chunk, edges[first : end + 1] - edges[first], wholes[first:end]))
        first = end
    return keys


def _shingles(ids: np.ndarray, edges: np.ndarray, wholes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hashes of all shingles of documents, and the start of each document's shingles."""
    padded = np.concatenate([ids, np.zeros(SHINGLE - 1, ids.dtype)]).astype(UINT)
    hashes = np.zeros(len(ids), UINT)
    for place in range(SHINGLE):
        hashes = mix(hashes + padded[place : place + len(ids)])
    counts = np.maximum(np.diff(edges) - SHINGLE + 1, 1)
    begins = starts(counts)
    chosen = hashes[buckets.slices(edges[:-1], counts)]
    short = np.diff(edges) < SHINGLE  # the window would reach into the next document
    chosen[begins[:-1][short]] = wholes[short]
    return chosen, begins[:-1]


def _bands(shingles: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Min-hashes under BANDS * ROWS odd multipliers, joined band by band: uint64 [D, BANDS]."""
    hashes, begins = shingles
    multipliers = mix(np.arange(1, BANDS * ROWS + 1, dtype=UINT)) | UINT(1)
    keys = np.zeros((len(begins), BANDS), UINT)
    for number, multiplier in enumerate(multipliers):
        smallest = np.minimum.reduceat(hashes * multiplier, begins)
        band = number // ROWS
        keys[:, band] = mix(keys[:, band] + smallest + UINT(number))
    return keys


def find_duplicates(pieces: Iterable[bytes], assignment: Assignment) -> Iterator[tuple[int, bytes]]:
    """All keys of a partition -> (code of a bucket, packed drops) for all but the first of equal keys."""
    table = np.frombuffer(b"".join(pieces), np.int64).reshape(-1, 3)
    order = np.lexsort((table[:, 2], table[:, 1], table[:, 0]))
    table = table[order]
    drops = table[1:][table[1:, 0] == table[:-1, 0]][:, 1:]
    drops = np.unique(drops, axis=0)
    yield from _split(assignment.codes(drops[:, 0]), drops.T)


def drop(numbered: NumberedDocuments, pieces: Iterable[bytes]) -> NumberedDocuments:
    """The documents without the documents and sentences listed in packed drops."""
    drops = np.frombuffer(b"".join(pieces), np.int64).reshape(-1, 2)
    if not len(drops):
        return numbered
    flat, numbers = numbered.documents, numbered.numbers
    order = np.argsort(numbers)
    place = np.minimum(np.searchsorted(numbers, drops[:, 0], sorter=order), len(numbers) - 1)
    document = order[place]
    is_here = numbers[document] == drops[:, 0]
    document, sentence = document[is_here], drops[is_here, 1]
    dropped = np.zeros(len(flat.sentence_starts) - 1, bool)
    dropped[flat.document_starts[document[sentence != WHOLE]] + sentence[sentence != WHOLE]] = True
    owners = np.repeat(np.arange(len(numbers)), np.diff(flat.document_starts))
    dropped |= np.isin(owners, document[sentence == WHOLE])
    kept = np.flatnonzero(~dropped)
    sizes = np.diff(flat.sentence_starts)[kept]
    counts = np.bincount(owners[kept], minlength=len(numbers))
    ids = flat.ids[buckets.slices(flat.sentence_starts[kept], sizes)]
    left = np.flatnonzero(counts)
    return NumberedDocuments(numbers[left], FlatDocuments(ids, starts(sizes), starts(counts[left])))

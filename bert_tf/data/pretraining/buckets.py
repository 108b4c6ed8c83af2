"""The two sides of the shuffle: documents as ids, packed into bytes by bucket; and a bucket unpacked again.

No TensorFlow here. D documents, S sentences, N ids. The number of a document depends only on the input: the part number
times PART_STRIDE, plus its place in the part. Its split and bucket depend on the seed and that number, and the number
of buckets on the size of the input: never on the number of workers or the engine.
"""

import dataclasses
import hashlib
import struct
from collections.abc import Iterable, Iterator

import numpy as np

from bert_tf.data.pretraining.pairs import FlatDocuments

BUCKET_BYTES = 16 * 1024 * 1024  # of text: a worker has one bucket in memory, as ids and pairs
MAX_BUCKETS = 1 << 14  # above 256 GB of text the buckets grow instead
PART_STRIDE = 1 << 32
HEADER = struct.Struct("<4q")  # documents, sentences, ids, bytes of an id
UINT = np.uint64

Bucket = tuple[str, int]  # split, number


def num_buckets(text_bytes: int) -> int:
    """The number of buckets, at least one, for this many bytes of text."""
    return min(MAX_BUCKETS, max(1, -(-text_bytes // BUCKET_BYTES)))


@dataclasses.dataclass(frozen=True)
class NumberedDocuments:
    """Documents with numbers, int64 [D]; ~number: a copy that counts only if that document is held out."""

    numbers: np.ndarray
    documents: FlatDocuments

    def take(self, order: np.ndarray) -> "NumberedDocuments":
        """The documents at some indices, int64 [d], in that order."""
        flat = self.documents
        sentence_sizes = np.diff(flat.sentence_starts)
        counts = np.diff(flat.document_starts)[order]
        sentences = slices(flat.document_starts[order], counts)
        sizes = sentence_sizes[sentences]
        ids = flat.ids[slices(flat.sentence_starts[sentences], sizes)]
        return NumberedDocuments(self.numbers[order], FlatDocuments(ids, starts(sizes), starts(counts)))


def slices(first: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The concatenated indices of slices, each of `sizes` elements from `first` on: [sum of sizes]."""
    total = int(sizes.sum())
    kind = np.int32 if max(int((first + sizes).max(initial=0)), total) < 1 << 31 else np.int64  # half the memory
    indices = np.repeat((first - (np.cumsum(sizes) - sizes)).astype(kind), sizes)
    indices += np.arange(total, dtype=kind)
    return indices


def starts(sizes: np.ndarray) -> np.ndarray:
    """Sizes [n] -> int64 [n + 1]: where each begins, and the end of all."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def groups(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yields each code of int [n], in order, with its indices."""
    order = np.argsort(codes, kind="stable")
    edges = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for indices in np.split(order, edges)[1:]:
        yield int(codes[indices[0]]), indices


def uniforms(seed: str, numbers: np.ndarray) -> np.ndarray:
    """A pseudo-random float in [0, 1) for each number, float64 [n]; depends only on number and seed."""
    digest = hashlib.blake2b(seed.encode(), digest_size=8).digest()
    values = mix(mix(numbers.astype(np.int64).view(UINT)) ^ UINT(int.from_bytes(digest, "little")))
    return (values >> UINT(11)) * 2.0**-53


@dataclasses.dataclass(frozen=True)
class Assignment:
    """Assigns documents to buckets.

    counts: the number of buckets of each split. eval_fraction: the fraction of documents for "eval". first_eval_part:
    the first part whose documents all go to "eval".
    """

    seed: int
    counts: dict[str, int]
    eval_fraction: float
    first_eval_part: int

    def draws(self, numbers: np.ndarray) -> np.ndarray:
        """A number for each document, held out if it is below eval_fraction: float64 [D]."""
        return uniforms(f"{self.seed} held out", numbers)

    def is_held_out(self, numbers: np.ndarray) -> np.ndarray:
        """Returns whether a document goes to "eval", bool [D]."""
        return (numbers >= self.first_eval_part * PART_STRIDE) | (self.draws(numbers) < self.eval_fraction)

    def codes(self, numbers: np.ndarray, is_held_out: np.ndarray | None = None) -> np.ndarray:
        """The code of the bucket of each document, int64 [D]."""
        train, held_out = (
            (uniforms(f"{self.seed} {split} bucket", numbers) * self.counts[split]).astype(np.int64)
            for split in ("train", "eval")
        )
        chosen = self.is_held_out(numbers) if is_held_out is None else is_held_out
        return np.where(chosen, self.counts["train"] + held_out, train)

    def code(self, bucket: Bucket) -> int:
        """The code of a bucket: codes number the "train" buckets first, then the "eval" buckets."""
        return bucket[1] + (self.counts["train"] if bucket[0] == "eval" else 0)

    def bucket(self, code: int) -> Bucket:
        """The bucket of a code."""
        train = self.counts["train"]
        return ("train", code) if code < train else ("eval", code - train)


def mix(x: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: each bit of the result depends on all bits of x, uint64 of any shape."""
    x = (x ^ (x >> UINT(30))) * UINT(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> UINT(27))) * UINT(0x94D049BB133111EB)
    return x ^ (x >> UINT(31))


def pack_buckets(numbered: NumberedDocuments, buckets: np.ndarray, id_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yields (bucket, packed documents) in order of the buckets; `buckets`: the bucket of each document, int [D]."""
    for bucket, indices in groups(buckets):
        chosen = numbered.take(indices)  # one bucket at a time: a copy of all would double the memory
        flat = chosen.documents
        counts, sizes = (np.diff(each).astype("<i4") for each in (flat.document_starts, flat.sentence_starts))
        header = HEADER.pack(len(counts), len(sizes), len(flat.ids), id_bytes)
        arrays = (chosen.numbers, counts, sizes, flat.ids.astype(f"<u{id_bytes}"))
        yield bucket, header + b"".join(map(np.ndarray.tobytes, arrays))


def unpack(pieces: Iterable[bytes]) -> NumberedDocuments:
    """The documents of packed pieces, one piece after another."""
    columns: tuple[list[np.ndarray], ...] = ([], [], [], [])
    for piece in pieces:
        *sizes, id_bytes = HEADER.unpack_from(piece)
        position = HEADER.size
        for column, size, dtype in zip(
            columns, (sizes[0], *sizes), ("<i8", "<i4", "<i4", f"<u{id_bytes}"), strict=True
        ):
            column.append(np.frombuffer(piece, dtype, size, position))
            position += column[-1].nbytes
    numbers, counts, sentence_sizes, ids = (
        np.concatenate([np.zeros(0, dtype), *column]).astype(dtype, copy=False)
        for column, dtype in zip(columns, (np.int64, np.int64, np.int64, np.int32), strict=True)
    )
    return NumberedDocuments(numbers, FlatDocuments(ids, starts(sentence_sizes), starts(counts)))

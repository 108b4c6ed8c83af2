"""Distributes documents over a fixed number of bucket files; each bucket becomes one shard of records.

No TensorFlow here. The bucket of a document depends on the seed and its number alone, and the number of buckets on the
size of the input alone: never on the number of workers. A bucket file holds one document per line, as a JSON list of
sentences.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

BUCKET_BYTES = 16 * 1024 * 1024  # of text: a worker holds one in memory, about ten times as much with ids and pairs
MAX_BUCKETS = 1024  # above 16 GB of text the buckets grow instead
BUFFER_BYTES = 64 * 1024  # per bucket, before it is written


def num_buckets(text_bytes: int) -> int:
    """The number of buckets, at least one, for this many bytes of text."""
    return min(MAX_BUCKETS, max(1, -(-text_bytes // BUCKET_BYTES)))


def bucket_path(folder: str | os.PathLike[str], split: str, bucket: int) -> Path:
    """The path of a bucket file; split is "train" or "eval"."""
    return Path(folder) / f"{split}-{bucket:05d}.jsonl"


def read_bucket(path: str | os.PathLike[str]) -> Iterator[list[str]]:
    """Yields the documents (lists of sentences) of a bucket file."""
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            yield json.loads(line)


class BucketWriter:
    """Appends documents to the buckets of one split, which it empties first."""

    def __init__(self, folder: str | os.PathLike[str], split: str, count: int, seed: int) -> None:
        self.paths = [bucket_path(folder, split, bucket) for bucket in range(count)]
        self.buffers: list[list[bytes]] = [[] for _ in self.paths]
        self.sizes = [0] * count
        self.seed = f"{seed} {split} bucket"
        self.documents = self.sentences = 0
        for path in self.paths:
            path.write_bytes(b"")

    def add(self, number: int, document: list[str]) -> None:
        """Adds document `number` of the input to its bucket."""
        line = json.dumps(document, ensure_ascii=False).encode() + b"\n"
        bucket = int(hash_to_unit_interval(self.seed, number) * len(self.paths))
        self.buffers[bucket].append(line)
        self.sizes[bucket] += len(line)
        self.documents += 1
        self.sentences += len(document)
        if self.sizes[bucket] >= BUFFER_BYTES:
            self._flush(bucket)

    def _flush(self, bucket: int) -> None:
        with open(self.paths[bucket], "ab") as file:  # not kept open: there may be more buckets than file handles
            file.write(b"".join(self.buffers[bucket]))
        self.buffers[bucket], self.sizes[bucket] = [], 0

    def close(self) -> None:
        """Writes what is still buffered to disk."""
        for bucket in range(len(self.paths)):
            self._flush(bucket)
            with open(self.paths[bucket], "rb+") as file:
                os.fsync(file.fileno())


def assign_to_buckets(
    documents: Iterable[list[str]],
    train: BucketWriter,
    evaluation: BucketWriter | None = None,
    *,
    seed: int,
    eval_fraction: float = 0.0,
) -> int:
    """Writes documents to the buckets of two splits: `evaluation` gets about eval_fraction of them, and at least one.

    Without `evaluation` all go to `train`. The document with the smallest hash is held out whatever the fraction; a
    corpus of one document goes to both. Returns the number of documents.
    """
    number = -1
    smallest: tuple[float, int, list[str]] | None = None  # (hash, number, document), not yet written
    for number, document in enumerate(documents):
        if evaluation is None:
            train.add(number, document)
            continue
        current: tuple[float, int, list[str]] | None
        current = hash_to_unit_interval(f"{seed} held out", number), number, document
        if smallest is None or current[0] < smallest[0]:
            smallest, current = current, smallest
        if current:
            (evaluation if current[0] < eval_fraction else train).add(*current[1:])
    if evaluation is not None and smallest:
        evaluation.add(*smallest[1:])
        if number == 0:
            train.add(*smallest[1:])
    return number + 1


def hash_to_unit_interval(seed: str, number: int) -> float:
    """A pseudo-random float in [0, 1) that depends on its two arguments alone."""
    digest = hashlib.blake2b(f"{seed} {number}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53

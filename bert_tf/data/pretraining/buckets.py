"""Documents dealt into a fixed number of bucket files, of which each becomes one shard of records.

No TensorFlow here. Which bucket a document goes to depends on the seed and its number alone, and the number of buckets
on the size of the input alone: never on how many workers there are. A bucket file holds one document a line, as a JSON
list of sentences.
"""

import hashlib
import json
import os
from pathlib import Path

BUCKET_BYTES = 16 * 1024 * 1024  # of text: what one worker holds in memory, about ten times that with ids and pairs
MAX_BUCKETS = 1024  # above 16 GB of text the buckets grow instead
BUFFER_BYTES = 64 * 1024  # per bucket, before it is written


def number_of_buckets(text_bytes):
    """Bytes of text -> into how many buckets they go (at least one)."""
    return min(MAX_BUCKETS, max(1, -(-text_bytes // BUCKET_BYTES)))


def bucket_path(folder, split, bucket):
    """Where a bucket lies; split is "train" or "eval"."""
    return Path(folder) / f"{split}-{bucket:05d}.jsonl"


def read_bucket(path):
    """A bucket file -> its documents, lists of sentences."""
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            yield json.loads(line)


class BucketWriter:
    """Appends documents to the buckets of one split, which it empties first."""

    def __init__(self, folder, split, count, seed):
        self.paths = [bucket_path(folder, split, bucket) for bucket in range(count)]
        self.buffers = [[] for _ in self.paths]
        self.sizes = [0] * count
        self.seed = f"{seed} {split} bucket"
        self.documents = self.sentences = 0
        for path in self.paths:
            path.write_bytes(b"")

    def add(self, number, document):
        """Puts document `number` of the input into its bucket."""
        line = json.dumps(document, ensure_ascii=False).encode() + b"\n"
        bucket = int(chance(self.seed, number) * len(self.paths))
        self.buffers[bucket].append(line)
        self.sizes[bucket] += len(line)
        self.documents += 1
        self.sentences += len(document)
        if self.sizes[bucket] >= BUFFER_BYTES:
            self._write(bucket)

    def _write(self, bucket):
        with open(self.paths[bucket], "ab") as file:  # not kept open: there may be more buckets than file handles
            file.write(b"".join(self.buffers[bucket]))
        self.buffers[bucket], self.sizes[bucket] = [], 0

    def close(self):
        for bucket in range(len(self.paths)):
            self._write(bucket)
            with open(self.paths[bucket], "rb+") as file:
                os.fsync(file.fileno())


def deal(documents, train, evaluation=None, *, seed, eval_fraction=0.0):
    """Deals documents between two BucketWriters: `evaluation` gets about eval_fraction of them, and at least one.

    Without `evaluation` all go to `train`. The document with the smallest chance is held out whatever the fraction; a
    corpus of one document is put into both. Returns the number of documents.
    """
    number, held = -1, None  # held: (chance, number, document) with the smallest chance so far, not yet dealt
    for number, document in enumerate(documents):
        passed = (chance(f"{seed} held out", number), number, document)
        if evaluation is None:
            train.add(number, document)
            continue
        if held is None or passed[0] < held[0]:
            held, passed = passed, held
        if passed:
            (evaluation if passed[0] < eval_fraction else train).add(*passed[1:])
    if held:
        evaluation.add(*held[1:])
        if number == 0:
            train.add(*held[1:])
    return number + 1


def chance(seed, number):
    """A float in [0, 1) that depends on its two arguments alone."""
    digest = hashlib.blake2b(f"{seed} {number}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53

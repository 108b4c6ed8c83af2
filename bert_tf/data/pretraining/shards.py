"""The work on one bucket: its documents become a shard of records and their statistics.

No TensorFlow here. N ids in the bucket, S sentences, D documents, I instances, V vocabulary.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator

import numpy as np

from bert_tf.data.pretraining import duplicates, pairs, record_files
from bert_tf.data.pretraining.buckets import UINT, Bucket, NumberedDocuments, slices, unpack
from bert_tf.text import chinese_words
from bert_tf.text.record_tokenizer import RecordTokenizer

COUNTED = 1 << 20  # ids counted at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardJob:
    """Everything a worker needs to make one shard; the same job gives the same bytes anywhere."""

    bucket: Bucket
    number: int  # unique among all shards; goes into record ids and the seed
    max_seq_length: int
    short_seq_prob: float
    short_seq_per_document: bool
    passes: int
    random_seed: int
    nsp: bool
    pairs: str  # of segments, see `pairs.KINDS`
    hash_bits: int  # one in 2 ** hash_bits sentences is sampled for counting duplicates
    held_out: int | None  # the number of a document of which a copy for "eval" counts
    in_both: bool  # whether it stays in "train" too


@dataclasses.dataclass(frozen=True)
class Shard:
    """A shard to write: blocks of serialized records; and when these are used up, its statistics are complete."""

    blocks: Iterator[list[bytes]]
    statistics: dict[str, int]
    counts: np.ndarray  # int64 [V], of each id
    hashes: np.ndarray  # uint64, of (some) sentences


def make_shard(pieces: Iterable[bytes], drops: Iterable[bytes], job: ShardJob, tokenizer: RecordTokenizer) -> Shard:
    """The shard of a bucket, from its packed documents in order of their parts, without the duplicates among them."""
    documents = _choose(duplicates.drop(unpack(pieces), drops), job).documents
    counts, ids = np.zeros(tokenizer.size, np.int64), documents.ids
    if tokenizer.id_count > tokenizer.size:
        ids = chinese_words.without_marks(ids, tokenizer.size)
    for first in range(0, len(ids), COUNTED):  # NumPy copies what it counts as int64
        counts += np.bincount(ids[first : first + COUNTED], minlength=tokenizer.size)
    hashes = duplicates.sentence_hashes(ids, np.diff(documents.sentence_starts))
    rows = make_instances(documents, job, tokenizer.separators)
    statistics = {
        "documents": len(documents.document_starts) - 1,
        "sentences": len(documents.sentence_starts) - 1,
        "tokens": len(documents.ids),
        "unknown": int(counts[tokenizer.unknown_id]),
        "instances": len(rows),
        "random_next": int(rows[:, pairs.RANDOM_NEXT].sum()),
        "instance_tokens": 0,
    }
    sampled = hashes[hashes & UINT(2**job.hash_bits - 1) == 0]
    return Shard(_blocks(documents, rows, job, tokenizer, statistics), statistics, counts, sampled)


def _choose(numbered: NumberedDocuments, job: ShardJob) -> NumberedDocuments:
    """Drops copies that do not count, and the original of the one that does."""
    numbers = numbered.numbers
    is_chosen = numbers >= 0
    if job.held_out is not None:
        is_chosen |= numbers == ~job.held_out
        is_chosen &= (numbers != job.held_out) | job.in_both
    return numbered if is_chosen.all() else numbered.take(np.flatnonzero(is_chosen))


def make_instances(documents: pairs.FlatDocuments, job: ShardJob, separators: int) -> np.ndarray:
    """All passes over the documents of a bucket, shuffled: int64 [I, 5], see `bert_tf.data.pretraining.pairs`."""
    one_pass = functools.partial(
        pairs.KINDS[job.pairs if job.nsp or job.pairs == pairs.FULL_SENTENCES else ""],
        documents,
        max_seq_length=job.max_seq_length - (separators - 1 if job.nsp else 0),
        short_seq_prob=job.short_seq_prob,
        short_seq_per_document=job.short_seq_per_document,
    )
    rows = np.concatenate([one_pass(pairs.BufferedRandom(_generator(job, number))) for number in range(job.passes)])
    return rows[_generator(job, job.passes).permutation(len(rows))]


def _generator(job: ShardJob, number: int) -> np.random.Generator:
    return np.random.default_rng([job.random_seed, job.number, number])


def _blocks(
    documents: pairs.FlatDocuments,
    rows: np.ndarray,
    job: ShardJob,
    tokenizer: RecordTokenizer,
    statistics: dict[str, int],
) -> Iterator[list[bytes]]:
    """The records of the instances, a block at a time; adds their tokens to the statistics."""
    ids = documents.ids
    if job.pairs == pairs.FULL_SENTENCES:
        ids, rows = _with_ends_of_documents(documents, rows, tokenizer.sep_id)
    for first in range(0, len(rows), record_files.BLOCK):
        block = rows[first : first + record_files.BLOCK]
        token_ids, lengths, second_starts = _with_special_tokens(ids, block, job.nsp, tokenizer)
        numbers = (job.number << 32) + first + np.arange(len(block))
        labels = block[:, pairs.RANDOM_NEXT]
        statistics["instance_tokens"] += len(token_ids)
        yield record_files.serialize_records(token_ids, lengths, second_starts, labels, numbers)


def _with_ends_of_documents(
    documents: pairs.FlatDocuments, rows: np.ndarray, sep_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ids with [SEP] before each document but the first, and rows of them that begin and end with none of these."""
    begins = documents.document_begins
    begins = begins[(begins > 0) & (begins < len(documents.ids))]
    moved = rows.copy()
    moved[:, pairs.FIRST_START] += np.searchsorted(begins, rows[:, pairs.FIRST_START], "right")
    moved[:, pairs.FIRST_END] += np.searchsorted(begins, rows[:, pairs.FIRST_END], "left")
    return np.insert(documents.ids, begins, sep_id), moved


def _with_special_tokens(
    ids: np.ndarray, block: np.ndarray, nsp: bool, tokenizer: RecordTokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows [CLS] first [SEP] (second [SEP]) -> all their ids, their lengths, and where the second segment starts."""
    first = block[:, pairs.FIRST_END] - block[:, pairs.FIRST_START]
    second = block[:, pairs.SECOND_END] - block[:, pairs.SECOND_START]
    second_starts = first + 1 + (tokenizer.separators if nsp else 1)
    lengths = second_starts + second + 1 if nsp else second_starts
    ends = np.cumsum(lengths)
    begins = ends - lengths
    token_ids = np.full(lengths.sum(), tokenizer.sep_id, np.int32)
    token_ids[begins] = tokenizer.cls_id
    token_ids[slices(begins + 1, first)] = ids[slices(block[:, pairs.FIRST_START], first)]
    if nsp:
        token_ids[slices(begins + second_starts, second)] = ids[slices(block[:, pairs.SECOND_START], second)]
    return token_ids, lengths, second_starts

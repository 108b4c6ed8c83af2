"""The work of both stages: parts of the input become packed documents; each bucket of them becomes a shard.

No TensorFlow here. N ids, S sentences, D documents, I instances, V vocabulary.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from bert_tf.data.pretraining import buckets, duplicates, pairs, record_files
from bert_tf.data.pretraining.buckets import PART_STRIDE, UINT, Assignment, Bucket, NumberedDocuments
from bert_tf.data.pretraining.pairs import FlatDocuments
from bert_tf.text.demo_corpus import installed_python
from bert_tf.text.documents import read_documents
from bert_tf.text.record_tokenizer import RecordTokenizer
from bert_tf.text.sources import Source

PART_BYTES = 16 * 1024 * 1024  # of text: a worker has its ids in memory
BATCH_CHARACTERS = 500_000  # of text tokenized at once
COUNTED = 1 << 20  # ids counted at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartJob:
    """Everything a worker needs for one part; the same job yields the same bytes anywhere."""

    number: int  # unique among all parts
    sources: tuple[Source, ...]  # empty: the documentation of the installed Python
    split: str  # "train" or "eval"
    assignment: Assignment
    skip_damaged: bool
    duplicates: str  # the kind of documents to drop, see `duplicates.KINDS`
    duplicate_sentences: bool  # whether to drop sentences too


@dataclasses.dataclass(frozen=True)
class PartResult:
    """The result of one part.

    documents: count in input_file. eval_documents: count in eval_file. sentences: count in both. held_out: held-out
    documents of input_file. smallest: if nothing is held out, the smallest hash and its document's number. damage:
    messages about unreadable data.
    """

    documents: int = 0
    eval_documents: int = 0
    sentences: int = 0
    held_out: int = 0
    smallest: tuple[float, int] | None = None
    damage: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class PackedPart:
    """A part after stage 1: (code of a bucket, packed documents), and (partition, packed keys) of their duplicates."""

    result: PartResult
    documents: list[tuple[int, bytes]]
    keys: list[tuple[int, bytes]]


def tokenize_part(job: PartJob, tokenizer: RecordTokenizer) -> PackedPart:
    """Reads and tokenizes a part.

    The document with the smallest hash of all is held out whatever the fraction: a part without held-out documents also
    packs its candidate for "eval", with an inverted number.
    """
    damage: list[str] = []
    assignment = job.assignment
    number_of_documents, numbered = tokenize_documents(_documents(job, damage), job, tokenizer)
    keys = duplicates.keys_of(numbered, job.duplicates, job.duplicate_sentences).pack(assignment.counts["train"])
    is_held_out = assignment.is_held_out(numbered.numbers)
    held_out, smallest = int(is_held_out.sum()), None
    chosen = np.arange(len(is_held_out))
    if assignment.eval_fraction and len(chosen) and not held_out:
        draws = assignment.draws(numbered.numbers)
        candidate = int(draws.argmin())
        smallest = float(draws[candidate]), int(numbered.numbers[candidate])
        chosen, is_held_out = np.append(chosen, candidate), np.append(is_held_out, True)
    result = PartResult(
        documents=number_of_documents if job.split == "train" else 0,
        eval_documents=number_of_documents if job.split == "eval" else 0,
        sentences=len(numbered.documents.sentence_starts) - 1,
        held_out=held_out if job.split == "train" else 0,
        smallest=smallest,
        damage=damage,
    )
    codes = assignment.codes(numbered.numbers[chosen], is_held_out)
    if smallest:
        numbered = numbered.take(chosen)
        numbered.numbers[-1] = ~numbered.numbers[-1]
    return PackedPart(result, list(buckets.pack_buckets(numbered, codes, id_bytes(tokenizer))), list(keys))


def _documents(job: PartJob, damage: list[str]) -> Iterator[list[str]]:
    if not job.sources:
        yield from installed_python()
    for source in job.sources:
        yield from read_documents(source, damage if job.skip_damaged else None)


def id_bytes(tokenizer: RecordTokenizer) -> int:
    """Bytes of an id in packed documents."""
    return 2 if tokenizer.size <= 1 << 16 else 4


def tokenize_documents(
    documents: Iterable[list[str]], job: PartJob, tokenizer: RecordTokenizer
) -> tuple[int, NumberedDocuments]:
    """The number of documents, and the ids of those with tokens; skips sentences without tokens."""
    all_ids, all_sizes, all_counts = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    total = 0
    for number_of_documents, texts, document_of_text in _batches(documents):
        ids, sizes = tokenizer(texts)
        total += number_of_documents
        all_ids.append(ids)
        all_sizes.append(sizes[sizes > 0])
        all_counts.append(np.bincount(document_of_text[sizes > 0], minlength=number_of_documents))
    ids, sizes, counts = (np.concatenate(arrays) for arrays in (all_ids, all_sizes, all_counts))
    all_ids.clear()
    kept = np.flatnonzero(counts)
    flat = FlatDocuments(ids, buckets.starts(sizes), buckets.starts(counts[kept]))
    return total, NumberedDocuments(job.number * PART_STRIDE + kept, flat)


def _batches(documents: Iterable[list[str]]) -> Iterator[tuple[int, list[str], np.ndarray]]:
    """Yields (number of documents, texts, int64 document of each text) of about BATCH_CHARACTERS each."""
    texts: list[str] = []
    counts: list[int] = []
    size = 0
    for document in documents:
        texts.extend(document)
        counts.append(len(document))
        size += sum(map(len, document))
        if size >= BATCH_CHARACTERS:
            yield len(counts), texts, np.repeat(np.arange(len(counts)), counts)
            texts, counts, size = [], [], 0
    if texts:
        yield len(counts), texts, np.repeat(np.arange(len(counts)), counts)


def merge(first: PartResult, second: PartResult) -> PartResult:
    """The counts of two parts together, whichever comes first."""
    candidates = [each.smallest for each in (first, second) if each.smallest]
    added = {
        name: getattr(first, name) + getattr(second, name)
        for name in ("documents", "eval_documents", "sentences", "held_out")
    }
    damage = sorted([*first.damage, *second.damage])
    return PartResult(smallest=min(candidates, default=None), damage=damage, **added)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardJob:
    """Everything a worker needs to make one shard; the same job yields the same bytes anywhere."""

    bucket: Bucket
    number: int  # unique among all shards; goes into record ids and the seed
    max_seq_length: int
    short_seq_prob: float
    short_seq_per_document: bool
    passes: int
    random_seed: int
    nsp: bool
    pairs: str  # the kind of segment pairs, see `pairs.KINDS`
    hash_bits: int  # one in 2 ** hash_bits sentences is sampled for counting duplicates
    held_out: int | None  # the number of a document whose copy for "eval" counts
    in_both: bool  # whether it stays in "train" too


@dataclasses.dataclass(frozen=True)
class Shard:
    """A shard to write: blocks of serialized records, and statistics, complete once the blocks are consumed."""

    blocks: Iterator[list[bytes]]
    statistics: dict[str, int]
    counts: np.ndarray  # int64 [V], count of each id
    hashes: np.ndarray  # uint64, hashes of (some) sentences


def make_shard(pieces: Iterable[bytes], drops: Iterable[bytes], job: ShardJob, tokenizer: RecordTokenizer) -> Shard:
    """The shard of a bucket, from its packed documents in order of their parts, without the duplicates among them."""
    documents = _choose(duplicates.drop(buckets.unpack(pieces), drops), job).documents
    counts, ids = np.zeros(tokenizer.size, np.int64), documents.ids
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
    """Drops copies that do not count, and the original of the copy that does."""
    numbers = numbered.numbers
    is_chosen = numbers >= 0
    if job.held_out is not None:
        is_chosen |= numbers == ~job.held_out
        is_chosen &= (numbers != job.held_out) | job.in_both
    return numbered if is_chosen.all() else numbered.take(np.flatnonzero(is_chosen))


def make_instances(documents: FlatDocuments, job: ShardJob, separators: int) -> np.ndarray:
    """All passes over the documents of a bucket, shuffled: int64 [I, 5], see `bert_tf.data.pretraining.pairs`."""
    make_pairs = pairs.KINDS[job.pairs if job.nsp or job.pairs == pairs.FULL_SENTENCES else ""]
    max_seq_length = job.max_seq_length - (separators - 1 if job.nsp else 0)
    lengths = pairs.Lengths(max_seq_length, job.short_seq_prob, job.short_seq_per_document)
    randoms = (pairs.BufferedRandom(_generator(job, number)) for number in range(job.passes))
    rows = np.concatenate([make_pairs(documents, random, lengths) for random in randoms])
    return rows[_generator(job, job.passes).permutation(len(rows))]


def _generator(job: ShardJob, number: int) -> np.random.Generator:
    return np.random.default_rng([job.random_seed, job.number, number])


def _blocks(
    documents: FlatDocuments, rows: np.ndarray, job: ShardJob, tokenizer: RecordTokenizer, statistics: dict[str, int]
) -> Iterator[list[bytes]]:
    """The records of the instances, a block at a time; adds their tokens to the statistics."""
    ids, separators, continues = documents.ids, tokenizer.separators if job.nsp else 0, None
    words = tokenizer.words(ids, documents.sentence_starts) if tokenizer.words else None
    if job.pairs == pairs.FULL_SENTENCES:
        begins = documents.document_begins
        begins = begins[(begins > 0) & (begins < len(ids))]
        rows = _with_ends_of_documents(begins, rows)
        ids = np.insert(ids, begins, tokenizer.sep_id)
        words = words if words is None else np.insert(words, begins, False)
    for first in range(0, len(rows), record_files.BLOCK):
        block = rows[first : first + record_files.BLOCK]
        special = tokenizer.cls_id, tokenizer.sep_id
        token_ids, lengths, second_starts = _with_special_tokens(ids, block, separators, special)
        if words is not None:
            continues, _, _ = _with_special_tokens(words, block, separators, (False, False))
        numbers = (job.number << 32) + first + np.arange(len(block))
        labels = block[:, pairs.RANDOM_NEXT]
        statistics["instance_tokens"] += len(token_ids)
        yield record_files.serialize_records(token_ids, lengths, second_starts, labels, numbers, continues)


def _with_ends_of_documents(begins: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows as offsets into ids with a [SEP] where documents begin; no row begins or ends with one."""
    moved = rows.copy()
    moved[:, pairs.FIRST_START] += np.searchsorted(begins, rows[:, pairs.FIRST_START], "right")
    moved[:, pairs.FIRST_END] += np.searchsorted(begins, rows[:, pairs.FIRST_END], "left")
    return moved


def _with_special_tokens(
    ids: np.ndarray, block: np.ndarray, separators: int, special: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows [CLS] first [SEP] (second [SEP]) -> all their ids, their lengths, and where the second segment starts.

    separators: number between two segments; 0: rows have one segment. special: the ids of [CLS] and [SEP].
    """
    first = block[:, pairs.FIRST_END] - block[:, pairs.FIRST_START]
    second = block[:, pairs.SECOND_END] - block[:, pairs.SECOND_START]
    second_starts = first + 1 + (separators or 1)
    lengths = second_starts + second + 1 if separators else second_starts
    ends = np.cumsum(lengths)
    begins = ends - lengths
    token_ids = np.full(lengths.sum(), special[1], ids.dtype)
    token_ids[begins] = special[0]
    token_ids[buckets.slices(begins + 1, first)] = ids[buckets.slices(block[:, pairs.FIRST_START], first)]
    if separators:
        token_ids[buckets.slices(begins + second_starts, second)] = ids[
            buckets.slices(block[:, pairs.SECOND_START], second)
        ]
    return token_ids, lengths, second_starts

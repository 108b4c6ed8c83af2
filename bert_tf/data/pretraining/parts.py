"""The work on one part of the input: some files, or a range of one, become packed documents for each bucket.

No TensorFlow here. D documents, S sentences, N ids.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from bert_tf.data.pretraining import buckets, duplicates
from bert_tf.data.pretraining.buckets import PART_STRIDE, Assignment, NumberedDocuments
from bert_tf.data.pretraining.pairs import FlatDocuments
from bert_tf.text import corpus
from bert_tf.text.demo_corpus import installed_python
from bert_tf.text.record_tokenizer import RecordTokenizer

PART_BYTES = 16 * 1024 * 1024  # of text: a worker holds its ids in memory
BATCH_CHARACTERS = 500_000  # of text tokenized at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartJob:
    """Everything a worker needs for one part; the same job gives the same bytes anywhere."""

    number: int  # unique among all parts
    sources: tuple[corpus.Source, ...]  # none: what the installed Python says of itself
    split: str  # "train" or "eval"
    assignment: Assignment
    skip_damaged: bool
    duplicates: str  # the kind of documents that are dropped, see `duplicates.KINDS`
    duplicate_sentences: bool  # whether sentences are dropped too


@dataclasses.dataclass(frozen=True)
class PartResult:
    """What became of one part.

    documents: of input_file. eval_documents: of eval_file. sentences: of both. held_out: documents of input_file.
    smallest: if nothing is held out, the smallest hash and the number of its document. damage: sentences on what could
    not be read.
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

    The document with the smallest hash of all is held out whatever the fraction: a part of which nothing is held out
    packs its candidate for "eval" too, with its number inverted.
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
        yield from corpus.read_documents(source, damage if job.skip_damaged else None)


def id_bytes(tokenizer: RecordTokenizer) -> int:
    """Bytes of an id in packed documents."""
    return 2 if tokenizer.id_count <= 1 << 16 else 4


def tokenize_documents(
    documents: Iterable[list[str]], job: PartJob, tokenizer: RecordTokenizer
) -> tuple[int, NumberedDocuments]:
    """The number of documents, and the ids of those that hold a token; sentences without one are left out."""
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

"""What preparing records will cost, measured on a sample of the text before anything is written."""

import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert_tf.data.pretraining import buckets, duplicates, parts, shards
from bert_tf.data.pretraining.plan import Plan
from bert_tf.errors import UserError
from bert_tf.text import corpus, record_tokenizer
from bert_tf.text.demo_corpus import installed_python
from bert_tf.text.record_tokenizer import RecordTokenizer

SAMPLED_FILES = 16  # spread over the list of files
SAMPLED_BYTES = 2_000_000  # of text, in all of them
RECORD_FRAME = 16  # bytes of a TFRecord around the record
COMPRESSED = 0.5  # size of .tfrecord.gz over that of .tfrecord
SPEED_COMPRESSED = 0.6


def estimate(plan: Plan) -> dict[str, float]:
    """Files, bytes of text, and about how many documents, instances, bytes on disk and core-hours they will be.

    "records_bytes" are those of the shards, "work_bytes" those needed besides until they are ready; "core_hours" those
    of a core of this machine. Raises UserError if the sample holds no text.
    """
    job = parts.PartJob(
        number=0,
        sources=(),
        split="train",
        assignment=plan.assignment(1),
        skip_damaged=plan.options.skip_damaged,
        duplicates=plan.options.duplicates,
        duplicate_sentences=plan.options.duplicate_sentences,
    )
    tokenizer = record_tokenizer.create(plan.vocabulary, *plan.options.tokenizer_options)
    sources = plan.sources.get("train", [])
    documents = list(_sample(sources) if sources else installed_python())
    size = sum(len(sentence.encode()) + 1 for document in documents for sentence in document)
    if not size:
        raise UserError("The sample of input_file holds no text at all.")
    parts.tokenize_documents(documents, job, tokenizer)  # most words are new in the first megabyte only
    start = time.process_time()
    if sources:
        list(_sample(sources))
    _, numbered = parts.tokenize_documents(documents, job, tokenizer)
    list(duplicates.keys_of(numbered, job.duplicates, job.duplicate_sentences).pack(1))
    made = _shard(numbered, plan, tokenizer)
    record_bytes = sum(len(record) + RECORD_FRAME for block in made.blocks for record in block)
    seconds = time.process_time() - start
    total = sum(map(corpus.text_size, sources)) if sources else size
    scale = total / size
    compressed = plan.options.compress
    return {
        "files": len(sources),
        "text_bytes": total,
        "documents": round(scale * len(documents)),
        "tokens": round(scale * made.statistics["tokens"]),
        "instances": round(scale * made.statistics["instances"]),
        "shards": plan.buckets["train"] + plan.buckets["eval"],
        "records_bytes": round(scale * record_bytes * (COMPRESSED if compressed else 1)),
        "work_bytes": round(scale * sum(len(piece) for piece in _pack(numbered, tokenizer))),
        "core_hours": scale * seconds / (SPEED_COMPRESSED if compressed else 1) / 3600,
    }


def _shard(numbered: buckets.NumberedDocuments, plan: Plan, tokenizer: RecordTokenizer) -> shards.Shard:
    job = plan.shard_job(("train", 0), parts.PartResult(documents=len(numbered.numbers)))
    return shards.make_shard(_pack(numbered, tokenizer), [], job, tokenizer)


def _pack(numbered: buckets.NumberedDocuments, tokenizer: RecordTokenizer) -> list[bytes]:
    codes = np.zeros(len(numbered.numbers), np.int64)
    return [data for _, data in buckets.pack_buckets(numbered, codes, parts.id_bytes(tokenizer))]


def _sample(sources: Sequence[corpus.Source]) -> Iterator[list[str]]:
    """The first documents of some files, SAMPLED_BYTES in all."""
    chosen = sources[:: -(-len(sources) // SAMPLED_FILES)]
    for source in chosen:
        yield from _up_to(corpus.read_documents(source, []), SAMPLED_BYTES // len(chosen))


def _up_to(documents: Iterable[list[str]], characters: int) -> Iterator[list[str]]:
    for document in documents:
        yield document
        characters -= sum(map(len, document))
        if characters < 0:
            return


def describe(numbers: dict[str, float]) -> str:
    """The estimate as a small table."""
    rows = [
        ("files", f"{numbers['files']:,}"),
        ("text", f"{numbers['text_bytes'] / 1e6:,.1f} MB"),
        ("documents", f"about {numbers['documents']:,}"),
        ("tokens", f"about {numbers['tokens']:,}"),
        ("instances", f"about {numbers['instances']:,}"),
        ("shards", f"{numbers['shards']:,}"),
        ("records on disk", f"about {numbers['records_bytes'] / 1e6:,.1f} MB"),
        ("and until they are ready", f"about {numbers['work_bytes'] / 1e6:,.1f} MB"),
        ("core-hours of this machine", f"about {numbers['core_hours']:,.3f}"),
    ]
    width = max(len(title) for title, _ in rows)
    return "\n".join(f"{title.ljust(width)}  {value}" for title, value in rows)

"""Statistics of a corpus and its records, summed over shards; cost estimates of records from a sample."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.data.pretraining import buckets, duplicates, stages
from bert_tf.data.pretraining.plan import Plan
from bert_tf.errors import UserError, count_text
from bert_tf.text import record_tokenizer
from bert_tf.text.demo_corpus import installed_python
from bert_tf.text.documents import read_documents
from bert_tf.text.record_tokenizer import RecordTokenizer
from bert_tf.text.sources import Source, text_size

MAX_UNKNOWN_RATE = 0.05  # of all tokens; with a matching vocabulary [UNK] stays below 0.005
MAX_DUPLICATE_RATE = 0.3  # of all sentences; repeated text stalls the loss
MAX_RANDOM_NEXT = 0.6  # of all instances; half by design, but always for documents of one sentence
MIN_SENTENCES = 8  # per document, on average; with fewer, paragraphs may have been mistaken for documents
SAMPLED_FILES = 16  # spread over the list of files
SAMPLED_BYTES = 2_000_000  # of text, in all files together
RECORD_FRAME = 16  # bytes of a TFRecord around the record
COMPRESSED = 0.5  # size of .tfrecord.gz over that of .tfrecord
SPEED_COMPRESSED = 0.6
LEAST_HOURS = 0.001  # smallest value shown
LAYOUTS = {  # kinds of files from `sources.kind_of`, in words
    "sentences": "a sentence in each line, a blank line between documents (text_layout=sentences)",
    "paragraphs": "a paragraph in each line, a blank line between documents (text_layout=paragraphs)",
    "lines": "a document in each line (text_layout=lines)",
    "wrapped": "wrapped lines, a blank line between paragraphs; a file is a document (text_layout=wrapped)",
    "files": "a paragraph in each line; a file is a document (text_layout=files)",
    "wikipedia": "articles, each a document (text_layout=wikipedia)",
    "jsonl": "JSON lines, each a document",
    "parquet": "Parquet, each row a document",
}


def summarize(
    shards: Sequence[Mapping[str, int]], hashes: Iterable[np.ndarray], max_seq_length: int, hash_bits: int
) -> dict[str, Any]:
    """Statistics of one split from its shards' statistics and arrays of sentence hashes (uint64).

    hash_bits: one in 2 ** hash_bits sentences was sampled, by its hash, so that all duplicates of a sampled sentence
    are sampled; "duplicate_sentences" is then an estimate, marked by "duplicates_sampled".
    """
    names = ("documents", "sentences", "tokens", "unknown", "instances", "instance_tokens", "random_next", "bytes")
    total = {name: sum(shard[name] for shard in shards) for name in names}
    all_hashes = np.concatenate([np.zeros(0, np.uint64), *hashes])
    duplicates = len(all_hashes) - len(np.unique(all_hashes))
    positions = total["instances"] * max_seq_length
    return total | {
        "single_document_buckets": sum(shard["documents"] == 1 for shard in shards),
        "duplicate_sentences": duplicates << hash_bits,
        "duplicates_sampled": hash_bits > 0,
        "unknown_rate": total["unknown"] / max(1, total["tokens"]),
        "mean_length": total["instance_tokens"] / max(1, total["instances"]),
        "padding_share": 1 - total["instance_tokens"] / positions if positions else 0.0,
        "random_next_share": total["random_next"] / max(1, total["instances"]),
    }


def find_problems(
    statistics: Mapping[str, Mapping[str, Any]], *, nsp: bool, evaluates_on_training_text: bool
) -> list[str]:
    """Warnings about likely training problems; empty if all looks well."""
    train, warnings = statistics["train"], []
    if nsp and train["single_document_buckets"]:
        warnings.append(
            f"{count_text(train['single_document_buckets'], 'training shard')} with one document each: no true "
            "random next sentence, the second segment comes from the same document."
        )
    are_short = train["sentences"] < MIN_SENTENCES * train["documents"]
    if nsp and are_short and train["instances"] >= 200 and train["random_next_share"] > MAX_RANDOM_NEXT:
        warnings.append(
            f"{train['random_next_share']:.1%} of the second segments are random, where half should be: many "
            "documents have only one or a few sentences. If blank lines end paragraphs rather than documents, pass "
            "--text_layout=files, or --text_layout=wrapped for hard-wrapped lines."
        )
    if evaluates_on_training_text:
        warnings.append(
            "The corpus is one document, so evaluation uses the training text: put a blank line between documents, "
            "or pass an eval_file."
        )
    if train["unknown_rate"] > MAX_UNKNOWN_RATE:
        warnings.append(f"{train['unknown_rate']:.0%} of the tokens are [UNK]: the vocabulary does not fit the text.")
    if train["duplicate_sentences"] > MAX_DUPLICATE_RATE * train["sentences"]:
        rate = train["duplicate_sentences"] / train["sentences"]
        warnings.append(f"{rate:.0%} of the sentences are duplicates: repeated text stalls the training.")
    return warnings


def describe(statistics: Mapping[str, Mapping[str, Any]], *, nsp: bool = True) -> str:
    """Formats manifest["statistics"] as a table, one column per split. nsp: whether the next sentence is predicted."""
    splits = [split for split in ("train", "eval") if statistics[split]["instances"]]
    rows = [("", *splits)]
    for title, text in (
        ("documents", lambda s: f"{s['documents']:,}"),
        ("sentences", lambda s: f"{s['sentences']:,}"),
        ("  duplicates", lambda s: f"{'about ' * s['duplicates_sampled']}{s['duplicate_sentences']:,}"),
        ("tokens", lambda s: f"{s['tokens']:,}"),
        ("  [UNK]", lambda s: f"{s['unknown_rate']:.2%}"),
        ("instances", lambda s: f"{s['instances']:,}"),
        ("  mean length", lambda s: f"{s['mean_length']:.1f}"),
        ("  padding", lambda s: f"{s['padding_share']:.1%}"),
        *[("  random next", lambda s: f"{s['random_next_share']:.1%}")] * nsp,
        ("record bytes", lambda s: f"{s['bytes']:,}"),
    ):
        rows.append((title, *(text(statistics[split]) for split in splits)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    for layout, count in sorted(statistics["train"]["layouts"].items()):
        lines.append(f"{count_text(count, 'file')}: {LAYOUTS.get(layout, layout)}")
    return "\n".join(lines)


def estimate(plan: Plan) -> dict[str, float]:
    """Files, bytes of text, and approximate documents, instances, bytes on disk and core-hours.

    "records_bytes": size of the shards; "work_bytes": additional size until they are finished; "core_hours": for a core
    of this machine. Raises UserError if the sample contains no text.
    """
    job = stages.PartJob(
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
        raise UserError("The sample of input_file contains no text.")
    stages.tokenize_documents(documents, job, tokenizer)  # warm-up: most new words are in the first megabyte
    start = time.process_time()
    if sources:
        list(_sample(sources))
    _, numbered = stages.tokenize_documents(documents, job, tokenizer)
    list(duplicates.keys_of(numbered, job.duplicates, job.duplicate_sentences).pack(1))
    shard_job = plan.shard_job(("train", 0), stages.PartResult(documents=len(numbered.numbers)))
    made = stages.make_shard(_pack(numbered, tokenizer), [], shard_job, tokenizer)
    record_bytes = sum(len(record) + RECORD_FRAME for block in made.blocks for record in block)
    seconds = time.process_time() - start
    total = sum(map(text_size, sources)) if sources else size
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


def _pack(numbered: buckets.NumberedDocuments, tokenizer: RecordTokenizer) -> list[bytes]:
    codes = np.zeros(len(numbered.numbers), np.int64)
    return [data for _, data in buckets.pack_buckets(numbered, codes, stages.id_bytes(tokenizer))]


def _sample(sources: Sequence[Source]) -> Iterator[list[str]]:
    """The first documents of some files, SAMPLED_BYTES in total."""
    chosen = sources[:: -(-len(sources) // SAMPLED_FILES)]
    for source in chosen:
        left = SAMPLED_BYTES // len(chosen)
        for document in read_documents(source, []):
            yield document
            left -= sum(map(len, document))
            if left < 0:
                break


def describe_estimate(numbers: dict[str, float]) -> str:
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
        ("core-hours of this machine", _about(numbers["core_hours"])),
    ]
    width = max(len(title) for title, _ in rows)
    return "\n".join(f"{title.ljust(width)}  {value}" for title, value in rows)


def _about(hours: float) -> str:
    return f"about {hours:,.3f}" if hours >= LEAST_HOURS else f"less than {LEAST_HOURS}"

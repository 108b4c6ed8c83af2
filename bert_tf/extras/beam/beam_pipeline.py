r"""Records on Apache Beam: both stages on any runner, with identical bytes; and word counts of a corpus.

  parts -> tokenize a part -> packed documents by bucket --+-> GroupByKey -> write a shard -> its statistics, added up
                          \-> counts -> of all parts -> by bucket --+
                          \-> keys -> duplicates among them, by bucket --+

Elements do not depend on bundles, retries or the number of workers: a part yields the same packed documents wherever it
is read, a bucket orders them by part, and files are written under a temporary name and renamed. Uses only ParDo,
GroupByKey and Flatten, which every runner has; some runners recompute side inputs for every worker.
"""

import collections
import dataclasses
import functools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np

from bert_tf.data.pretraining import duplicates, record_files, stages
from bert_tf.data.pretraining.buckets import Assignment
from bert_tf.data.pretraining.plan import Collected, Plan
from bert_tf.data.pretraining.stages import PartJob, PartResult, make_shard, merge, tokenize_part
from bert_tf.extras.beam import beam_runner
from bert_tf.runtime import atomic_files, files
from bert_tf.runtime.json_files import parse, require_json
from bert_tf.text import record_tokenizer, vocabulary_learning
from bert_tf.text.documents import read_documents
from bert_tf.text.record_tokenizer import RecordTokenizer
from bert_tf.text.sources import Source, parts

COLLECTED = "collected.npz"  # written to the work folder by the last step and read by this process
COUNTS = -1  # instead of the code of a bucket: the counts of a part; below it, the partitions of keys
GROUPS = 64  # groups of shards or parts, whose statistics are added up first

Piece = tuple[int, bytes]  # part number, packed documents
Statistics = tuple[dict[int, dict[str, int]], np.ndarray, dict[str, np.ndarray], PartResult]


@dataclasses.dataclass(frozen=True)
class Work:
    """Input of every worker: the plan without its sources, and the paths."""

    plan: Plan
    folder: str
    work: str
    assignment: Assignment

    def tokenizer(self) -> RecordTokenizer:
        """The tokenizer, built once in each process."""
        options = self.plan.options.tokenizer_options
        key = f"{self.plan.request['vocab_file']} {options}"
        if key not in _TOKENIZERS:
            _TOKENIZERS.clear()
            _TOKENIZERS[key] = record_tokenizer.create(self.plan.vocabulary, *options)
        return _TOKENIZERS[key]


_TOKENIZERS: dict[str, RecordTokenizer] = {}


def run(folder: str, work: str, plan: Plan, runner: str, flags: Sequence[str], num_workers: int) -> Collected:
    """Runs both stages on a runner; its workers must see the input and the folder under the same paths.

    Raises UserError for wrong input or if the runner fails.
    """
    part_jobs = plan.part_jobs()
    plan = dataclasses.replace(plan, sources=dict.fromkeys(plan.sources, []))
    shared = Work(plan, files.absolute(folder), files.absolute(work), part_jobs[0].assignment)
    beam_runner.run(lambda pipeline: build(pipeline, part_jobs, shared), runner, flags, num_workers=num_workers)
    return _read(os.path.join(work, COLLECTED), plan)


def build(pipeline: beam.Pipeline, part_jobs: Iterable[PartJob], work: Work) -> beam.PCollection:
    """Adds all steps to a pipeline."""
    tokenized = (
        pipeline
        | "Parts" >> beam.Create(list(part_jobs))
        | "Spread" >> beam.Reshuffle()
        | "Tokenize" >> beam.FlatMap(_tokenize, work)
    )
    result = (
        tokenized
        | "Counts" >> beam.Filter(lambda item: item[0] == COUNTS)
        | "All counts" >> beam.GroupByKey()
        | "To each bucket" >> beam.FlatMap(_to_each_bucket, work)
    )
    drops = (
        tokenized
        | "Keys" >> beam.Filter(lambda item: item[0] < COUNTS)
        | "Keys of a partition" >> beam.GroupByKey()
        | "Find duplicates" >> beam.FlatMap(_find_duplicates, work)
    )
    pieces = tokenized | "Pieces" >> beam.Filter(lambda item: item[0] > COUNTS)
    return (
        (pieces, drops, result)
        | "Pieces and counts" >> beam.Flatten()
        | "Buckets" >> beam.GroupByKey()
        | "Write shards" >> beam.Map(_write_shard, work)
        | "Statistics" >> beam.GroupByKey()
        | "Add" >> beam.Map(lambda item: (0, _add(item[1])))
        | "All statistics" >> beam.GroupByKey()
        | "Write statistics" >> beam.Map(_write, work)
    )


def _tokenize(job: PartJob, work: Work) -> Iterator[tuple[int, Any]]:
    """Yields (code of a bucket, piece), (below COUNTS, keys), and (COUNTS, result)."""
    packed = tokenize_part(job, work.tokenizer())
    for name in ("documents", "eval_documents", "sentences"):
        beam.metrics.Metrics.counter("records", name).inc(getattr(packed.result, name))
    beam.metrics.Metrics.counter("records", "damaged").inc(len(packed.result.damage))
    for code, data in packed.documents:
        yield code, (job.number, data)
    for partition, data in packed.keys:
        yield COUNTS - 1 - partition, data
    yield COUNTS, packed.result


def _find_duplicates(item: tuple[int, Iterable[bytes]], work: Work) -> Iterator[tuple[int, bytes]]:
    """Yields (code of a bucket, packed drops)."""
    beam.metrics.Metrics.counter("records", "partitions").inc()
    yield from duplicates.find_duplicates(item[1], work.assignment)


def _to_each_bucket(item: tuple[int, Iterable[PartResult]], work: Work) -> Iterator[tuple[int, PartResult]]:
    """Yields the counts of all parts for each bucket, so that buckets without documents get a shard too."""
    result = functools.reduce(merge, item[1])
    work.plan.check_text(result)
    for bucket in work.plan.bucket_list():
        yield work.assignment.code(bucket), result


def _write_shard(item: tuple[int, Iterable[Piece | bytes | PartResult]], work: Work) -> tuple[int, Statistics]:
    """Writes the shard of a bucket; returns its group number and statistics."""
    code, values = item[0], list(item[1])
    result = next(value for value in values if isinstance(value, PartResult))
    pieces = dict(value for value in values if isinstance(value, tuple))  # a retry may repeat a piece
    drops = [value for value in values if isinstance(value, bytes)]
    job = work.plan.shard_job(work.assignment.bucket(code), result)
    made = make_shard((pieces[part] for part in sorted(pieces)), drops, job, work.tokenizer())
    path = os.path.join(work.folder, work.plan.shard_name(job.bucket))
    with (
        tempfile.TemporaryDirectory(dir=None if files.is_remote(path) else work.work) as scratch,
        atomic_files.atomic_write(path, shared=True, folder=scratch) as partial,
    ):
        record_files.write_records(partial, made.blocks, compress=path.endswith(".gz"))
        made.statistics["bytes"] = files.size(partial)
    beam.metrics.Metrics.counter("records", "instances").inc(made.statistics["instances"])
    split = job.bucket[0]
    counts = made.counts if split == "train" else np.zeros_like(made.counts)
    return code % GROUPS, ({code: made.statistics}, counts, {split: made.hashes}, result)


def _add(statistics: Iterable[Statistics]) -> Statistics:
    shards: dict[int, dict[str, int]] = {}
    hashes: dict[str, list[np.ndarray]] = {"train": [], "eval": []}
    total: Any = 0
    result = PartResult()
    for values, counts, by_split, result in statistics:  # noqa: B007 - the same in all of them
        shards |= values
        total = total + counts
        for split, array in by_split.items():
            hashes[split].append(array)
    return shards, total, {split: np.concatenate([np.zeros(0, np.uint64), *hashes[split]]) for split in hashes}, result


def _write(item: tuple[int, Iterable[Statistics]], work: Work) -> None:
    """Writes all statistics to the file read by the process that started the pipeline."""
    shards, counts, hashes, result = _add(item[1])
    about = json.dumps({"shards": list(shards.items()), "result": dataclasses.asdict(result)})
    path = os.path.join(work.work, COLLECTED)
    with atomic_files.atomic_write(path, shared=True) as partial, open(partial, "wb") as file:
        np.savez(file, about=np.array(about), counts=counts, train=hashes["train"], eval=hashes["eval"])


def _read(path: str, plan: Plan) -> Collected:
    with files.open_binary(path) as file, np.load(file) as values:
        about = parse(str(values["about"]))
        counts, hashes = values["counts"], {split: [values[split]] for split in ("train", "eval")}
    smallest = about["result"]["smallest"]
    result = PartResult(**about["result"] | {"smallest": smallest and tuple(smallest)})
    bucket_of = plan.assignment().bucket
    return Collected(result, {bucket_of(code): values for code, values in about["shards"]}, counts, hashes)


def count_words(
    sources: Sequence[Source], folder: str, *, lower_case: bool, runner: str, flags: Sequence[str]
) -> dict[str, int]:
    """Word counts of all sources. The runner's workers must have access to the sources and `folder`.

    Raises UserError for a file that is not text or if the runner fails.
    """
    with tempfile.TemporaryDirectory(dir=None if files.is_remote(folder) else folder) as scratch:
        path = os.path.join(folder if files.is_remote(folder) else scratch, "words.json")
        numbered = list(enumerate(parts(sources, stages.PART_BYTES)))

        def build(pipeline: Any) -> None:
            counted = (
                pipeline
                | "Parts" >> beam.Create(numbered)
                | "Spread" >> beam.Reshuffle()
                | "Count" >> beam.Map(_count_part, lower_case)
                | "Groups" >> beam.GroupByKey()
                | "Add" >> beam.Map(lambda item: (0, _add_words(item[1])))
                | "All" >> beam.GroupByKey()
            )
            lines = counted | "Line" >> beam.Map(lambda item: [json.dumps(_add_words(item[1]))])
            lines | "Write" >> beam.Map(lambda lines: atomic_files.write_lines(path, lines, shared=True))

        beam_runner.run(build, runner, flags)
        counts = require_json(path, "counts of words")
        files.remove(path)
        return counts


def _count_part(item: tuple[int, tuple[Source, ...]], lower_case: bool) -> tuple[int, dict[str, int]]:
    number, sources = item
    texts = (text for source in sources for document in read_documents(source) for text in document)
    return number % GROUPS, dict(vocabulary_learning.count_words(texts, lower_case=lower_case))


def _add_words(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: collections.Counter[str] = collections.Counter()
    for each in counts:
        total.update(each)
    return dict(total)

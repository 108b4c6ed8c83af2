"""Text files to shards of pre-training records: two stages, any number of workers, the same bytes.

TensorFlow is not imported here: the parent process reads documents and distributes them over buckets (`buckets`),
worker processes turn each bucket into one shard (`shards`). A finished folder holds:

  train-00000-of-00004.tfrecord ...   tf.train.Examples: token_ids, second_start, next_sentence_label, record_id
  eval-00000-of-00001.tfrecord ...    the same for held-out documents, one pass
  token_counts.npy                    int64 [V], how often each id occurs in the training documents
  manifest.json                       options, inputs, shards with their sizes, statistics; written last
  options.json, work/                 until it is finished: the options, buckets, statistics of finished shards
"""

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.data.pretraining.buckets import BucketWriter, assign_to_buckets, bucket_path, num_buckets
from bert_tf.data.pretraining.shards import ShardJob
from bert_tf.data.pretraining.statistics import describe, find_problems, summarize
from bert_tf.data.pretraining.workers import write_missing_shards
from bert_tf.errors import UserError, of_os_error
from bert_tf.runtime import atomic_files, files, folder_lock
from bert_tf.runtime.json_files import require_json
from bert_tf.runtime.process import MAX_SEED
from bert_tf.text import corpus, vocabulary
from bert_tf.text.demo_corpus import installed_python

__all__ = ["RecordOptions", "describe", "open_records", "prepare"]

MANIFEST, OPTIONS, WORK, COUNTS = "manifest.json", "options.json", "work", "token_counts.npy"
UNFINISHED = "unfinished records; delete the folder and prepare them again"
MAX_SAMPLED_SENTENCES = 4_000_000  # hashes of 8 bytes for counting duplicates; of a larger corpus a sample

Sources = dict[str, list[corpus.Source]]  # by split
Jobs = dict[str, list[ShardJob]]  # by split


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """The options that determine the bytes of the records, besides the input; named like the original's flags."""

    vocab_file: str
    lower_case: bool = True
    special_tokens_in_strings: tuple[str, ...] = ()  # recognized in texts
    max_seq_length: int = 128
    short_seq_prob: float = 0.1
    short_seq_per_document: bool = False
    dupe_factor: int = 10  # passes over the training documents, each with different pairs
    random_seed: int = 12345
    nsp: bool = True  # False: one segment per record, for training without next-sentence prediction
    pairs: str = "next"  # what rows of two segments are labelled for, or without nsp "full_sentences": `pairs.KINDS`
    eval_fraction: float = 0.05  # of the documents, if no eval_file is given; 0: no evaluation records
    compress: bool = False  # .tfrecord.gz shards: 0.4 to 0.6 of the size, written at 0.6 of the speed
    text_layout: str = "auto"
    text_field: str = "text"
    language: str = "auto"

    def __post_init__(self) -> None:
        for name, is_valid, expected in (
            ("max_seq_length", self.max_seq_length >= (5 if self.nsp else 4), "at least 5 (4 without nsp)"),
            ("short_seq_prob", 0 <= self.short_seq_prob <= 1, "a probability from 0 to 1"),
            ("dupe_factor", self.dupe_factor >= 1, "at least 1"),
            ("random_seed", 0 <= self.random_seed <= MAX_SEED, f"from 0 to {MAX_SEED:,}"),
            ("eval_fraction", 0 <= self.eval_fraction < 1, "from 0 to less than 1"),
        ):
            if not is_valid:
                raise UserError(f"{name}={getattr(self, name)} was given; it must be {expected}.")


def prepare(
    folder: str | os.PathLike[str],
    options: RecordOptions,
    *,
    input_file: str | os.PathLike[str] = "",
    eval_file: str | os.PathLike[str] = "",
    num_workers: int = 1,
    progress: Callable[..., None] | None = None,
) -> dict[str, Any]:
    """Writes the records of a folder, or continues with them, or finds them ready.

    While another process writes them, it waits. Until the records are ready, about 1.2 times the size of the input is
    needed on disk besides them.

    Args:
        folder: where the records are.
        options: the options that determine them.
        input_file: as for `corpus.find_sources`; empty: Python's manual.
        eval_file: the same for held-out text; empty: options.eval_fraction of the documents (at least one).
        num_workers: number of processes, or `workers.IN_THIS_PROCESS`; the records do not depend on it.
        progress: called as progress(done, total=..., text=...) after each piece of work.

    Returns:
        The manifest, see `open_records`.

    Raises:
        UserError: wrong input, a folder made with other options or input, or a failing worker; finished work is kept,
            and the same call continues from there.
    """
    if files.is_remote(folder):
        settings = {"input_file": input_file, "eval_file": eval_file, "num_workers": num_workers, "progress": progress}
        return _prepare_remote(os.fspath(folder), options, **settings)
    folder = Path(folder)
    report = progress or (lambda done, total, text: None)
    request, sources = _request(options, input_file, eval_file)
    _make_folder(folder)
    with folder_lock.locked(folder, f"Waiting for another process that makes the records in {folder}"):
        if (folder / MANIFEST).exists():
            manifest = open_records(folder)
            _check_same(folder, manifest["wanted"], request)
            _remove_work(folder)  # left if a call was killed right after it wrote the manifest
            return manifest
        ready = _fill_buckets(folder, request, options, sources, report)
        jobs = _jobs(folder, options, ready)
        write_missing_shards(jobs["eval"] + jobs["train"], num_workers, report)
        return _finish(folder, request, jobs, ready)


def _prepare_remote(folder: str, options: RecordOptions, **settings: Any) -> dict[str, Any]:
    """Prepares records on this machine, where the same call continues after an interruption, then uploads them.

    The manifest is uploaded last: without it the folder holds no records.
    """
    local = os.path.join(tempfile.gettempdir(), f"bert-tf-records-{_digest(folder)}")
    with folder_lock.locked(folder, f"Waiting for another process that makes the records in {folder}"):
        if files.exists(os.path.join(folder, MANIFEST)):
            manifest = open_records(folder)
            request, _ = _request(options, settings["input_file"], settings["eval_file"])
            _check_same(folder, manifest["wanted"], request)
        else:
            prepare(local, options, **settings)
            for name in sorted(files.names(local), key=lambda name: (name == MANIFEST, name)):
                files.copy(os.path.join(local, name), os.path.join(folder, name))
            manifest = open_records(folder)
        files.remove(local)
        return manifest


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sentence = f"The folder {folder} cannot be made ({error.strerror}): choose another."
        raise of_os_error(error, sentence) from None


def open_records(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the manifest of a folder of records and checks that each shard is present and complete.

    manifest["folder"], manifest["train_files"] and manifest["eval_files"] are full paths; manifest["statistics"] has an
    entry for each split. Raises UserError naming the file that is missing or has another size.
    """
    folder = os.fspath(folder)
    manifest = require_json(os.path.join(folder, MANIFEST), "records; delete the folder and prepare them again")
    for shard in manifest["shards"]:
        path = os.path.join(folder, shard["file"])
        size = files.size(path) if files.exists(path) else None
        if size != shard["bytes"]:
            problem = "is missing" if size is None else f"has {size} bytes, not {shard['bytes']}"
            raise UserError(f"{path} {problem}; delete {folder} and prepare the records again.")
    manifest["folder"] = folder
    for split in ("train", "eval"):
        manifest[f"{split}_files"] = [
            os.path.join(folder, shard["file"]) for shard in manifest["shards"] if shard["split"] == split
        ]
    return manifest


def _request(
    options: RecordOptions, input_file: str | os.PathLike[str], eval_file: str | os.PathLike[str]
) -> tuple[dict[str, Any], Sources]:
    """Everything the records depend on, as plain data (manifest["wanted"]); and the sources."""
    sources: Sources = {}
    for split, patterns in (("train", input_file), ("eval", eval_file)):
        if patterns:
            kind = {"text_layout": options.text_layout, "language": options.language, "text_field": options.text_field}
            sources[split] = corpus.find_sources(patterns, **kind)
    request = dataclasses.asdict(options)
    if request["pairs"] == "next":
        del request["pairs"]  # as in records of earlier versions
    if not request["short_seq_per_document"]:
        del request["short_seq_per_document"]  # which records of earlier versions do not mention
    tokens = vocabulary.read(options.vocab_file)
    vocabulary.check_special_tokens(tokens, str(options.vocab_file))
    request["special_tokens_in_strings"] = list(options.special_tokens_in_strings) or None  # None: as before it was new
    request["vocab_file"] = f"{os.path.basename(options.vocab_file)} {_digest(tokens)}"
    for split in ("train", "eval"):
        request[f"{split}_input"] = [corpus.fingerprint(source) for source in sources.get(split, [])]
    if "train" not in sources:
        request["train_input"] = ["installed Python " + _digest(list(installed_python()))]
    return request, sources


def _digest(content: Any) -> str:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()


def _fill_buckets(
    folder: Path, request: dict[str, Any], options: RecordOptions, sources: Sources, report: Callable[..., None]
) -> dict[str, Any]:
    """Stage 1, unless an earlier call finished it. An unfinished stage leaves nothing worth keeping."""
    ready = folder / WORK / "ready.json"
    if ready.exists():
        _check_same(folder, require_json(folder / OPTIONS, UNFINISHED), request)
        return require_json(ready, UNFINISHED)
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    try:
        atomic_files.write_json(folder / OPTIONS, request, shared=True)
        atomic_files.write_json(ready, _write_buckets(folder / WORK, options, sources, report), shared=True)
    except UserError:
        _remove_work(folder)
        raise
    return require_json(ready, UNFINISHED)


def _check_same(folder: Path | str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raises UserError about the first option that differs."""
    for name in new:
        if old.get(name) != new[name]:
            before, now = old.get(name), new[name]
            if isinstance(now, list):
                before, now = _first_difference(before or [], now)
                name = name.replace("train_input", "input_file").replace("eval_input", "eval_file")
            raise UserError(
                f"{folder} holds records made with another {name} ({before} -> {now}); give another folder, the old "
                f"{name}, or delete {folder}."
            )


def _first_difference(before: Sequence[str], now: Sequence[str]) -> tuple[str, str]:
    for old, new in zip(before, now, strict=False):
        if old != new:
            return old, new
    return f"{len(before)} files", f"{len(now)} files"


def _write_buckets(work: Path, options: RecordOptions, sources: Sources, report: Callable[..., None]) -> dict[str, Any]:
    """Streams the files into buckets; returns what the second stage needs."""
    seed = options.random_seed
    train = BucketWriter(work, "train", _num_buckets(sources.get("train", [])), seed)
    evaluation = None
    if "eval" in sources:
        evaluation = BucketWriter(work, "eval", _num_buckets(sources["eval"]), seed)
        if not assign_to_buckets(_documents(sources["eval"], report), evaluation, seed=seed):
            raise UserError("eval_file holds no text at all.")
    elif options.eval_fraction:
        evaluation = BucketWriter(work, "eval", max(1, round(len(train.paths) * options.eval_fraction)), seed)
    held_out = None if "eval" in sources else evaluation
    documents = _documents(sources["train"], report) if "train" in sources else installed_python()
    count = assign_to_buckets(documents, train, held_out, seed=seed, eval_fraction=options.eval_fraction)
    if not count:
        raise UserError("input_file holds no text at all.")
    writers = [writer for writer in (train, evaluation) if writer]
    for writer in writers:
        writer.close()
    return {
        "buckets": {"train": len(train.paths), "eval": len(evaluation.paths) if evaluation else 0},
        "sentences": sum(writer.sentences for writer in writers),
        "evaluates_on_training_text": count == 1 and held_out is not None,
        "layouts": _count_layouts(sources),
    }


def _num_buckets(sources: Sequence[corpus.Source]) -> int:
    return num_buckets(sum(map(corpus.text_size, sources)))


def _count_layouts(sources: Sources) -> dict[str, int]:
    """{layout: number of files}; files of JSON lines count as "jsonl"."""
    counts: dict[str, int] = {}
    for source in sources.get("train", []):
        layout = "jsonl" if ".jsonl" in os.path.basename(source.path) else source.layout
        counts[layout] = counts.get(layout, 0) + 1
    return counts or {"installed Python": 1}


def _documents(sources: Sequence[corpus.Source], report: Callable[..., None]) -> Iterator[list[str]]:
    for number, source in enumerate(sources):
        report(number, total=len(sources), text=f"reading {os.path.basename(source.path)}")
        yield from corpus.read_documents(source)


def _jobs(folder: Path, options: RecordOptions, ready: Mapping[str, Any]) -> Jobs:
    """Stage 2 as jobs for workers."""
    extension = "tfrecord.gz" if options.compress else "tfrecord"
    hash_bits = max(0, (ready["sentences"] // MAX_SAMPLED_SENTENCES).bit_length())
    names = (
        "lower_case special_tokens_in_strings max_seq_length short_seq_prob short_seq_per_document nsp pairs".split()
    )
    same = {name: getattr(options, name) for name in names}
    jobs: Jobs = {}
    for split, count in ready["buckets"].items():
        jobs[split] = [
            ShardJob(
                bucket=str(bucket_path(folder / WORK, split, bucket)),
                shard=str(folder / f"{split}-{bucket:05d}-of-{count:05d}.{extension}"),
                statistics=str(folder / WORK / f"{split}-{bucket:05d}.json"),
                number=bucket + (ready["buckets"]["train"] if split == "eval" else 0),
                vocab_file=str(options.vocab_file),
                passes=options.dupe_factor if split == "train" else 1,
                random_seed=options.random_seed,
                hash_bits=hash_bits,
                **same,
            )
            for bucket in range(count)
        ]
    return jobs


def _finish(folder: Path, request: dict[str, Any], jobs: Jobs, ready: Mapping[str, Any]) -> dict[str, Any]:
    """Collects the statistics of all shards into the manifest and removes the temporary files."""
    shards, statistics = [], {}
    for split, split_jobs in jobs.items():
        shard_statistics = [require_json(job.statistics, UNFINISHED) for job in split_jobs]
        for job, values in zip(split_jobs, shard_statistics, strict=True):
            entry = {"file": os.path.basename(job.shard), "split": split}
            shards.append(entry | {name: values[name] for name in ("instances", "bytes")})
        hashes = [np.load(Path(job.statistics).with_suffix(".hashes.npy")) for job in split_jobs]
        hash_bits = jobs["train"][0].hash_bits
        statistics[split] = summarize(shard_statistics, hashes, request["max_seq_length"], hash_bits)
    statistics["train"]["layouts"] = ready["layouts"]
    _check_not_empty(statistics, jobs, has_eval_file=bool(request["eval_input"]))
    counts = sum(np.load(Path(job.statistics).with_suffix(".counts.npy")) for job in jobs["train"])
    with atomic_files.atomic_write(folder / COUNTS, shared=True) as partial, open(partial, "wb") as file:
        np.save(file, counts)
    warnings = find_problems(
        statistics,
        nsp=request["nsp"] and "pairs" not in request,
        evaluates_on_training_text=ready["evaluates_on_training_text"],
    )
    manifest = {"wanted": request, "shards": shards, "statistics": statistics, "warnings": warnings}
    atomic_files.write_json(folder / MANIFEST, manifest, shared=True)
    _remove_work(folder)
    return open_records(folder)


def _check_not_empty(statistics: Mapping[str, Mapping[str, Any]], jobs: Jobs, *, has_eval_file: bool) -> None:
    """Raises UserError if a split that was requested has no instance."""
    held_out = "eval_file" if has_eval_file else "What was held out of the input (give an eval_file)"
    for split, name in (("train", "The input"), ("eval", held_out)):
        if jobs[split] and not statistics[split]["instances"]:
            raise UserError(
                f"{name} has no text that the vocabulary can split into tokens: start in another folder with other "
                "text."
            )


def _remove_work(folder: Path) -> None:
    shutil.rmtree(folder / WORK, ignore_errors=True)
    if (folder / OPTIONS).exists():  # shared records may be on a read-only disk
        (folder / OPTIONS).unlink()


def token_counts(manifest: Mapping[str, Any]) -> np.ndarray:
    """How often each id occurs in the training documents of records: int64 [V]."""
    with files.open_binary(os.path.join(manifest["folder"], COUNTS)) as file:
        return np.load(file)

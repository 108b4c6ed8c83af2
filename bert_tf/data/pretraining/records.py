"""Files of text to shards of pre-training records: two stages, any number of workers, the same bytes.

TensorFlow is not imported here: the parent process reads and deals documents into buckets (`buckets`), worker processes
turn each bucket into one shard (`shards`). What a folder holds when it is ready:

  train-00000-of-00004.tfrecord ...   tf.train.Examples: token_ids, second_start, next_sentence_label, record_id
  eval-00000-of-00001.tfrecord ...    the same of held-out documents, one pass
  token_counts.npy                    int64 [V], how often each id occurs in the training documents
  manifest.json                       options, inputs, shards with their sizes, statistics; written last
  options.json, work/                 while it is being made: what was asked for, buckets, finished shards' statistics
"""

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np

from bert_tf.data.pretraining.buckets import BucketWriter, bucket_path, deal, number_of_buckets
from bert_tf.data.pretraining.shards import Job
from bert_tf.data.pretraining.statistics import describe, summary, warnings_about
from bert_tf.data.pretraining.workers import write_missing
from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files, folder_lock
from bert_tf.runtime.json_files import require_json
from bert_tf.text import corpus, vocabulary
from bert_tf.text.demo_corpus import python_manual

__all__ = ["RecordOptions", "describe", "open_records", "prepare"]

MANIFEST, OPTIONS, WORK, COUNTS = "manifest.json", "options.json", "work", "token_counts.npy"
UNFINISHED = "unfinished records; delete the folder and prepare them again"
MAX_SEED = 2_000_000_000  # TensorFlow takes 32 bits, and some seeds are made from this one by adding to it
REMEMBERED_SENTENCES = 4_000_000  # hashes of 8 bytes for counting doubles; of a larger corpus a sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """What decides the bytes of the records, besides the input. The names are those of the original's flags."""

    vocab_file: str
    lower_case: bool = True
    max_seq_length: int = 128
    short_seq_prob: float = 0.1
    dupe_factor: int = 10  # passes over the training documents, each with other pairs
    random_seed: int = 12345
    nsp: bool = True  # False: one segment a record, which says nothing of next sentences
    eval_fraction: float = 0.05  # of the documents, when no eval_file is given; 0: no evaluation records
    compress: bool = False  # .tfrecord.gz shards: 0.4 to 0.6 of the size, written at 0.6 of the speed
    text_layout: str = "auto"
    text_field: str = "text"
    language: str = "auto"

    def __post_init__(self):
        for name, right, expected in (
            ("max_seq_length", self.max_seq_length >= (5 if self.nsp else 4), "at least 5 (4 without nsp)"),
            ("short_seq_prob", 0 <= self.short_seq_prob <= 1, "a probability from 0 to 1"),
            ("dupe_factor", self.dupe_factor >= 1, "at least 1"),
            ("random_seed", 0 <= self.random_seed <= MAX_SEED, f"from 0 to {MAX_SEED:,}"),
            ("eval_fraction", 0 <= self.eval_fraction < 1, "from 0 to less than 1"),
        ):
            if not right:
                raise UserError(f"{name}={getattr(self, name)} was given; it must be {expected}.")


def prepare(folder, options, *, input_file="", eval_file="", num_workers=1, progress=None):
    """Makes the records of a folder, or goes on with them, or finds them ready; returns the manifest (a dict).

    input_file, eval_file: as `corpus.find_sources` takes them; no input_file means the manual of Python. Without an
    eval_file, options.eval_fraction of the documents (at least one) are held out. num_workers: processes, 0 and 1
    meaning one; the records do not depend on it. -1 works inside this process. progress(done, total=..., text=...) is
    called after each piece of work.
    Raises UserError for wrong input, for a folder made with other options or input, and when a worker fails; what was
    finished is kept, and the same call goes on from there. While another process makes them, it waits. About 1.2 times
    the input is needed on disk besides the records, until they are ready.
    """
    folder = Path(folder)
    report = progress or (lambda done, total, text: None)
    wanted, sources = _wanted(options, input_file, eval_file)
    _make_folder(folder)
    with folder_lock.after_others(folder, f"Waiting for another process that makes the records in {folder}"):
        if (folder / MANIFEST).exists():
            manifest = open_records(folder)
            _check_same(folder, manifest["wanted"], wanted)
            _remove_work(folder)  # left where a call was killed right after it wrote the manifest
            return manifest
        ready = _dealt(folder, wanted, options, sources, report)
        jobs = _jobs(folder, options, ready)
        write_missing(jobs["eval"] + jobs["train"], num_workers, report)
        return _finish(folder, wanted, jobs, ready)


def _make_folder(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The folder {folder} cannot be made ({error.strerror}): choose another.") from None


def open_records(folder):
    """The manifest of a folder of records, after checking that each shard is there and whole.

    manifest["folder"], manifest["train_files"] and manifest["eval_files"] are full paths; manifest["statistics"] has an
    entry for each split.
    Raises UserError naming the file that is missing or has another size.
    """
    folder = Path(folder)
    manifest = require_json(folder / MANIFEST, "records; delete the folder and prepare them again")
    for shard in manifest["shards"]:
        path = folder / shard["file"]
        size = os.path.getsize(path) if path.exists() else None
        if size != shard["bytes"]:
            found = "is missing" if size is None else f"has {size} bytes, not {shard['bytes']}"
            raise UserError(f"{path} {found}; delete {folder} and prepare the records again.")
    manifest["folder"] = str(folder)
    for split in ("train", "eval"):
        manifest[f"{split}_files"] = [str(folder / s["file"]) for s in manifest["shards"] if s["split"] == split]
    return manifest


def _wanted(options, input_file, eval_file):
    """Everything the records depend on, as plain data; and {split: sources}."""
    sources = {}
    for split, patterns in (("train", input_file), ("eval", eval_file)):
        if patterns:
            kind = {"text_layout": options.text_layout, "language": options.language, "text_field": options.text_field}
            sources[split] = corpus.find_sources(patterns, **kind)
    wanted = dataclasses.asdict(options)
    pieces = vocabulary.read(options.vocab_file)
    vocabulary.check_special_tokens(pieces, str(options.vocab_file))
    wanted["vocab_file"] = f"{os.path.basename(options.vocab_file)} {_digest(pieces)}"
    for split in ("train", "eval"):
        wanted[f"{split}_input"] = [corpus.fingerprint(source) for source in sources.get(split, [])]
    if "train" not in sources:
        wanted["train_input"] = ["manual of Python " + _digest(list(python_manual()))]
    return wanted, sources


def _digest(content):
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()


def _dealt(folder, wanted, options, sources, report):
    """Stage 1, or what an earlier call left of it. A stage that was not finished leaves nothing worth keeping."""
    ready = folder / WORK / "ready.json"
    if ready.exists():
        _check_same(folder, require_json(folder / OPTIONS, UNFINISHED), wanted)
        return require_json(ready, UNFINISHED)
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    try:
        atomic_files.write_json(folder / OPTIONS, wanted, shared=True)
        atomic_files.write_json(ready, _deal_documents(folder / WORK, options, sources, report), shared=True)
    except UserError:
        _remove_work(folder)
        raise
    return require_json(ready, UNFINISHED)


def _check_same(folder, old, new):
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


def _first_difference(before, now):
    for old, new in zip(before, now, strict=False):
        if old != new:
            return old, new
    return f"{len(before)} files", f"{len(now)} files"


def _deal_documents(work, options, sources, report):
    """Streams the files into buckets; returns what the second stage needs to know."""
    train = BucketWriter(work, "train", _buckets(sources.get("train", [])), options.random_seed)
    evaluation = None
    if "eval" in sources:
        evaluation = BucketWriter(work, "eval", _buckets(sources["eval"]), options.random_seed)
        if not deal(_documents(sources["eval"], report), evaluation, seed=options.random_seed):
            raise UserError("eval_file holds no text at all.")
    elif options.eval_fraction:
        count = max(1, round(len(train.paths) * options.eval_fraction))
        evaluation = BucketWriter(work, "eval", count, options.random_seed)
    held_out = None if "eval" in sources else evaluation
    documents = _documents(sources["train"], report) if "train" in sources else python_manual()
    fraction = options.eval_fraction
    number = deal(documents, train, held_out, seed=options.random_seed, eval_fraction=fraction)
    if not number:
        raise UserError("input_file holds no text at all.")
    splits = [writer for writer in (train, evaluation) if writer]
    for writer in splits:
        writer.close()
    return {
        "buckets": {"train": len(train.paths), "eval": len(evaluation.paths) if evaluation else 0},
        "sentences": sum(writer.sentences for writer in splits),
        "evaluates_on_training_text": number == 1 and held_out is not None,
        "layouts": _layouts(sources),
    }


def _buckets(sources):
    return number_of_buckets(sum(map(corpus.text_size, sources)))


def _layouts(sources):
    """{layout: number of files}; files of JSON lines count as such."""
    counts = {}
    for source in sources.get("train", []):
        layout = "jsonl" if ".jsonl" in os.path.basename(source.path) else source.layout
        counts[layout] = counts.get(layout, 0) + 1
    return counts or {"manual of Python": 1}


def _documents(sources, report):
    for number, source in enumerate(sources):
        report(number, total=len(sources), text=f"reading {os.path.basename(source.path)}")
        yield from corpus.read_documents(source)


def _jobs(folder, options, ready):
    """Stage 2 as a list of Jobs, {split: [Job]}."""
    ending = "tfrecord.gz" if options.compress else "tfrecord"
    hash_bits = max(0, (ready["sentences"] // REMEMBERED_SENTENCES).bit_length())
    same = {name: getattr(options, name) for name in ("lower_case", "max_seq_length", "short_seq_prob", "nsp")}
    jobs = {}
    for split, count in ready["buckets"].items():
        jobs[split] = [
            Job(
                bucket=str(bucket_path(folder / WORK, split, bucket)),
                shard=str(folder / f"{split}-{bucket:05d}-of-{count:05d}.{ending}"),
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


def _finish(folder, wanted, jobs, ready):
    """Collects the statistics of all shards into the manifest and removes what only the work needed."""
    shards, statistics = [], {}
    for split, split_jobs in jobs.items():
        found = [require_json(job.statistics, UNFINISHED) for job in split_jobs]
        for job, of_shard in zip(split_jobs, found, strict=True):
            entry = {"file": os.path.basename(job.shard), "split": split}
            shards.append(entry | {name: of_shard[name] for name in ("instances", "bytes")})
        hashes = [np.load(Path(job.statistics).with_suffix(".hashes.npy")) for job in split_jobs]
        statistics[split] = summary(found, hashes, wanted["max_seq_length"], jobs["train"][0].hash_bits)
    statistics["train"]["layouts"] = ready["layouts"]
    held_out = "eval_file" if wanted["eval_input"] else "What was held out of the input (give an eval_file)"
    for split, name in (("train", "The input"), ("eval", held_out)):
        if jobs[split] and not statistics[split]["instances"]:
            raise UserError(
                f"{name} has no text that the vocabulary can cut into pieces: start in another folder with other text."
            )
    counts = sum(np.load(Path(job.statistics).with_suffix(".counts.npy")) for job in jobs["train"])
    with atomic_files.atomic_write(folder / COUNTS, shared=True) as partial, open(partial, "wb") as file:
        np.save(file, counts)
    warnings = warnings_about(statistics, ready, nsp=wanted["nsp"])
    manifest = {"wanted": wanted, "shards": shards, "statistics": statistics, "warnings": warnings}
    atomic_files.write_json(folder / MANIFEST, manifest, shared=True)
    _remove_work(folder)
    return open_records(folder)


def _remove_work(folder):
    shutil.rmtree(folder / WORK, ignore_errors=True)
    if (folder / OPTIONS).exists():  # shared records may lie where nothing can be changed
        (folder / OPTIONS).unlink()


def token_counts(manifest):
    """How often each id occurs in the training documents of records: int64 [V]."""
    return np.load(Path(manifest["folder"]) / COUNTS)

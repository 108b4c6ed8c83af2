"""Text files to shards of pre-training records in two stages, with the same bytes for any workers or engine.

TensorFlow is not imported here. Stage 1 reads and tokenizes the parts of the input and distributes documents over
buckets (`buckets`); stage 2 turns each bucket into one shard (`stages`). Worker processes of this machine run
them (`workers`), or an engine of Apache Beam (`extras.beam.beam_pipeline`). A finished folder contains:

  train-00000-of-00004.tfrecord ...   tf.train.Examples: token_ids, second_start, next_sentence_label, record_id
  eval-00000-of-00001.tfrecord ...    the same for held-out documents, one pass
  token_counts.npy                    int64 [V], how often each id occurs in the training documents
  manifest.json                       options, inputs, shards with their sizes, statistics; written last
  options.json, work/                 until it is finished: the options, packed documents, statistics of shards
"""

import concurrent.futures
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.data.pretraining import workers
from bert_tf.data.pretraining.plan import (
    Collected,
    EmptyInputError,
    Plan,
    RecordOptions,
    check_same,
    digest,
    hash_bits,
    make_plan,
)
from bert_tf.data.pretraining.record_files import CONTINUATIONS
from bert_tf.data.pretraining.statistics import describe, find_problems, summarize
from bert_tf.errors import UserError, of_os_error
from bert_tf.runtime import atomic_files, files, folder_lock
from bert_tf.runtime.json_files import require_json
from bert_tf.runtime.lazy import module

beam_pipeline = module("bert_tf.extras.beam.beam_pipeline")
beam_runner = module("bert_tf.extras.beam.beam_runner")

__all__ = ["RecordOptions", "describe", "open_records", "prepare"]

MANIFEST, OPTIONS, WORK, COUNTS = "manifest.json", "options.json", "work", "token_counts.npy"
ASKED_AT_ONCE = 32  # concurrent file size requests: stores answer slowly, but many at once
UNFINISHED = "unfinished records; delete the folder and prepare them again"


def prepare(
    folder: str | os.PathLike[str],
    options: RecordOptions,
    *,
    input_file: str | os.PathLike[str] = "",
    eval_file: str | os.PathLike[str] = "",
    num_workers: int = 1,
    progress: Callable[..., None] | None = None,
    runner: str = "",
    runner_flags: Sequence[str] = (),
    accept_cleaned: bool = False,
) -> dict[str, Any]:
    """Writes the records of a folder, resumes writing, or finds them finished.

    Waits while another process writes them. Until the records are finished, needs additional disk space of about half
    the size of the input.

    Args:
        folder: the records folder.
        options: the options that determine them.
        input_file: see `corpus.find_sources`; empty: Python's manual.
        eval_file: held-out text, same format; empty: options.eval_fraction of the documents (at least one).
        num_workers: number of processes, or `workers.IN_THIS_PROCESS`; the records do not depend on it.
        progress: called as progress(done, total=..., text=...) after each piece of work.
        runner: the Apache Beam runner that does the work, such as "DirectRunner"; empty: processes of this machine.
        runner_flags: flags of that runner, such as "--flink_master=...".
        accept_cleaned: whether to accept finished records that dropped duplicates and damage though `options` does not.

    Returns:
        The manifest, see `open_records`.

    Raises:
        UserError: wrong input, a folder made with other options or input, or a failing worker; finished work is kept,
            and the same call resumes from there.
    """
    if files.is_remote(folder) and not runner:
        settings = {"input_file": input_file, "eval_file": eval_file, "num_workers": num_workers, "progress": progress}
        settings["accept_cleaned"] = accept_cleaned
        return _prepare_remote(os.fspath(folder), options, **settings)
    report = progress or (lambda done, total, text: None)
    if runner:
        beam_runner.check(runner, runner_flags)
    plan = make_plan(options, input_file, eval_file)
    _make_folder(folder)
    with folder_lock.locked(folder, f"Waiting for another process to write the records in {folder}"):
        if files.exists(os.path.join(folder, MANIFEST)):
            manifest = open_records(folder)
            check_same(folder, manifest["wanted"], plan.request, accept_cleaned=accept_cleaned)
            _remove_work(folder)  # left by a call killed right after writing the manifest
            return manifest
        _begin(folder, plan)
        try:
            if runner:
                collected = beam_pipeline.run(
                    os.fspath(folder), os.path.join(folder, WORK), plan, runner, runner_flags, num_workers
                )
            else:
                collected = workers.run(Path(folder), Path(folder, WORK), plan, num_workers, report)
        except EmptyInputError:
            _remove_work(folder)
            raise
        return _finish(folder, plan, collected)


def _prepare_remote(folder: str, options: RecordOptions, **settings: Any) -> dict[str, Any]:
    """Prepares records on this machine (an interrupted call can be resumed there), then uploads them.

    The manifest is uploaded last: without it the folder does not count as records.
    """
    local = os.path.join(tempfile.gettempdir(), f"bert-tf-records-{digest(folder)}")
    with folder_lock.locked(folder, f"Waiting for another process to write the records in {folder}"):
        if files.exists(os.path.join(folder, MANIFEST)):
            manifest = open_records(folder)
            plan = make_plan(options, settings["input_file"], settings["eval_file"])
            check_same(folder, manifest["wanted"], plan.request, accept_cleaned=settings["accept_cleaned"])
        else:
            prepare(local, options, **settings)
            for name in sorted(files.names(local), key=lambda name: (name == MANIFEST, name)):
                files.copy(os.path.join(local, name), os.path.join(folder, name))
            manifest = open_records(folder)
        files.remove(local)
        return manifest


def _make_folder(folder: str | os.PathLike[str]) -> None:
    try:
        files.make_folder(folder)
    except OSError as error:
        sentence = f"The folder {folder} cannot be made ({error.strerror}): choose another."
        raise of_os_error(error, sentence) from None


def _begin(folder: str | os.PathLike[str], plan: Plan) -> None:
    """Writes the options of unfinished records, or checks that the existing ones are the same."""
    path = os.path.join(folder, OPTIONS)
    if files.exists(path):
        work = os.path.join(folder, WORK)
        if any(name.startswith(("train-", "eval-")) for name in files.names(work)):  # shards worth keeping
            check_same(folder, require_json(path, UNFINISHED), plan.request)
        elif require_json(path, UNFINISHED) != plan.request:
            files.remove(work)
    atomic_files.write_json(path, plan.request, shared=True)
    files.make_folder(os.path.join(folder, WORK))


def open_records(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the manifest of a records folder and checks that each shard is present and complete.

    manifest["folder"], manifest["train_files"] and manifest["eval_files"] are full paths; manifest["statistics"] has an
    entry for each split. Raises UserError naming a file that is missing or has a different size.
    """
    folder = os.fspath(folder)
    manifest = require_json(os.path.join(folder, MANIFEST), "records; delete the folder and prepare them again")
    if not manifest["wanted"].get("chinese_word_segmentation", CONTINUATIONS).endswith(CONTINUATIONS):
        raise UserError(
            f"{folder} contains records of an earlier version, which marked Chinese words by different ids; delete it "
            "and prepare the records again."
        )
    paths = [os.path.join(folder, shard["file"]) for shard in manifest["shards"]]
    with concurrent.futures.ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        sizes = list(pool.map(lambda path: files.size(path) if files.exists(path) else None, paths))
    for shard, path, size in zip(manifest["shards"], paths, sizes, strict=True):
        if size != shard["bytes"]:
            problem = "is missing" if size is None else f"has {size} bytes, not {shard['bytes']}"
            raise UserError(
                f"{path} {problem}: its {shard['instances']:,} records are lost; delete {folder} and prepare the "
                "records again."
            )
    manifest["folder"] = folder
    for split in ("train", "eval"):
        manifest[f"{split}_files"] = [
            os.path.join(folder, shard["file"]) for shard in manifest["shards"] if shard["split"] == split
        ]
    return manifest


def _finish(folder: str | os.PathLike[str], plan: Plan, collected: Collected) -> dict[str, Any]:
    """Turns the statistics of all shards into the manifest and removes the temporary files."""
    result, shards, statistics = collected.result, [], {}
    for split in ("train", "eval"):
        shard_statistics = [collected.shards[split, bucket] for bucket in range(plan.buckets[split])]
        for bucket, values in enumerate(shard_statistics):
            entry = {"file": plan.shard_name((split, bucket)), "split": split}
            shards.append(entry | {name: values[name] for name in ("instances", "bytes")})
        hashes = collected.hashes[split]
        statistics[split] = summarize(shard_statistics, hashes, plan.options.max_seq_length, hash_bits(result))
    statistics["train"]["layouts"] = plan.layouts()
    _check_not_empty(statistics, plan)
    with atomic_files.atomic_write(os.path.join(folder, COUNTS), shared=True) as partial, open(partial, "wb") as file:
        np.save(file, collected.counts)
    in_both = result.documents == 1 and plan.buckets["eval"] > 0 and "eval" not in plan.sources
    has_next = plan.options.nsp and plan.options.pairs == "next"
    warnings = find_problems(statistics, nsp=has_next, evaluates_on_training_text=in_both)
    warnings += result.damage
    manifest: dict[str, Any] = {
        "wanted": plan.request,
        "shards": shards,
        "statistics": statistics,
        "warnings": warnings,
    }
    manifest["evaluates_on_training_text"] = in_both
    atomic_files.write_json(os.path.join(folder, MANIFEST), manifest, shared=True)
    _remove_work(folder)
    return open_records(folder)


def _check_not_empty(statistics: Mapping[str, Mapping[str, Any]], plan: Plan) -> None:
    """Raises UserError if a requested split has no instances."""
    held_out = "eval_file" if "eval" in plan.sources else "The text held out from the input (pass an eval_file)"
    for split, name in (("train", "The input"), ("eval", held_out)):
        if plan.buckets[split] and not statistics[split]["instances"]:
            raise UserError(
                f"{name} has no text that the vocabulary can split into tokens: start in another folder with other "
                "text."
            )


def _remove_work(folder: str | os.PathLike[str]) -> None:
    work, options = (os.path.join(folder, name) for name in (WORK, OPTIONS))
    if files.exists(work):
        files.remove(work)
    if files.exists(options):  # shared records may be on a read-only disk
        files.remove(options)


def token_counts(manifest: Mapping[str, Any]) -> np.ndarray:
    """Counts of each id in the training documents of records: int64 [V]."""
    if "token_counts" in manifest:  # records from another program
        return manifest["token_counts"]
    with files.open_binary(os.path.join(manifest["folder"], COUNTS)) as file:
        return np.load(file)

"""The local engine: jobs in any number of worker processes, in any order.

No TensorFlow here, nor in the workers for a WordPiece vocabulary. The output of each job appears whole or not at all,
and finished jobs are not repeated.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from bert_tf.data.pretraining import record_files
from bert_tf.data.pretraining.buckets import Assignment, Bucket
from bert_tf.data.pretraining.duplicates import find_duplicates
from bert_tf.data.pretraining.plan import Collected, Plan
from bert_tf.data.pretraining.stages import PartJob, PartResult, ShardJob, make_shard, merge, tokenize_part
from bert_tf.errors import NO_SPACE, MachineError, UserError
from bert_tf.runtime import atomic_files
from bert_tf.runtime.json_files import require_json
from bert_tf.text import record_tokenizer

IN_THIS_PROCESS = -1  # value for num_workers
# File names in the work folder: slices of a part by bucket, of its keys by partition, drops by bucket; and the prefix
# of a shard's files.
PART, KEYS, DROPS, SHARD = "part-{:06d}", "keys-{:06d}", "drops-{:06d}", "{}-{:05d}"
COUNTS = f"{PART}.json"  # counts of a part, written last

TokenizerKey = tuple[Any, ...]  # the arguments of record_tokenizer.from_file
Job = tuple[Callable[..., None], tuple[Any, ...]]  # a function and its arguments; the first one is a folder


def run(folder: Path, work: Path, plan: Plan, num_workers: int, report: Callable[..., None]) -> Collected:
    """Runs both stages in processes of this machine, except for work finished by an earlier call.

    Args:
        folder: the folder for shards.
        work: the folder for everything else.
        plan: the plan of the records.
        num_workers: number of processes, at least one, or IN_THIS_PROCESS.
        report: called as report(done, total=..., text=...) after each job.

    Raises:
        UserError: wrong input, or a worker failed; finished work is kept.
    """
    options = plan.options
    tokenizer = str(options.vocab_file), *options.tokenizer_options
    part_jobs = plan.part_jobs()
    with _engine(num_workers) as submit:
        first = [
            (write_part, (str(work), tokenizer, job))
            for job in part_jobs
            if not (work / COUNTS.format(job.number)).exists()
        ]
        _report_each(submit(first), len(first), len(part_jobs), report, "reading text")
        result = functools.reduce(merge, (_read_result(work, job.number) for job in part_jobs))
        plan.check_text(result)
        partitions = plan.buckets["train"] if plan.drops_duplicates else 0
        between = [
            (write_drops, (str(work), len(part_jobs), partition, part_jobs[0].assignment))
            for partition in range(partitions)
            if not (work / DROPS.format(partition)).exists()
        ]
        _report_each(submit(between), len(between), partitions, report, "finding duplicates")
        common, code = (str(work), tokenizer, len(part_jobs), partitions), plan.assignment().code
        shards = {bucket: folder / plan.shard_name(bucket) for bucket in plan.bucket_list()}
        second = [
            (write_shard, (*common, code(bucket), str(shard), plan.shard_job(bucket, result)))
            for bucket, shard in shards.items()
            if not _is_done(work, shard, bucket)
        ]
        _report_each(submit(second), len(second), len(shards), report, "writing records")
    return _collect(work, plan, result)


def _report_each(finished: Iterator[None], left: int, total: int, report: Callable[..., None], text: str) -> None:
    report(total - left, total=total, text=text)
    for number, _ in enumerate(finished, 1):
        report(total - left + number, total=total, text=text)


def write_part(work: str, tokenizer: TokenizerKey, job: PartJob) -> None:
    """Writes the packed documents and keys of a part, then its counts as JSON."""
    packed = tokenize_part(job, record_tokenizer.from_file(*tokenizer))
    counts = job.assignment.counts
    _write_slices(os.path.join(work, PART.format(job.number)), packed.documents, sum(counts.values()))
    if packed.keys:
        _write_slices(os.path.join(work, KEYS.format(job.number)), packed.keys, counts["train"])
    path = os.path.join(work, COUNTS.format(job.number))
    atomic_files.write_lines(path, [json.dumps(dataclasses.asdict(packed.result))], shared=True)


def write_drops(work: str, num_parts: int, partition: int, assignment: Assignment) -> None:
    """Compares the keys of one partition of all parts and writes the drops."""
    packed = list(find_duplicates(_pieces(work, KEYS, num_parts, partition), assignment))
    _write_slices(os.path.join(work, DROPS.format(partition)), packed, sum(assignment.counts.values()))


def _write_slices(path: str, packed: Sequence[tuple[int, bytes]], count: int) -> None:
    """Writes a file of `count` slices, (number, bytes) in order: first int64 [count + 1], their offsets."""
    sizes = np.zeros(count, np.int64)
    for number, data in packed:
        sizes[number] = len(data)
    offsets = 8 * (count + 1) + np.concatenate([[0], np.cumsum(sizes)])
    with atomic_files.atomic_write(path, shared=True) as partial, open(partial, "wb") as file:
        file.write(offsets.astype("<i8").tobytes())
        file.writelines(data for _, data in packed)


def _read_result(work: Path, number: int) -> PartResult:
    values = require_json(work / COUNTS.format(number), "counts of a part of the input")
    smallest = values["smallest"]
    return PartResult(**values | {"smallest": smallest and tuple(smallest)})


def write_shard(
    work: str, tokenizer: TokenizerKey, num_parts: int, partitions: int, code: int, shard: str, job: ShardJob
) -> None:
    """Writes a shard from the slices of its bucket, then its statistics. All appear whole or not at all."""
    pieces, drops = _pieces(work, PART, num_parts, code), _pieces(work, DROPS, partitions, code)
    made = make_shard(pieces, drops, job, record_tokenizer.from_file(*tokenizer))
    name = os.path.join(work, SHARD.format(*job.bucket))
    with atomic_files.atomic_write(shard, shared=True, folder=work) as partial:
        record_files.write_records(partial, made.blocks, compress=shard.endswith(".gz"))
        made.statistics["bytes"] = os.path.getsize(partial)
    for extension, array in ((".counts.npy", made.counts), (".hashes.npy", made.hashes)):
        with atomic_files.atomic_write(f"{name}{extension}", shared=True) as partial, open(partial, "wb") as file:
            np.save(file, array)
    atomic_files.write_lines(f"{name}.json", [json.dumps(made.statistics)], shared=True)


def _is_done(work: Path, shard: Path, bucket: Bucket) -> bool:
    """Returns whether an earlier call finished this shard: its statistics are written last."""
    statistics = work / (SHARD.format(*bucket) + ".json")
    if not (statistics.exists() and shard.exists()):
        return False
    return require_json(statistics, "statistics of a shard")["bytes"] == os.path.getsize(shard)


def _collect(work: Path, plan: Plan, result: PartResult) -> Collected:
    shards, counts = {}, np.zeros(len(plan.vocabulary), np.int64)
    hashes: dict[str, list[np.ndarray]] = {"train": [], "eval": []}
    for bucket in plan.bucket_list():
        name = str(work / SHARD.format(*bucket))
        shards[bucket] = require_json(f"{name}.json", "statistics of a shard")
        hashes[bucket[0]].append(np.load(f"{name}.hashes.npy"))
        if bucket[0] == "train":
            counts += np.load(f"{name}.counts.npy")
    return Collected(result, shards, counts, hashes)


def _pieces(work: str, name: str, num_files: int, number: int) -> Iterator[bytes]:
    """Slice `number` of each file that has one, in order of the files."""
    for index in range(num_files):
        path = os.path.join(work, name.format(index))
        if name == KEYS and not os.path.exists(path):  # a part without documents
            continue
        with open(path, "rb", buffering=0) as file:
            start, end = np.frombuffer(os.pread(file.fileno(), 16, 8 * number), "<i8").tolist()
            if end > start:
                yield os.pread(file.fileno(), end - start, start)


@contextlib.contextmanager
def _engine(num_workers: int) -> Iterator[Callable[[Sequence[Job]], Iterator[None]]]:
    """Yields a function that runs jobs and yields after each finished one; both stages use the same processes."""
    if num_workers == IN_THIS_PROCESS:
        yield _run_here
        return
    context = multiprocessing.get_context("spawn")
    workers = max(1, num_workers)
    pool = concurrent.futures.ProcessPoolExecutor(workers, context, initializer=start_worker)
    try:
        yield functools.partial(_run_in, pool, 2 * workers)
    except concurrent.futures.process.BrokenProcessPool as error:
        raise UserError(
            "A worker process was killed, most likely because memory ran out; run the same command again to "
            "continue, with fewer --num_workers if memory is short."
        ) from error
    except KeyboardInterrupt:  # does not wait for files being written
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _run_here(jobs: Sequence[Job]) -> Iterator[None]:
    for function, arguments in jobs:
        with _one_error(arguments[0]):
            function(*arguments)
        yield


def _run_in(pool: concurrent.futures.Executor, ahead: int, jobs: Sequence[Job]) -> Iterator[None]:
    """Runs jobs in a pool; submits at most `ahead` at a time, so that a million jobs take no memory here."""
    waiting = iter(jobs)
    futures = {pool.submit(function, *arguments) for function, arguments in itertools.islice(waiting, ahead)}
    while futures:
        finished, futures = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED)
        for function, arguments in itertools.islice(waiting, len(finished)):
            futures.add(pool.submit(function, *arguments))
        for future in finished:
            with _one_error(jobs[0][1][0]):
                future.result()
            yield


def start_worker() -> None:
    """Prepares a fresh worker process: it ignores Ctrl-C, which the parent handles, and ends when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:  # a killed parent would leave its workers waiting forever
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(process: BaseProcess) -> None:
    process.join()
    os._exit(1)


@contextlib.contextmanager
def _one_error(folder: str) -> Iterator[None]:
    """Turns any exception of a job into one UserError."""
    try:
        yield
    except (UserError, concurrent.futures.process.BrokenProcessPool):
        raise
    except Exception as error:
        kind = MachineError if isinstance(error, OSError) else UserError
        is_full = isinstance(error, OSError) and error.errno in NO_SPACE
        reason = f"{'no space on the disk' if is_full else type(error).__name__}: {error}"
        raise kind(f"Writing records in {folder} failed ({reason}); finished shards are kept.") from error

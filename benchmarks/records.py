"""Measures the speed of writing pre-training records, and the memory of all processes together.

    python benchmarks/records.py --input_file=texts/ --vocab_file=vocab.txt --num_workers=2

Two measurements. "whole": `records.prepare` in worker processes, as run_pretraining.py calls it; memory is the sum
of the PSS (shared pages counted once) of the parent and all workers, sampled three times a second, and processor time
that of all of them. "one core": the first part of the input in this process, by processor time. --runner measures an
engine of Apache Beam instead.
"""

import argparse
import dataclasses
import itertools
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time

import psutil

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from bert_tf.data.pretraining import buckets, record_files, records, stages  # noqa: E402
from bert_tf.data.pretraining.plan import make_plan  # noqa: E402
from bert_tf.text import corpus  # noqa: E402
from bert_tf.text.sources import text_size  # noqa: E402
from bert_tf.text.table_tokenizer import TableTokenizer  # noqa: E402


def main():
    flags = _flags()
    rows = [("what", "figure")]
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        rows += whole(flags, os.path.join(folder, "whole"))
        rows += one_core(flags, folder)
    for name, figure in rows:
        print(f"| {name:<48} | {figure:>14} |")
        if name == "what":
            print(f"|{'-' * 50}|{'-' * 16}|")


def _flags():
    return parser_of(__doc__).parse_args()


def parser_of(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input_file", required=True, help="files, folders or globs, as for run_pretraining.py")
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--num_workers", type=int, default=os.cpu_count())
    parser.add_argument("--dupe_factor", type=int, default=5)
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--runner", default="", help="engine of Apache Beam")
    parser.add_argument("--folder", default=None, help="where to write; default: the temporary folder")
    return parser


def _options(flags):
    same = {name: getattr(flags, name) for name in ("vocab_file", "dupe_factor", "max_seq_length")}
    return records.RecordOptions(**same)


def _prepare(flags, folder):
    settings = {"num_workers": flags.num_workers, "runner": flags.runner}
    records.prepare(folder, _options(flags), input_file=flags.input_file, **settings)


def whole(flags, folder):
    """Rows of the table about records.prepare from beginning to end."""
    before = os.times()
    size, seconds, peak, instances = measured(flags, folder)
    after = os.times()
    processor = sum(after[2:4]) - sum(before[2:4])  # of children that ended
    return [
        ("input, MB", f"{size / 1e6:,.1f}"),
        (f"whole, {flags.num_workers} workers: seconds", f"{seconds:,.1f}"),
        ("whole: input MB/s", f"{size / 1e6 / seconds:,.2f}"),
        ("whole: processor seconds", f"{processor:,.1f}"),
        ("whole: input MB per processor second", f"{size / 1e6 / processor:,.1f}"),
        ("whole: instances", f"{instances:,}"),
        ("whole: instances/s", f"{instances / seconds:,.0f}"),
        ("whole: peak memory of all processes, MB", f"{peak / 1e6:,.0f}"),
    ]


def measured(flags, folder):
    """Makes records of `flags.input_file`; returns bytes of input, seconds, peak bytes of memory, instances."""
    started = time.monotonic()
    child = multiprocessing.get_context("spawn").Process(target=_prepare, args=(flags, folder))
    child.start()
    peak = 0
    while child.is_alive():
        peak = max(peak, _pss(child.pid))
        time.sleep(0.3)
    seconds = time.monotonic() - started
    if child.exitcode:
        raise SystemExit("records.prepare failed, see above.")
    statistics = records.open_records(folder)["statistics"]
    instances = sum(statistics[split]["instances"] for split in statistics)
    size = sum(text_size(source) for source in corpus.find_sources(flags.input_file))
    return size, seconds, peak, instances


def _pss(pid):
    """Bytes of a process and all below it, shared pages divided among those who share them."""
    total = 0
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:  # it ended just now
            continue
    return total


def one_core(flags, folder):
    """Rows of the table about the steps of one worker."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    plan = make_plan(_options(flags), flags.input_file)
    tokenizer = TableTokenizer(plan.vocabulary, plan.options.lower_case)
    jobs = plan.part_jobs()
    assignment = dataclasses.replace(jobs[0].assignment, counts={"train": 1, "eval": 1}, eval_fraction=0.0)
    job = dataclasses.replace(jobs[0], assignment=assignment)
    size = sum(text_size(source) for source in job.sources)
    stages.tokenize_part(job, tokenizer)  # most words are new only once
    times = [time.process_time()]
    packed = stages.tokenize_part(job, tokenizer)
    times.append(time.process_time())
    shard_job = plan.shard_job(("train", 0), packed.result)
    documents = buckets.unpack([packed.documents[0][1]]).documents
    rows = stages.make_instances(documents, shard_job, 1)
    times.append(time.process_time())
    made = stages.make_shard([packed.documents[0][1]], [], shard_job, tokenizer)
    record_files.write_records(os.path.join(folder, "one.tfrecord"), made.blocks)
    times.append(time.process_time())
    tokenize, pair, shard = (after - before for before, after in itertools.pairwise(times))
    return [
        ("one core: reading, tokenizing, packing, MB/s", f"{size / 1e6 / tokenize:,.1f}"),
        ("one core: pairing, instances/s", f"{len(rows) / pair:,.0f}"),
        ("one core: unpacking, pairing, writing, instances/s", f"{len(rows) / shard:,.0f}"),
        ("one core: all, MB/s", f"{size / 1e6 / (tokenize + shard):,.1f}"),
    ]


if __name__ == "__main__":
    main()

"""Kills of random workers of `bert-tf launch`: does all of it end, and the same command as if nothing had happened?

python benchmarks/attack/workers.py --times=20 --workers=2 --output=workers.jsonl

A tiny pre-training, from text to the last checkpoint, runs undisturbed once. Then it runs in new folders: one of its
workers is killed (SIGKILL) at a random share of that time, and the same command is started again, up to --again times,
before it may end. Its end after a kill must come within --limit seconds, with one line of each worker and without a
traceback; what it leaves at last (weights, moments of the optimizer, step, records, scores) must be equal byte for
byte.

Appends a line of JSON for each kill and comparison to --output, and prints a summary.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import workloads

LENGTH = "--num_train_steps=40 --save_checkpoints_steps=5 --max_eval_steps=4 --do_export=false"
WORKLOAD = "run_pretraining.py"  # whose files are compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="kills")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--again", type=int, default=5, help="kills of one run at most, before it may end")
    parser.add_argument("--limit", type=float, default=60, help="seconds from a kill to the end of the job")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default="workers.jsonl", help="file that lines are added to")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="workers-"))
    try:
        return campaign(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def campaign(options, folder):
    """Kills until --times is reached; returns 1 if anything was not as it must be."""
    workloads.prepare(folder / "inputs")
    chance, bad, kills, slowest = random.Random(options.seed), 0, 0, 0.0
    place, begin = new_folder(folder), time.monotonic()
    job = start(options, place)
    job.wait()
    seconds = time.monotonic() - begin
    expected = finished(job, place)
    note(options, undisturbed=seconds, workers=options.workers, files=len(expected))
    runs = 0
    while kills < options.times:
        place, runs, again = new_folder(folder), runs + 1, 0
        while again < min(options.again, options.times - kills):
            facts = kill_one(start(options, place), place, chance, seconds)
            if not facts:
                break
            again += 1
            wrong = facts["down"] > options.limit or facts["traceback"] or not facts["said"]
            bad, slowest = bad + wrong, max(slowest, facts["down"])
            note(options, **facts)
        kills += again
        left = finished(start(options, place), place)
        differing = sorted(key for key in left.keys() | expected.keys() if left.get(key) != expected.get(key))
        bad += bool(differing)
        note(options, kills=again, compared=len(left), differing=differing[:20])
        shutil.rmtree(place)
    print(
        f"{kills} kills of {options.workers} workers in {runs} runs of {seconds:.0f} s: ended after {slowest:.1f} s at "
        f"most; {bad} kills or runs are not as they must be."
    )
    return int(bad > 0)


def new_folder(folder):
    place = Path(tempfile.mkdtemp(dir=folder))
    for path in (folder / "inputs").iterdir():
        os.symlink(path, place / path.name)
    (place / "out").mkdir()
    return place


def start(options, place):
    """The job in a folder, in a new session; its output goes to log.txt there."""
    command = f"-m bert_tf launch --workers={options.workers} -- pretrain {workloads.PRETRAIN} {LENGTH}"
    with open(place / "log.txt", "w") as log:
        return subprocess.Popen(
            [sys.executable, *command.split(), "--output_dir=out/run"],
            cwd=place,
            env=os.environ | {"PYTHONPATH": str(workloads.ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def finished(job, place):
    """Waits for the end, which must be a good one; returns {file or tensor: hash}."""
    if job.wait():
        sys.exit(f"The job ends with {job.returncode}:\n{(place / 'log.txt').read_text()[-3000:]}")
    return workloads.left(WORKLOAD, place)


def kill_one(job, place, chance, seconds):
    """Kills one of the workers at a random time; returns what became of the job, None if it ended before."""
    begin, share = time.monotonic(), chance.uniform(0.05, 1)
    while job.poll() is None and time.monotonic() - begin < share * seconds:
        time.sleep(0.02)
    workers = psutil.Process(job.pid).children() if job.poll() is None else []
    if not workers:
        job.wait()
        return None
    log = place / "log.txt"
    before, steps = len(log.read_text()), newest(place)
    victim = chance.randrange(len(workers))
    os.kill(sorted(each.pid for each in workers)[victim], signal.SIGKILL)
    begin = time.monotonic()
    code = job.wait()
    text = log.read_text()
    said = [line for line in text[before:].splitlines() if "bert-tf: " in line]
    facts = {"killed": victim, "share": round(share, 3), "after": steps, "down": round(time.monotonic() - begin, 1)}
    return facts | {"code": code, "said": said, "traceback": "Traceback (most recent" in text}


def newest(place):
    """The step of the newest checkpoint, -1 before the first."""
    steps = [int(path.stem.split("-")[-1]) for path in (place / "out").rglob("ckpt-*.index")]
    return max(steps, default=-1)


def note(options, **facts):
    with open(options.output, "a") as file:
        print(json.dumps(facts), file=file)


if __name__ == "__main__":
    sys.exit(main())

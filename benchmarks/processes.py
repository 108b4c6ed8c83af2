"""Tokens a second of pre-training in 1, 2, ... processes, each with a core of its own, and what they send in a step.

    python benchmarks/processes.py --processes=1,2 --all_reduce=float32,bfloat16 --rounds=3

Each process has the same rows in a step (--rows), so that with n processes a step has n times as many. `bert-tf launch`
gives each a core; one process gets the first. More processes than cores share them, which says nothing about scaling.
Rates are medians of the lines of metrics.jsonl after the first of each run; bytes are those of run.json.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS = 40


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="1,2")
    parser.add_argument("--all_reduce", default="float32,bfloat16", help="--all_reduce_precision of several processes")
    parser.add_argument("--rounds", type=int, default=3, help="all of them in turn, as often")
    parser.add_argument("--rows", type=int, default=32, help="of 128 tokens, of each process in a step")
    parser.add_argument("--model_size", default="tiny")
    options = parser.parse_args()
    counts = [int(count) for count in options.processes.split(",")]
    cases = [(n, kind) for n in counts for kind in (options.all_reduce.split(",") if n > 1 else ["float32"])]
    rates, sent = {case: [] for case in cases}, {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for case in cases:
                rate, sent[case] = train(options, *case, pathlib.Path(folder), number)
                rates[case].append(rate)
                print(*case, f"{rate:,.0f} tokens/s", file=sys.stderr, flush=True)
    one = statistics.median(rates[cases[0]]) / counts[0]
    print("| processes | gradients in | MB summed a step | tokens/s, rounds | median | of linear |")
    print("|---:|---|---:|---|---:|---:|")
    for count, kind in cases:
        median = statistics.median(rates[count, kind])
        rounds = ", ".join(f"{rate:,.0f}" for rate in rates[count, kind])
        size = f"{sent[count, kind] / 1e6:.2f}" if count > 1 else ""
        print(f"| {count} | {kind if size else ''} | {size} | {rounds} | {median:,.0f} | {median / one / count:.0%} |")


def train(options, count, kind, folder, number):
    """A training of `STEPS` steps; returns tokens a second and the bytes that are summed in a step."""
    output = folder / f"{count}_{kind}_{number}"
    flags = {"model_size": options.model_size, "vocab_size": 4000, "records_dir": folder / "records"}
    if (folder / "vocab.txt").exists():
        flags["vocab_file"] = folder / "vocab.txt"
    flags |= {"train_batch_size": options.rows * count, "max_seq_length": 128, "num_train_steps": STEPS}
    flags |= {"do_eval": False, "do_export": False, "precision": "float32", "dupe_factor": 2}
    flags |= {"all_reduce_precision": kind, "output_dir": output}
    words = ["launch", f"--workers={count}", "--", "pretrain"] if count > 1 else ["pretrain"]
    command = [sys.executable, "-m", "bert_tf", *words, *(f"--{name}={value}" for name, value in flags.items())]
    cores = sorted(os.sched_getaffinity(0))
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, cores if count > 1 else cores[:1])), *command],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    if "vocab_file" not in flags:
        (folder / "vocab.txt").write_bytes((output / "vocab.txt").read_bytes())
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    rates = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line][1:]
    return statistics.median(rates), json.loads((output / "run.json").read_text())["all_reduced_bytes"]


if __name__ == "__main__":
    main()

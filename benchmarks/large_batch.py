"""Pre-training loss against batch size at the same number of tokens: LAMB as in the large-batch recipe beside AdamW.

    python benchmarks/large_batch.py --rows=102400 --output=/tmp/large_batch

A small BERT learns on the manual and the library of Python, or on --texts, from the same number of rows of 64 tokens
in steps of 32, 128 and 512. Both optimizers scale their learning rate with the square root of the batch (You et al.
2020, section 4) from a rate at the smallest, with the same share of warm-up. LAMB has the schedule of
`--recipe=lamb_large_batch`; the last lines are the recipe itself, both phases in one command, with rows of 64 tokens in
both, at its own learning rates, which are for long runs, and at that of the line with its batch. Processor seconds are
of all threads. Finished runs are kept: the same command goes on.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BATCHES = (32, 128, 512)
COMMON = {
    "vocab_size": 4000,
    "model_size": "tiny",
    "max_seq_length": 64,
    "max_predictions_per_seq": 10,
    "dropout_prob": 0,
    "eval_batch_size": 64,
    "max_eval_steps": 30,
    "precision": "float32",
    "save_checkpoints_steps": 10**6,
    "do_export": False,
    "warmup_proportion": 0.2843,
}
OPTIMIZERS = {
    "AdamW": {"optimizer": "adamw"},
    "LAMB": {"optimizer": "lamb", "continuous_schedule": False, "decay_power": 0.5, "weight_decay": 0.01},
}


def run(flags):
    """One training; returns its results on held-out text and the processor seconds that it took, 0 if it was there."""
    result = pathlib.Path(flags["output_dir"], "eval_results.json")
    before = os.times()
    if not result.exists():
        command = [sys.executable, ROOT / "run_pretraining.py", *(f"--{name}={value}" for name, value in flags.items())]
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    after = os.times()
    return {**json.loads(result.read_text()), "seconds": sum(after[2:4]) - sum(before[2:4])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", default="", help="as --input_file of run_pretraining.py; default: Python's manual")
    parser.add_argument("--rows", type=int, default=102_400, help="rows that each run sees")
    parser.add_argument("--rates", default="AdamW=5e-4,LAMB=7.5e-3", help="learning rates with the smallest batch")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    parser.add_argument("--recipe", action=argparse.BooleanOptionalAction, default=True, help="the last line")
    parser.add_argument("--output", default="/tmp/large_batch")
    options = parser.parse_args()
    output = pathlib.Path(options.output)
    common = {**COMMON, "input_file": options.texts, "records_dir": output / "records"}
    common["vocab_file"] = output / "first/vocab.txt"
    if not common["vocab_file"].exists():
        first = {name: value for name, value in common.items() if name != "vocab_file"}
        run({**first, "output_dir": output / "first", "num_train_steps": 1, "train_batch_size": 32})
    print("| | batch | steps | learning rate | masked LM loss | accuracy | processor seconds |", flush=True)
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for name, rate in (each.split("=") for each in options.rates.split(",")):
        for batch in map(int, options.batches.split(",")):
            scaled = float(rate) * math.sqrt(batch / BATCHES[0])
            flags = {"train_batch_size": batch, "num_train_steps": options.rows // batch, "learning_rate": scaled}
            folder = output / f"{name}_{batch}_{scaled:.1e}"
            line(name, {**common, **OPTIMIZERS[name], **flags, "output_dir": folder})
    if options.recipe:
        batch = BATCHES[-1]
        scale = batch / 65536  # of the first phase; the second has half of that
        flags = {name: value for name, value in common.items() if name != "warmup_proportion"}
        flags |= {"recipe": "lamb_large_batch", "recipe_scale": scale}
        flags |= {"records_dir": f"{output / 'records'},{output / 'records_2'}"}
        phase_1, phase_2 = (batch * 7038, batch // 2 * 1563)  # rows at these numbers of steps
        flags["num_train_steps"] = round(options.rows / (phase_1 + phase_2) * (7038 + 1563))
        line("the recipe, both phases", {**flags, "output_dir": output / "recipe"})
        flags["learning_rate"] = dict(each.split("=") for each in options.rates.split(","))["LAMB"]
        flags["learning_rate"] = float(flags["learning_rate"]) * math.sqrt(batch / BATCHES[0])
        line("the recipe at LAMB's rate above", {**flags, "output_dir": output / "recipe_rate"})


def line(name, flags):
    result = run(flags)
    batch, rate = flags.get("train_batch_size", "512, 256"), flags.get("learning_rate")
    print(
        f"| {name} | {batch} | {flags['num_train_steps']:,} | {f'{rate:.2g}' if rate else 'scaled'} | "
        f"{result['masked_lm_loss']:.4f} | {result['masked_lm_accuracy']:.4f} | {result['seconds']:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()

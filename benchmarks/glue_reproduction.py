"""Fine-tunes one checkpoint on GLUE here and with Hugging Face transformers, the same recipe on both sides.

    python benchmarks/glue_reproduction.py --data_dir=GLUE --init_checkpoint=FOLDER --work_dir=FOLDER

Batch 32, rate 5e-5, a tenth of warm-up, weight decay 0.01, clipping at 1, rows of at most 128 pieces padded to the
longest of their batch; MRPC, RTE, STS-B and CoLA for three epochs with three seeds, SST-2 for one epoch with one. The
pooler of the checkpoint is left out: both sides draw a new one, and a new head. Ours is run_classifier.py as anybody
would start it. The peer runs in a virtual environment of its own, made here of PEER; or give --peer_python=PYTHON.

Runs of both sides take turns; --sides=bert_tf or --sides=transformers does those of one side only, so that the two can
run at the same time, each on cores of its own (taskset). What is done is kept in work_dir, so that the same command
goes on where it was stopped; it ends by printing a table, --table prints it of what there is.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import venv

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
PEER = ("torch==2.13.0", "transformers==5.23.0")
SEEDS = (1, 2, 3)
EPOCHS = {"MRPC": 3, "RTE": 3, "STS-B": 3, "CoLA": 3, "SST-2": 1}
# Below 10,000 examples both sides correct Adam's bias; the original's optimizer, ours above that, does not.
SIDES = ("bert_tf", "transformers")
# Without these glibc gives torch's memory back after every step, and a third of the peer's time goes to page faults.
PEER_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "2147483648"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data_dir", "init_checkpoint", "work_dir"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--peer_python")
    parser.add_argument("--tasks", default=",".join(EPOCHS))
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    options.tasks, options.sides = options.tasks.split(","), options.sides.split(",")
    if not options.table:
        measure(options)
    print_table(options)


def measure(options):
    """Does all runs that are not done yet; both sides of a seed, then the next task, then the next seed."""
    checkpoint = without_pooler(options.init_checkpoint, options.work_dir / "checkpoint")
    python = options.peer_python or peer_python(options.work_dir / "peer")
    for seed in SEEDS:
        for task in options.tasks:
            if seed > 1 and EPOCHS[task] == 1:
                continue
            for side in options.sides:
                output = result_file(options.work_dir, side, task, seed)
                if not output.exists():
                    print(f"{task}, seed {seed}, {side}", flush=True)
                    run = ours if side == "bert_tf" else partial_peer(python)
                    run(options, checkpoint, task, seed, output)


def without_pooler(source, target):
    """A Hugging Face folder with the encoder of `source` and no pooler, for both sides to load."""
    if not target.exists():
        from bert_tf import checkpoints

        read = checkpoints.read(str(source))
        target.parent.mkdir(parents=True, exist_ok=True)
        kept = {name: x for name, x in read.weights.items() if "pooler" not in name}
        checkpoints.write(dataclasses.replace(read, weights=kept), str(target), "huggingface")
    return target


def peer_python(folder):
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PEER], check=True)
    return python


def result_file(work_dir, side, task, seed):
    return work_dir / f"{task}-{seed}-{side}.json"


def ours(options, checkpoint, task, seed, output):
    folder = output.with_suffix("")
    flags = {
        "task_name": task,
        "data_dir": options.data_dir,
        "init_checkpoint": checkpoint,
        "output_dir": folder,
        "num_train_epochs": EPOCHS[task],
        "train_batch_size": 32,
        "eval_batch_size": 32,
        "learning_rate": 5e-5,
        "random_seed": seed,
        "save_checkpoints_steps": 100_000,
        "eval_steps": 100_000,  # at the end only, as the peer
        "precision": "float32",
        "do_export": False,
    }
    command = [sys.executable, HERE.parent / "run_classifier.py", *(f"--{n}={v}" for n, v in flags.items())]
    subprocess.run(command, check=True)
    phases = json.loads((folder / "run.json").read_text())["phases"]
    scores = json.loads((folder / "eval_results.json").read_text())
    output.write_text(json.dumps({"scores": scores, "seconds": phases["train"]}))


def partial_peer(python):
    return lambda *arguments: peer(python, *arguments)


def peer(python, options, checkpoint, task, seed, output):
    """Runs the peer, and scores its answers by our metrics."""
    from bert_tf import metrics

    made = task_of(options, checkpoint, task)
    data = options.work_dir / f"{task}-data"
    for split in ("train", "dev"):
        write_rows(made.source(split), data / f"{split}.jsonl")
    answers = output.with_suffix(".answers.json")
    size = len(made.goal.labels) or 1
    arguments = {"checkpoint": checkpoint, "data": data, "size": size, "epochs": EPOCHS[task], "seed": seed}
    flags = [f"--{name}={value}" for name, value in {**arguments, "output": answers}.items()]
    subprocess.run([python, HERE / "peers" / "transformers_glue.py", *flags], check=True, env=os.environ | PEER_MEMORY)
    found = json.loads(answers.read_text())
    logits = np.array(found["logits"])
    guesses = logits.argmax(-1) if size > 1 else logits[:, 0]
    truth = made.source("dev").truth
    scores = {name: metrics.SCORES[name](truth, guesses) for name in score_names(task)}
    output.write_text(json.dumps({"scores": scores, "seconds": found["seconds"]}))


def task_of(options, checkpoint, task):
    """The task as run_classifier.py makes it."""
    from bert_tf import tasks, vocabulary
    from bert_tf.text import Tokenizer

    sys.path.insert(0, str(HERE.parent))
    from run_classifier import Flags

    tokenizer = Tokenizer(vocabulary.read(str(checkpoint / "vocab.txt")))
    return tasks.get(f"glue/{task.lower()}")(Flags(data_dir=str(options.data_dir)), lambda texts: tokenizer)


def write_rows(split, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(split.texts.tolist(), split.truth.tolist(), strict=True)
    path.write_text("".join(json.dumps({"texts": texts, "label": label}) + "\n" for texts, label in rows))


def score_names(task):
    from bert_tf.tasks.glue import LAYOUTS

    return LAYOUTS[task.lower()].scores


def print_table(options):
    print("| task, score | seeds | bert_tf | transformers | difference / sd | training, s | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for task in options.tasks:
        done = {side: results(options.work_dir, side, task) for side in SIDES}
        number = min(map(len, done.values()))
        if not number:
            continue
        done = {side: runs[:number] for side, runs in done.items()}
        seconds = [statistics.mean(run["seconds"] for run in done[side]) for side in SIDES]
        for name in score_names(task):
            scores = [[100 * run["scores"][name] for run in done[side]] for side in SIDES]
            print(
                f"| {task} {name} | {number} | {shown(scores[0])} | {shown(scores[1])} | {apart(*scores)} "
                f"| {seconds[0]:.0f} / {seconds[1]:.0f} | {seconds[0] / seconds[1]:.2f} |"
            )


def results(work_dir, side, task):
    paths = (result_file(work_dir, side, task, seed) for seed in SEEDS)
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def shown(scores):
    return f"{statistics.mean(scores):.1f}" + (f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else "")


def apart(ours, theirs):
    """The difference of the means, and that in standard deviations of the peer's runs."""
    difference = statistics.mean(ours) - statistics.mean(theirs)
    spread = statistics.stdev(theirs) if len(theirs) > 1 else 0
    return f"{difference:+.1f}" + (f" / {difference / spread:+.1f}" if spread else "")


if __name__ == "__main__":
    main()

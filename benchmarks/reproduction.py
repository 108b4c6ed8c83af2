"""Shared parts of the comparisons with Hugging Face transformers: runs of both sides, step times, table rows."""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import venv

HERE = pathlib.Path(__file__).resolve().parent
PEER = ("torch==2.13.0", "transformers==5.23.0")
# Without these glibc gives torch's memory back after every step, and a third of the peer's time goes to page faults.
PEER_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "2147483648"}
SIDES = ("bert_tf", "transformers")
BATCH, RATE = 32, 5e-5
ROUNDS, FIRST = 3, 2  # of --max_steps; and the steps of each that set things up
HEAD = "seeds | bert_tf | transformers | difference / sd | training, s | ratio |"


def parser_of(description):
    """The flags that all of them have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("init_checkpoint", "work_dir"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--peer_python", help="a Python that has transformers")
    parser.add_argument("--sides", default=",".join(SIDES), help="sides to run, comma-separated")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--train_rows", type=int, default=0, help="use the first N rows only, on both sides")
    parser.add_argument("--train_batch_size", type=int, default=BATCH, help="of both sides")
    parser.add_argument("--learning_rate", type=float, default=RATE, help="of both sides")
    parser.add_argument("--our_flags", default="", help="more flags for our side, such as --group_by_length")
    sys.path.insert(0, str(HERE.parent))
    return parser


def add_precision_flag(parser):
    parser.add_argument(
        "--precision", default="float32", choices=("float32", "bfloat16"), help="compute precision of both sides"
    )


def add_step_flags(parser, epochs):
    add_precision_flag(parser)
    parser.add_argument("--epochs", type=float, default=epochs)
    parser.add_argument("--seeds", default="1", help="comma-separated")
    parser.add_argument("--max_steps", type=int, default=0)
    parser.add_argument("--only_time", action="store_true", help=argparse.SUPPRESS)


def peer_python(options):
    """The Python of the peer, in a virtual environment that is created on first use."""
    if options.peer_python:
        return options.peer_python
    folder = options.work_dir / "peer"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PEER], check=True)
    return python


def without_pooler(source, target):
    """A Hugging Face folder with the encoder of `source` and no pooler, for both sides to load."""
    if not target.exists():
        from bert_tf.checkpoints import formats

        read = formats.read(str(source))
        target.parent.mkdir(parents=True, exist_ok=True)
        encoder_weights = {name: x for name, x in read.weights.items() if "pooler" not in name}
        formats.write(dataclasses.replace(read, weights=encoder_weights), str(target), "huggingface")
    return target


def recipe_of(options):
    """What both sides train with."""
    return {"train_batch_size": options.train_batch_size, "learning_rate": options.learning_rate}


def run_ours(options, script, flags):
    """Runs one of our scripts, [path, arguments], with the peers' recipe."""
    recipe = {**recipe_of(options), "eval_batch_size": BATCH, "optimizer": "adamw_corrected"}
    recipe |= {"head_learning_rate": "same"}
    settings = {**recipe, "do_export": False, **flags}
    arguments = [*(f"--{n}={v}" for n, v in settings.items()), *options.our_flags.split()]
    subprocess.run([sys.executable, HERE.parent / script[0], *script[1:], *arguments], check=True)


def seconds_of_training(folder):
    return json.loads((folder / "run.json").read_text())["phases"]["train"]


def initialized_by_peer(options, script, flags, folder):
    """A folder with what the peer's seed determines: the initial model and order.json, see in_given_order.py.

    folder: created if missing, from a copy of flags["checkpoint"].
    """
    if not folder.exists():
        new = folder.with_name(f"{folder.name}.{os.getpid()}")  # the other side may be making it too
        shutil.copytree(flags["checkpoint"], new)
        start_peer(options, script, flags | {"start": new})
        if not folder.exists():
            new.rename(folder)
    return folder


def in_order_of(start, script):
    """The script for `run_ours` that trains in the order of a folder made by `initialized_by_peer`."""
    return [pathlib.Path("benchmarks", "in_given_order.py"), start / "order.json", script]


def start_peer(options, script, flags):
    """Runs a script of peers/."""
    command = [peer_python(options), HERE / "peers" / script, *(f"--{n}={v}" for n, v in flags.items())]
    subprocess.run(command, check=True, env=os.environ | PEER_MEMORY)


def run_peer(options, script, flags, answers):
    """Runs a script of peers/, and returns what it has written to `answers`."""
    start_peer(options, script, {**flags, "output": answers})
    return json.loads(answers.read_text(encoding="utf-8"))


def measure_seeds(options, runs):
    """Runs everything that is missing; `runs` {side: function of seed and output that returns scores, seconds}."""
    for seed in options.seeds.split(","):
        for side in options.sides.split(","):
            output = result_file(options, side, seed)
            if not output.exists():
                print(f"seed {seed}, {side}", flush=True)
                scores, seconds = runs[side](seed, output)
                output.write_text(json.dumps({"scores": scores, "seconds": seconds}))


def result_file(options, side, seed):
    return options.work_dir / f"{seed}-{side}-{options.epochs:g}-{options.precision}.json"


def results(options):
    """{side: results} of the seeds that both sides have done."""
    done = {side: [] for side in SIDES}
    for seed in options.seeds.split(","):
        paths = [result_file(options, side, seed) for side in SIDES]
        if all(path.exists() for path in paths):
            for side, path in zip(SIDES, paths, strict=True):
                done[side].append(json.loads(path.read_text()))
    return done


def compare_steps(options, peer_seconds):
    """Prints the median seconds of a step of each side, which take turns.

    peer_seconds: function of seed and number of steps that returns the seconds of each step of the peer.
    """
    seconds = {side: [] for side in SIDES}
    for number in range(ROUNDS):
        command = [sys.executable, *sys.argv, "--only_time"]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds["bert_tf"] += json.loads(output.splitlines()[-1])
        seconds["transformers"] += peer_seconds(number + 1, options.max_steps + FIRST)[FIRST:]
        medians = {side: statistics.median(values) for side, values in seconds.items()}
        print(", ".join(f"{side} {median:.3f} s per step" for side, median in medians.items()), flush=True)
    ratio = medians["bert_tf"] / medians["transformers"]
    print(f"{len(seconds['bert_tf'])} steps of each; ours takes {ratio:.2f} of the time of transformers")


def time_our_steps(task, start, options):
    """Trains some steps in this process, as the scripts do, and prints the seconds of each as JSON."""
    from bert_tf.config import train_config
    from bert_tf.model import weights
    from bert_tf.runtime import process
    from bert_tf.training import distribute, precision
    from bert_tf.training.train_step import TrainStep

    process.keep_freed_memory()
    strategy, steps = distribute.create_strategy("one_device"), options.max_steps + FIRST
    recipe = {"train_batch_size": BATCH, "learning_rate": RATE, "num_train_steps": steps, "num_warmup_steps": 1}
    with strategy.scope():
        model = task.create_model(start.config, dtype=precision.policy(options.precision))
        learner = TrainStep(task, model, train_config.TrainConfig(**recipe), strategy)
    weights.assign(model, start.weights)
    batches, seconds = iter(task.train_batches(BATCH, 1)), []
    for _ in range(steps):
        begin = time.perf_counter()
        learner.step(next(batches))["gradient_norm"].numpy()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds[FIRST:]))


def print_head(first):
    print(f"| {first} | {HEAD}\n|---|---:|---:|---:|---:|---:|---:|")


def print_row(name, scores, seconds):
    """A row of what both sides' runs scored, out of 100, and of the mean seconds of each side."""
    print(
        f"| {name} | {len(scores[0])} | {shown(scores[0])} | {shown(scores[1])} | {apart(*scores)} "
        f"| {seconds[0]:.0f} / {seconds[1]:.0f} | {seconds[0] / seconds[1]:.2f} |"
    )


def mean_seconds(done):
    return [statistics.mean(run["seconds"] for run in done[side]) for side in SIDES]


def shown(scores):
    return f"{statistics.mean(scores):.1f}" + (f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else "")


def apart(ours, theirs):
    """The difference of the means, and that in standard deviations of the peer's runs."""
    difference = statistics.mean(ours) - statistics.mean(theirs)
    spread = statistics.stdev(theirs) if len(theirs) > 1 else 0
    return f"{difference:+.1f}" + (f" / {difference / spread:+.1f}" if spread else "")

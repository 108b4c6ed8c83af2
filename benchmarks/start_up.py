"""Measures start-up: the console script's --help, a single text, and the extra time of the first training step.

    python benchmarks/start_up.py --work_dir=FOLDER
    python benchmarks/start_up.py --export=runs/classifier

Runs each command ROUNDS times, in turns, and writes the table to benchmarks/README.md. With --export it only predicts a
text, by TensorFlow's C library, after `import tensorflow` and by each engine that the export has a model for, and
prints the table.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import race
import training_step

from bert_tf.export import engine_predictor, loaded_model

ROUNDS = 5
LIMITS = {"command": 0.5, "text": 3.0, "first step": 10.0}  # seconds
COMMANDS = ("--help", "convert --help", "vocabulary --help", "predict --help", "evaluate --help", "serve --help")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--work_dir", type=pathlib.Path)
    place.add_argument("--export", help="folder of an export or a run that takes one text")
    arguments = parser.parse_args()
    if arguments.export:
        predict = ["predict", arguments.export, "--text=A text."]
        engines = [f"--engine={name}" for name in engine_predictor.available(loaded_model.find(arguments.export))]
        plain = [*predict, "--engine=tensorflow"]
        print(table(timed([plain, [*plain, "--jit_compile=false"], *([*predict, engine] for engine in engines)])))
        return
    arguments.work_dir.mkdir(parents=True, exist_ok=True)
    seconds_by_name = timed([command.split() for command in COMMANDS])
    for name in ("pretraining", "fine_tuning"):
        what, make = training_step.WORKS[name]
        file = arguments.work_dir / f"{name}.json"
        file.write_text(json.dumps(make(arguments)))
        title = f"first training step, extra time: {what}, BERT-base"
        seconds_by_name[title] = [first_step(file) for _ in range(3)]
    text = table(seconds_by_name)
    print(text)
    race.save_section("Start-up", text)


def timed(commands):
    """{command: seconds of each round}."""
    seconds_by_name = {f"bert-tf {' '.join(command)}": [] for command in commands}
    for _ in range(ROUNDS):
        for name, command in zip(seconds_by_name, commands, strict=True):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-m", "bert_tf", *command], check=True, capture_output=True)
            seconds_by_name[name].append(time.perf_counter() - start)
    return seconds_by_name


def table(seconds_by_name):
    """Medians beside their limits, in Markdown."""
    lines = ["| | median, s | limit |", "|---|---:|---:|"]
    for name, seconds in seconds_by_name.items():
        kind = "first step" if name.startswith("first") else "text" if "--text" in name else "command"
        lines.append(f"| {name} | {statistics.median(seconds):.2f} | {LIMITS[kind]} |")
    return "\n".join(lines)


def first_step(file):
    """Seconds that the first step of a model takes longer than its second: tracing and optimizing the graph."""
    runner = race.Runner(race.Contender("bert_tf", "race_bert_tf.py", (f"--work={file}",)), sys.executable)
    first, second = runner.once()["seconds"], runner.once()["seconds"]
    runner.close()
    return first - second


if __name__ == "__main__":
    main()

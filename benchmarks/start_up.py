"""Measures start-up: the console script's --help, and the extra time of the first training step.

    python benchmarks/start_up.py --work_dir=FOLDER

Runs each command ROUNDS times, in turns; writes the table to benchmarks/README.md.
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

ROUNDS = 5
LIMITS = {"command": 0.5, "first step": 10.0}  # seconds
COMMANDS = ("--help", "convert --help", "vocabulary --help", "predict --help", "evaluate --help", "serve --help")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work_dir", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.work_dir.mkdir(parents=True, exist_ok=True)
    seconds_by_name = {f"bert-tf {command}": [] for command in COMMANDS}
    for _ in range(ROUNDS):
        for command in COMMANDS:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-m", "bert_tf", *command.split()], check=True, capture_output=True)
            seconds_by_name[f"bert-tf {command}"].append(time.perf_counter() - start)
    for name in ("pretraining", "fine_tuning"):
        what, make = training_step.WORKS[name]
        file = arguments.work_dir / f"{name}.json"
        file.write_text(json.dumps(make(arguments)))
        title = f"first training step, extra time: {what}, BERT-base"
        seconds_by_name[title] = [first_step(file) for _ in range(3)]
    lines = ["| | median, s | limit |", "|---|---:|---:|"]
    for name, seconds in seconds_by_name.items():
        limit = LIMITS["first step" if name.startswith("first") else "command"]
        lines.append(f"| {name} | {statistics.median(seconds):.2f} | {limit} |")
    text = "\n".join(lines)
    print(text)
    race.save_section("Start-up", text)


def first_step(file):
    """Seconds that the first step of a model takes longer than its second: tracing and optimizing the graph."""
    runner = race.Runner(race.Contender("bert_tf", "race_bert_tf.py", (f"--work={file}",)), sys.executable)
    first, second = runner.once()["seconds"], runner.once()["seconds"]
    runner.close()
    return first - second


if __name__ == "__main__":
    main()

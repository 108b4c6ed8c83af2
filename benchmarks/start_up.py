"""Measures start-up: the console script's --help, a single text, and the extra time of the first training step.

    python benchmarks/start_up.py --work_dir=FOLDER
    python benchmarks/start_up.py --export=runs/classifier

Runs each command --rounds times, in turns, and writes the table to benchmarks/README.md. With --export it prints how
long an answer takes by TensorFlow and by each engine that the export has a model for: the first of a server, with its
memory, the first in Python, and one from the shell.
"""

import argparse
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

import race
import training_step

from bert_tf.export import about_file, engine_network, loaded_model

LIMITS = {"command": 0.5, "text": 3.0, "first step": 10.0}  # seconds
COMMANDS = ("--help", "convert --help", "vocabulary --help", "predict --help", "evaluate --help", "serve --help")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--work_dir", type=pathlib.Path)
    place.add_argument("--export", help="folder of an export or a run that takes one text")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.export:
        compare_engines(loaded_model.find(arguments.export), arguments.rounds)
        return
    arguments.work_dir.mkdir(parents=True, exist_ok=True)
    seconds_by_name = timed([command.split() for command in COMMANDS], arguments.rounds)
    for name in ("pretraining", "fine_tuning"):
        what, make = training_step.WORKS[name]
        file = arguments.work_dir / f"{name}.json"
        file.write_text(json.dumps(make(arguments)))
        title = f"first training step, extra time: {what}, BERT-base"
        seconds_by_name[title] = [first_step(file) for _ in range(3)]
    text = table(seconds_by_name)
    print(text)
    race.save_section("Start-up", text)


def compare_engines(export, rounds):
    """Prints first answers of an export by each of its engines."""
    names = ["tensorflow", *engine_network.available(export)]
    print("| engine | server, s | its memory, MB | `bert_tf.load` and a text, s |\n|---|---:|---:|---:|")
    for name in names:
        call = "embed" if export_makes_vectors(export) else "predict"
        code = f"import bert_tf; bert_tf.load({export!r}, engine={name!r}).{call}('A text.')"
        python, (first, memory) = [], zip(*(first_of_server(export, name) for _ in range(rounds)), strict=True)
        for _ in range(rounds):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
            python.append(time.perf_counter() - start)
        first, memory, python = map(statistics.median, (first, memory, python))
        print(f"| {name} | {first:.2f} | {memory:.0f} | {python:.2f} |", flush=True)
    if not export_makes_vectors(export):
        predict = ["predict", export, "--text=A text."]
        print(table(timed([[*predict, f"--engine={name}"] for name in names], rounds)))


def export_makes_vectors(export):
    """Whether an export answers with vectors."""
    return about_file.read(export).get("kind") == "vectors"


def first_of_server(export, engine):
    """Seconds from the start of `bert-tf serve` to its first answer, and its resident memory then, MB."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["serve", f"m={export}", f"--engine={engine}", f"--port={port}"]
    start = time.perf_counter()
    server = subprocess.Popen(
        [sys.executable, "-m", "bert_tf", *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    body = json.dumps({"instances": ["A text."]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models/m:predict", data=body)
    request.add_header("Content-Type", "application/json")
    while server.poll() is None:
        try:
            with urllib.request.urlopen(request) as answer:
                answer.read()
            break
        except urllib.error.HTTPError as error:
            server.kill()
            sys.exit(error.read().decode())
        except OSError:
            time.sleep(0.01)
    seconds = time.perf_counter() - start
    lines = pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines()
    (resident,) = (int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
    server.kill()
    server.wait()
    return seconds, resident


def timed(commands, rounds):
    """{command: seconds of each round}."""
    seconds_by_name = {f"bert-tf {' '.join(command)}": [] for command in commands}
    for _ in range(rounds):
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

"""Calibration of models trained on small tables with the default recipe: expected calibration error and Brier score.

  python benchmarks/calibration.py run DATA CHECKPOINT cells.jsonl --sets=SST-2,novels --rows=64,300,2000
  python benchmarks/calibration.py table cells.jsonl

DATA, CHECKPOINT and the sets are those of small_tables.py. Each cell trains on a random sample of so many rows and
scores the probabilities of 800 others, with the temperature that the recipe chose and without it. The Brier score is
the squared distance between the probabilities and the right answer, summed over the classes. A cell that cells.jsonl
has is not run again. Of the multi-label set each label of each row counts as one answer of two classes.
"""

import argparse
import collections
import csv
import json
import pathlib
import random
import statistics
import tempfile

import numpy as np
import small_tables

TESTED = 800


def measure(train, test, checkpoint: str, *, several: bool) -> dict[str, float]:
    """Trains on rows; the scores of the answers to others."""
    import bert_tf

    columns = ["first", "second"][: len(train[0][0])]
    options = {"label_type": "multi_label", "label_separator": small_tables.SEPARATOR} if several else {}
    with tempfile.TemporaryDirectory() as folder:
        table, run_folder = pathlib.Path(folder, "table.csv"), pathlib.Path(folder, "run")
        with open(table, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([[*columns, "label"], *([*texts, label] for texts, label in train)])
        run = bert_tf.fine_tune(
            str(table),
            text=columns,
            label="label",
            max_seq_length=small_tables.LENGTH,
            output_dir=str(run_folder),
            init_checkpoint=checkpoint,
            do_export=False,
            **options,
        )
        temperature = json.loads((run_folder / "task.json").read_text())["calibration"].get("temperature", 1.0)
        answers = run.load().predict([texts if len(texts) > 1 else texts[0] for texts, _ in test])
    names = list(answers[0].probabilities)
    shares = np.array([[answer.probabilities[name] for name in names] for answer in answers])
    right = np.array([[name in label.split(small_tables.SEPARATOR) for name in names] for _, label in test])
    if several:
        shares, right = np.stack([shares, 1 - shares], -1).reshape(-1, 2), np.stack([right, ~right], -1).reshape(-1, 2)
    plain = np.maximum(shares, 1e-38) ** temperature
    plain /= plain.sum(1, keepdims=True)
    values = {
        "temperature": round(temperature, 3),
        "accuracy": float(right[range(len(right)), shares.argmax(1)].mean()),
    }
    return values | _scores("with", shares, right) | _scores("without", plain, right)


def _scores(name: str, shares: np.ndarray, right: np.ndarray) -> dict[str, float]:
    from bert_tf.training import confidence

    is_right = right[range(len(right)), shares.argmax(1)]
    error = confidence.expected_calibration_error(shares.max(1), is_right)
    return {f"error_{name}": float(error), f"brier_{name}": float(((shares - right) ** 2).sum(1).mean())}


def run(arguments: argparse.Namespace) -> None:
    """Runs the cells that are missing and adds a line for each."""
    done = {(cell["set"], cell["rows"], cell["seed"]) for cell in small_tables.read_cells(arguments.cells)}
    sets = small_tables.read_sets(pathlib.Path(arguments.data))
    for seed in map(int, arguments.seeds.split(",")):
        for size in map(int, arguments.rows.split(",")):
            for name in arguments.sets.split(","):
                if (name, size, seed) in done:
                    continue
                rows = random.Random(seed).sample(sets[name], min(size + TESTED, len(sets[name])))
                values = measure(rows[TESTED:], rows[:TESTED], arguments.checkpoint, several=name == "entities")
                with open(arguments.cells, "a", encoding="utf-8") as file:
                    print(json.dumps({"set": name, "rows": size, "seed": seed, **values}), file=file)


def table(arguments: argparse.Namespace) -> None:
    """Prints the means over the samples as Markdown."""
    cells = collections.defaultdict(list)
    for cell in small_tables.read_cells(arguments.cells):
        cells[cell["set"], cell["rows"]].append(cell)
    names = ("accuracy", "temperature", "error_without", "error_with", "brier_without", "brier_with")
    print(f"| set | rows | samples | {' | '.join(names)} |\n|---|---:|---:|{'---:|' * len(names)}")
    for (name, size), found in sorted(cells.items()):
        means = " | ".join(f"{statistics.mean(cell[key] for cell in found):.3f}" for key in names)
        print(f"| {name} | {size} | {len(found)} | {means} |")


def main() -> None:
    """Parses the command line."""
    running = small_tables.Commands(__doc__, run, table)
    running.add_argument("--sets", default="SST-2,MRPC,novels,entities")
    running.add_argument("--rows", default="64,300,2000")
    running.add_argument("--seeds", default="1,2,3", help="numbers of the samples")
    running.call()


if __name__ == "__main__":
    main()

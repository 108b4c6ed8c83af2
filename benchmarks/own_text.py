"""Pre-training your own text: the default recipe beside BERT's own and `--recipe=budget`, in the same time.

  python benchmarks/own_text.py run CORPORA cells.jsonl --megabytes=0.4,2,100 --minutes=3
  python benchmarks/own_text.py table cells.jsonl

CORPORA has a folder of text files for each corpus. Each cell pre-trains on files in a random order, up to that many
megabytes. The recipes share the size of the model and the vocabulary that the default chose, and score the same
held-out text, so they differ only in training. The table has the masked LM loss after the budget, and in parentheses
how far it is below the loss of guessing by frequency. Cells that are already in cells.jsonl are not run again.
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import small_tables

RECIPES = ("default", "google", "budget")


def sample(corpus: pathlib.Path, folder: pathlib.Path, size: int) -> None:
    """Copies files in a random order, up to that many characters."""
    files = sorted(path for path in corpus.iterdir() if path.is_file())
    random.Random(0).shuffle(files)
    for path in files:
        text = path.read_text("utf-8-sig")[:size]
        size -= len(text)
        if text:
            (folder / path.name).write_text(text, "utf-8")


def pretrain(texts: pathlib.Path, run: pathlib.Path, minutes: float, *flags: str) -> dict[str, float]:
    """The results of a command."""
    flags = (f"--output_dir={run}", f"--budget_minutes={minutes}", "--do_export=false", *flags)
    subprocess.run([sys.executable, "-m", "bert_tf", "pretrain", str(texts), *flags], check=True)
    return json.loads((run / "eval_results.json").read_text())


def run(arguments: argparse.Namespace) -> None:
    """Runs the cells that are missing and adds a line for each."""
    names = ("corpus", "megabytes", "recipe", "minutes")
    done = {tuple(cell[name] for name in names) for cell in small_tables.read_cells(arguments.cells)}
    for corpus in sorted(path for path in pathlib.Path(arguments.corpora).iterdir() if path.is_dir()):
        for megabytes in map(float, arguments.megabytes.split(",")):
            keys = {recipe: (corpus.name, megabytes, recipe, arguments.minutes) for recipe in RECIPES}
            if done >= set(keys.values()):
                continue
            with tempfile.TemporaryDirectory() as temporary:
                texts, shared = pathlib.Path(temporary, "texts"), []
                texts.mkdir()
                sample(corpus, texts, int(megabytes * 1e6))
                for recipe, key in keys.items():
                    folder = pathlib.Path(temporary, recipe)
                    named = [] if recipe == "default" else [f"--recipe={recipe}"]
                    found = pretrain(texts, folder, arguments.minutes, *shared, *named)
                    chosen = json.loads((folder / "run.json").read_text())["flags"]
                    shared = [f"--{name}={chosen[name]}" for name in ("model_size", "vocab_size")]
                    cell = dict(zip(names, key, strict=True)) | {"model_size": chosen["model_size"]}
                    cell |= {"loss": found["masked_lm_loss"], "unigram": found["unigram_masked_lm_loss"]}
                    with open(arguments.cells, "a", encoding="utf-8") as file:
                        print(json.dumps(cell), file=file)


def table(arguments: argparse.Namespace) -> None:
    """Prints the cells as Markdown."""
    rows = collections.defaultdict(dict)
    for cell in small_tables.read_cells(arguments.cells):
        key = cell["corpus"], cell["megabytes"], cell["minutes"], cell["model_size"]
        rows[key][cell["recipe"]] = f"{cell['loss']:.2f} ({cell['unigram'] - cell['loss']:+.2f})"
    print(f"| corpus | MB | minutes | size | {' | '.join(RECIPES)} |\n|---|---:|---:|---|{'---:|' * len(RECIPES)}")
    for (corpus, megabytes, minutes, size), found in rows.items():
        values = " | ".join(found.get(recipe, "") for recipe in RECIPES)
        print(f"| {corpus} | {megabytes:g} | {minutes:g} | {size} | {values} |")


def main() -> None:
    """Parses the command line."""
    running = small_tables.Commands(__doc__, run, table, given=("corpora",))
    running.add_argument("--megabytes", default="0.4,2,100", help="most text of each corpus")
    running.add_argument("--minutes", type=float, default=3.0, help="time of each training")
    running.call()


if __name__ == "__main__":
    main()

"""What gpu.py does besides races: sentences for them, and run_classifier.py as a user starts it."""

import csv
import json
import pathlib
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MEAN_WORDS, MAX_WORDS = 19, 60  # of SST-2's sentences
STEPS = 1000  # of SST-2


def sentences(path, count, vocab_size):
    """A vocabulary of `vocab_size` tokens, and `count` sentences: of a table with a column `sentence`, or random words.

    The words of the table are the first tokens of the vocabulary, so that both sides split them alike.
    """
    fill = [f"w{number}" for number in range(vocab_size)]
    if path:
        with open(path, encoding="utf-8", newline="") as file:
            texts = [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
        texts = [texts[number % len(texts)].lower() for number in range(count)]
        fill = list(dict.fromkeys(word for text in texts for word in text.split())) + fill
    else:
        draws = np.random.default_rng(0)
        sizes = draws.gamma(3, MEAN_WORDS / 3, count).clip(2, MAX_WORDS).astype(int)
        texts = [" ".join(draws.choice(fill[: vocab_size // 2], size)) for size in sizes]
    return [*SPECIAL, *fill][:vocab_size], texts


def runs(arguments):
    """{name: flags of run_classifier.py}."""
    device = [f"--device={arguments.device}"]
    small = ["--model_size=tiny", "--num_train_epochs=0.05"] if arguments.tiny else []
    named = {"run_classifier demonstration": [*device, *small]}
    if arguments.glue_dir:
        start = [f"--init_checkpoint={arguments.init_checkpoint}"] if arguments.init_checkpoint else []
        for task, flags in (("MRPC", ["--num_train_epochs=3"]), ("SST-2", epochs_of(arguments, STEPS))):
            data = [f"--task_name={task}", f"--data_dir={arguments.glue_dir}/{task}"]
            named[f"run_classifier {task}"] = [*device, *data, *start, *([] if arguments.tiny else flags), *small]
    return named


def epochs_of(arguments, steps, batch=32):
    """The flag for so many steps of SST-2."""
    with open(pathlib.Path(arguments.glue_dir, "SST-2", "train.tsv"), "rb") as file:
        rows = sum(1 for _ in file) - 1
    return [f"--num_train_epochs={steps * batch / rows}"]


def run(flags, folder):
    """{"seconds", "phases", "scores", "tokens_per_second"} of a run; the last is the median after the first lines."""
    command = [sys.executable, str(ROOT / "run_classifier.py"), *flags, f"--output_dir={folder}"]
    start = time.perf_counter()
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        raise SystemExit(f"This failed, its output is above: {' '.join(command)}")
    seconds = time.perf_counter() - start
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rates = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    return {
        "command": " ".join(["python", "run_classifier.py", *flags]),
        "seconds": seconds,
        "phases": json.loads((folder / "run.json").read_text(encoding="utf-8"))["phases"],
        "scores": json.loads((folder / "eval_results.json").read_text(encoding="utf-8")),
        "tokens_per_second": float(np.median(rates[len(rates) // 2 :])),
    }


def table(result):
    """Markdown: seconds of the process and of its phases, scores, and tokens per second."""
    rows = [("whole process, s", result["seconds"]), *((f"{name}, s", x) for name, x in result["phases"].items())]
    rows += [("tokens/s", result["tokens_per_second"]), *result["scores"].items()]
    return "\n".join(
        [f"`{result['command']}`\n", "| | |", "|---|---:|", *(f"| {name} | {x:,.2f} |" for name, x in rows)]
    )

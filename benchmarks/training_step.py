"""A training step of BERT beside its peers on this machine: pre-training, fine-tuning, and on texts of real lengths.

    python benchmarks/training_step.py --vocab_file=vocab.txt --sentences=train.tsv --work_dir=FOLDER

Random weights, dropout of 0.1, AdamW, gradients clipped to a norm of 1; see encoder.py. keras_hub has no next-sentence
prediction, so it learns masked LM alone. Of texts of real lengths a turn is four steps. Peers pad them to the longest
of their batch, as their own collators do.
"""

import argparse
import csv
import json
import pathlib

import race
from encoder import BATCH, VOCAB_SIZE, contenders, random_ids

STEPS = 4  # of a turn, on texts of real lengths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("vocab_file", "sentences", "work_dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--size", default="base")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--peers", default="keras_hub,torch")
    given = parser.parse_args()
    for name in given.works.split(","):
        file = pathlib.Path(given.work_dir) / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(WORKS[name](given)))
        told = race.table(race.race(contenders(given, file), given.rounds, given.work_dir))
        print(f"{TITLES[name]}\n{told}", flush=True)
        race.keep(f"Training, {given.size}: {TITLES[name]}", told)


def pretraining(given):
    return {
        "kind": "pretrain",
        "vocab_size": VOCAB_SIZE,
        "batches": [random_ids([128] * 16)],
        "slots": 128,
        "guesses": 20,
    }


def fine_tuning(given):
    return {"kind": "fine_tune", "vocab_size": VOCAB_SIZE, "batches": [random_ids([128] * BATCH)], "slots": 128}


def real_lengths(given):
    import tokenizers

    tokenizer = tokenizers.BertWordPieceTokenizer(given.vocab_file)
    with open(given.sentences, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        texts = [row["sentence"] for row, _ in zip(rows, range(STEPS * BATCH), strict=False)]
    ids = [encoded.ids[:128] for encoded in tokenizer.encode_batch(texts)]
    batches = [ids[first : first + BATCH] for first in range(0, len(ids), BATCH)]
    return {"kind": "fine_tune", "vocab_size": VOCAB_SIZE, "batches": batches, "slots": 128}


WORKS = {"pretraining": pretraining, "fine_tuning": fine_tuning, "real_lengths": real_lengths}
TITLES = {
    "pretraining": "pre-training, 16 rows of 128 with 20 guesses",
    "fine_tuning": "fine-tuning, 32 rows of 128",
    "real_lengths": f"fine-tuning, {STEPS} batches of 32 sentences",
}

if __name__ == "__main__":
    main()

"""BERT's encoder beside its peers on this machine: batches, single texts, short sentences, windows of questions.

    python benchmarks/encoder.py --vocab_file=vocab.txt --sentences=dev.tsv --work_dir=FOLDER

Random weights, peers in environments of their own (made in FOLDER the first time), turns interleaved; see race.py.
--sentences: a table with a column `sentence`, SST-2's for instance. Writes the tables to benchmarks/README.md.
"""

import argparse
import csv
import json
import pathlib

import numpy as np
import race

VOCAB_SIZE, BATCH = 30522, 32


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("vocab_file", "sentences", "work_dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--size", default="base")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--peers", default="keras_hub,torch,openvino")
    given = parser.parse_args()
    for name in given.works.split(","):
        work = WORKS[name](given)
        file = pathlib.Path(given.work_dir) / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(work))
        runners = race.race(contenders(given, file), given.rounds, given.work_dir)
        told = race.table(runners)
        print(f"{TITLES[name]}\n{told}", flush=True)
        race.keep(f"Encoder, {given.size}: {TITLES[name]}", told)


def contenders(given, file):
    flags = (f"--work={file}", f"--size={given.size}")
    peers = [race.Contender(name, f"race_{name}.py", flags, name) for name in given.peers.split(",")]
    return [race.Contender("bert_tf", "race_bert_tf.py", flags), *peers]


def random_ids(lengths):
    """Texts of these lengths, of pieces that are neither special nor unused."""
    draws = np.random.default_rng(0)
    return [draws.integers(1000, VOCAB_SIZE, length).tolist() for length in lengths]


def encoding(lengths, slots):
    return {
        "kind": "encode",
        "vocab_size": VOCAB_SIZE,
        "texts": random_ids(lengths),
        "slots": slots,
        "batch_size": BATCH,
    }


def sentences(given):
    with open(given.sentences, encoding="utf-8", newline="") as file:
        texts = [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][:128]
    work = {"kind": "classify", "vocab_size": VOCAB_SIZE, "texts": texts, "slots": 128, "batch_size": BATCH}
    return work | {"vocab_file": given.vocab_file}


def question_windows(given):
    lengths = np.random.default_rng(0).normal(162, 55, 16).clip(60, 384).astype(int)
    return encoding(lengths, 384)


WORKS = {
    "batch": lambda given: encoding([128] * 32, 128),
    "single": lambda given: encoding([128], 128),
    "sentences": sentences,
    "windows": question_windows,
}
TITLES = {
    "batch": "32 texts of 128 pieces",
    "single": "one text of 128 pieces",
    "sentences": "128 short sentences, from strings to logits",
    "windows": "16 windows of 60 to 384 pieces, 162 on average",
}

if __name__ == "__main__":
    main()

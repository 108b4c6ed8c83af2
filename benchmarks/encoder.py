"""Speed of BERT's encoder and of other implementations: batches, single texts, short sentences, question windows.

    python benchmarks/encoder.py --vocab_file=vocab.txt --sentences=dev.tsv --work_dir=FOLDER

Random weights; other implementations in environments of their own (created in FOLDER the first time), rounds
interleaved; see race.py. --sentences: a table with a column `sentence`, such as SST-2's. Writes the tables to
benchmarks/README.md.
"""

import csv

import numpy as np
import race

VOCAB_SIZE, BATCH = 30522, 32


def random_ids(lengths):
    """Texts of these lengths, of random tokens that are neither special nor unused."""
    draws = np.random.default_rng(0)
    return [draws.integers(1000, VOCAB_SIZE, length).tolist() for length in lengths]


def encoding(lengths, seq_length):
    return {
        "kind": "encode",
        "vocab_size": VOCAB_SIZE,
        "texts": random_ids(lengths),
        "seq_length": seq_length,
        "batch_size": BATCH,
    }


def sentences(arguments):
    with open(arguments.sentences, encoding="utf-8", newline="") as file:
        texts = [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][:128]
    work = {"kind": "classify", "vocab_size": VOCAB_SIZE, "texts": texts, "seq_length": 128, "batch_size": BATCH}
    return work | {"vocab_file": arguments.vocab_file}


def question_windows(arguments):
    lengths = np.random.default_rng(0).normal(162, 55, 16).clip(60, 384).astype(int)
    return encoding(lengths, 384)


WORKS = {
    "batch": ("32 texts of 128 tokens", lambda arguments: encoding([128] * 32, 128)),
    "single": ("one text of 128 tokens", lambda arguments: encoding([128], 128)),
    "sentences": ("128 short sentences, from strings to logits", sentences),
    "windows": ("16 windows of 60 to 384 tokens, 162 on average", question_windows),
}

if __name__ == "__main__":
    race.run(__doc__, "Encoder", WORKS, peers="keras_hub,torch,openvino", rounds=7)

"""Speed of a training step of BERT and of other implementations: pre-training, fine-tuning, texts of real lengths.

    python benchmarks/training_step.py --vocab_file=vocab.txt --sentences=train.tsv --work_dir=FOLDER

Random weights, dropout of 0.1, AdamW, gradients clipped to a norm of 1; see encoder.py. keras_hub has no next-sentence
prediction, so it trains masked LM only. With texts of real lengths a round is four steps. The others pad them to the
longest of their batch, as their own collators do.
"""

import csv

import race
from encoder import BATCH, VOCAB_SIZE, random_ids

STEPS = 4  # of a turn, on texts of real lengths


def pretraining(arguments):
    return {
        "kind": "pretrain",
        "vocab_size": VOCAB_SIZE,
        "batches": [random_ids([128] * 16)],
        "seq_length": 128,
        "num_predictions": 20,
    }


def fine_tuning(arguments):
    return {"kind": "fine_tune", "vocab_size": VOCAB_SIZE, "batches": [random_ids([128] * BATCH)], "seq_length": 128}


def real_lengths(arguments):
    import tokenizers

    tokenizer = tokenizers.BertWordPieceTokenizer(arguments.vocab_file)
    with open(arguments.sentences, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        texts = [row["sentence"] for row, _ in zip(rows, range(STEPS * BATCH), strict=False)]
    ids = [encoded.ids[:128] for encoded in tokenizer.encode_batch(texts)]
    batches = [ids[first : first + BATCH] for first in range(0, len(ids), BATCH)]
    return {"kind": "fine_tune", "vocab_size": VOCAB_SIZE, "batches": batches, "seq_length": 128}


WORKS = {
    "pretraining": ("pre-training, 16 rows of 128 with 20 predictions", pretraining),
    "fine_tuning": ("fine-tuning, 32 rows of 128", fine_tuning),
    "real_lengths": (f"fine-tuning, {STEPS} batches of 32 sentences", real_lengths),
}

if __name__ == "__main__":
    race.run(__doc__, "Training", WORKS, peers="keras_hub,torch", rounds=5)

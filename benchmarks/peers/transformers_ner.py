"""Fine-tunes a BERT on tagged words with Hugging Face transformers and torch, for ner_reproduction.py.

    python transformers_ner.py --checkpoint=FOLDER --data=FOLDER --epochs=3 --seed=1 --precision=float32 --output=FILE

The data folder holds train.jsonl, dev.jsonl and test.jsonl, {"words": [...], "labels": [numbers]} per line, and
labels.json with their names. The recipe of the library's own example: labels on first tokens of words, rows padded
to the longest of their batch; AdamW, weight decay 0.01 except for LayerNorm and biases, a tenth of the steps of
warm-up, then linear decay, clipping at 1. Writes {"tags": {"testa": rows, "testb": rows}, "seconds": of training} as
JSON; with --max_steps no tags and the seconds of every step; with --start=FOLDER instead of --output what the seed
determines: the model before the first step, and order.json, the row numbers of each batch.
"""

import json

import torch
import transformers
from transformers_glue import BATCH, computing_in, order_of, parse, parser_of, read, train, write_start

MAX_LENGTH, IGNORED = 512, -100
SETS = {"testa": "dev", "testb": "test"}


def inputs_of(tokenizer, rows):
    """The inputs of rows, and [(row, position of the first token, word)] of all words."""
    inputs = tokenizer(
        [row["words"] for row in rows],
        is_split_into_words=True,
        truncation=True,
        max_length=MAX_LENGTH,
        padding=True,
        return_tensors="pt",
    )
    firsts = []
    for row in range(len(rows)):
        before = None
        for position, word in enumerate(inputs.word_ids(row)):
            if word is not None and word != before:
                firsts.append((row, position, word))
            before = word
    return inputs, firsts


def labels_of(rows, inputs, firsts):
    labels = torch.full(inputs["input_ids"].shape, IGNORED)
    for row, position, word in firsts:
        labels[row, position] = rows[row]["labels"][word]
    return labels


def predict(model, tokenizer, rows, names, precision):
    """The tags of each row; O for words after the last token that fits."""
    model.eval()
    tags = [["O"] * len(row["words"]) for row in rows]
    for first in range(0, len(rows), BATCH):
        inputs, firsts = inputs_of(tokenizer, rows[first : first + BATCH])
        with torch.no_grad(), computing_in(precision):
            predictions = model(**inputs).logits.argmax(-1)
        for row, position, word in firsts:
            tags[first + row][word] = names[predictions[row, position]]
    return tags


def main():
    arguments = parse(parser_of(__doc__))
    names = json.loads((arguments.data / "labels.json").read_text())
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.checkpoint)
    model = transformers.AutoModelForTokenClassification.from_pretrained(arguments.checkpoint, num_labels=len(names))
    rows = read(arguments.data / "train.jsonl")
    batches = order_of(len(rows), arguments.epochs, arguments.seed, arguments.train_batch_size)
    if arguments.start:
        return write_start(arguments, model, batches)

    def inputs_of_batch(numbers):
        batch = [rows[number] for number in numbers]
        inputs, firsts = inputs_of(tokenizer, batch)
        return {**inputs, "labels": labels_of(batch, inputs, firsts)}

    seconds = train(model, inputs_of_batch, batches, arguments)
    results = {"tags": {}, "seconds": seconds}
    if not arguments.max_steps:
        results["seconds"] = sum(seconds)
        for name, split in SETS.items():
            rows_of_split = read(arguments.data / f"{split}.jsonl")
            results["tags"][name] = predict(model, tokenizer, rows_of_split, names, arguments.precision)
    arguments.output.write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Rows per second that the input pipeline of fine-tuning delivers, without a model: what a GPU can be fed with.

    python benchmarks/input_pipeline.py --sentences=train.tsv --vocab_file=vocab.txt

Reads the column "sentence" of a table as of SST-2, and counts rows, positions (rows of --max_seq_length) and tokens.
"""

import argparse
import csv
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", required=True, help="a .tsv file with a column named sentence")
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    batches = training_batches(arguments)
    next(batches)  # traces the functions
    rows = tokens = 0
    start = time.perf_counter()
    while time.perf_counter() - start < arguments.seconds:
        lengths = next(batches)["lengths"].numpy()
        rows, tokens = rows + len(lengths), tokens + lengths.sum()
    seconds = time.perf_counter() - start
    positions = rows * arguments.max_seq_length
    print(f"{rows / seconds:,.0f} rows/s, {positions / seconds:,.0f} positions/s, {tokens / seconds:,.0f} tokens/s")


def training_batches(arguments):
    """The iterator that the training loop reads."""
    from bert_tf.data.examples import Example
    from bert_tf.data.pipeline import iterate
    from bert_tf.tasks.text_classification.classification import TextClassification
    from bert_tf.tasks.text_classification.goals.classes import Classes
    from bert_tf.text.tokenizer import Tokenizer

    with open(arguments.sentences, encoding="utf-8", newline="") as file:
        texts = [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    examples = [Example(str(number), (text,), str(number % 2), "") for number, text in enumerate(texts)]
    tokenizer = Tokenizer.from_file(arguments.vocab_file, lower_case=True)
    goal, splits = Classes(["0", "1"]), {"train": lambda: examples}
    task = TextClassification("sentences", splits, goal, tokenizer, max_seq_length=arguments.max_seq_length)
    return iterate(task.train_batches(arguments.batch_size, 1))


if __name__ == "__main__":
    main()

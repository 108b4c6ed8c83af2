"""Compares the tokenizers without TensorFlow with those in the graph; exit code 1 if any text differs.

python benchmarks/host_tokenizers.py [--kinds=uncased,deberta] [--random=100000] [--vocab=vocab.txt]

Prints a row for each kind: texts with every assigned character of Unicode (three times, in and after a word), random
strings of difficult characters, and how many of them differ in tokens or offsets. --vocab: of the kinds of WordPiece,
instead of a small one.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import host_tokenizer_cases as cases  # noqa: E402

from bert_tf.text import vocabulary  # noqa: E402

BLOCK, SHOWN = 20_000, 5  # texts at once, differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(cases.CASES), help="comma-separated (all)")
    parser.add_argument("--random", type=int, default=100_000, help="random strings (100000)")
    parser.add_argument("--vocab", help="vocab.txt for uncased and cased")
    arguments = parser.parse_args()
    assigned, total = [f"a{c}b c{c}" for c in cases.ASSIGNED], 0
    mixed = cases.mixtures(arguments.random)
    print("| kind | assigned characters | random strings | differences |\n|---|---:|---:|---:|")
    for kind in arguments.kinds.split(","):
        words = vocabulary.read(arguments.vocab) if arguments.vocab and kind in ("uncased", "cased") else None
        graph, host = cases.tokenizers(kind, words)
        texts, count = [*cases.HARD, *assigned, *mixed], 0
        for start in range(0, len(texts), BLOCK):
            found = cases.differences(graph, host, texts[start : start + BLOCK])
            count += len(found)
            for each in found[:SHOWN]:
                print(*map(ascii, each), sep="\n  ", file=sys.stderr)
        print(f"| {kind} | {len(assigned):,} | {len(mixed):,} | {count} |", flush=True)
        total += count
    sys.exit(total > 0)


if __name__ == "__main__":
    main()

"""Finds hard negatives in an index: texts that are near a query and do not answer it, to train on.

  bert-tf mine pairs.csv triplets.jsonl --index=my_index --text_columns=question,passage --negatives=3
  bert-tf mine pairs.csv judged.jsonl --index=my_index --text_columns=question,passage --judged --margin=0.05

PAIRS is a table of queries and texts that answer them. OUTPUT, JSON lines, has the same columns with
negative_1, negative_2, ... for the task triplets, or with --judged a row for each text with label 1 or 0, for rerankers
(label_type=relevance). Pairs with fewer negatives than asked for are left out, and counted.
"""

import argparse
import json

from bert_tf.cli import shared_flags
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.data import examples
from bert_tf.errors import UserError, count_text
from bert_tf.extras.search import mining, search_flags
from bert_tf.extras.search.mining import MiningOptions
from bert_tf.runtime import atomic_files
from bert_tf.runtime.progress import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pairs", metavar="PAIRS", help="table of queries and texts that answer them")
    parser.add_argument("output", metavar="OUTPUT", help="file to write, .jsonl")
    parser.add_argument("--index", required=True, help="folder of the index")
    parser.add_argument("--text_columns", default="query,text", metavar="NAMES", help="columns of PAIRS (query,text)")
    parser.add_argument("--negatives", type=int, default=1, help="negatives for each pair (1)")
    parser.add_argument(
        "--margin", type=float, default=0.0, help="how much less than the positive a negative must score; -2: any (0)"
    )
    parser.add_argument("--skip", type=int, default=0, help="nearest texts to skip, which may be answers (0)")
    parser.add_argument("--depth", type=int, default=100, help="nearest texts to consider (100)")
    parser.add_argument("--judged", action="store_true", help="write a row for each text, with a label")
    parser.add_argument("--reranker", default="", metavar="MODEL", help="cross-encoder whose scores decide")
    parser.add_argument("--reranker_label", default="", metavar="LABEL", help="the class that means a match")
    shared_flags.add_devices(parser)
    shared_flags.add_trust(parser)


def run(arguments: argparse.Namespace) -> None:
    shared_flags.set_up(arguments)
    options = MiningOptions(
        negatives=arguments.negatives, margin=arguments.margin, skip=arguments.skip, depth=arguments.depth
    )
    options.check()
    names = tuple(comma_separated(arguments.text_columns))
    if len(names) != 2:
        raise UserError(f"text_columns is {arguments.text_columns!r}; expected QUERY,TEXT.")
    if not arguments.output.endswith(".jsonl"):
        raise UserError(f"output is {arguments.output}; expected a name that ends in .jsonl.")
    atomic_files.check_place(arguments.output)
    pairs = [(row.texts[0], row.texts[1]) for row in examples.read(arguments.pairs, texts=names)]
    arguments.method, arguments.exact = "vectors", False
    index = search_flags.index_of(arguments, arguments.index)
    rows = list(counted(mining.mine(index, pairs, options, index.reranker), "mining pairs", len(pairs)))
    write = mining.judged if arguments.judged else mining.columns
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in write(rows, (names[0], names[1])))
    atomic_files.write_lines(arguments.output, lines)
    print(
        f"{len(rows):,} of {len(pairs):,} pairs have {count_text(options.negatives, 'negative')}: {arguments.output}."
    )

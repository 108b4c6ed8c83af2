"""Finds the texts of an index that are nearest to a query.

  bert-tf search my_index "How do I raise an exception?"
  bert-tf search my_index --file=queries.txt --top=5 --json
  bert-tf search my_index "Who wrote it?" --reranker=runs/qnli --reranker_label=entailment

INDEX is a folder that `bert-tf index` wrote. Every text is compared, unless the index was prepared for approximate
search. With --reranker, a model of pairs ranks the nearest hundred anew; its export is a program: load only what you
trust. Those that read or write files are refused.
"""

import argparse
import itertools
import json
import textwrap
from collections.abc import Iterator

from bert_tf.cli import shared_flags
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.errors import UserError
from bert_tf.export import prediction_inputs
from bert_tf.extras.search import search_flags

WIDTH = 100  # of a printed text
AT_ONCE = 64  # queries per batch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("index", metavar="INDEX", help="folder of the index")
    parser.add_argument("query", nargs="?", metavar="QUERY", help="what to find")
    parser.add_argument("--file", help="several queries: .txt, a table, or - for standard input")
    parser.add_argument("--text_columns", default="", metavar="NAME", help="column of a table with the query (text)")
    parser.add_argument("--top", type=int, default=10, help="texts to print per query (10)")
    search_flags.add_arguments(parser)
    parser.add_argument("--model", default="", help="folder of the index's model, if it has moved")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    shared_flags.add_inference(parser)


def run(arguments: argparse.Namespace) -> None:
    shared_flags.set_up(arguments)
    if (arguments.query is None) == (arguments.file is None):
        raise UserError("Pass one query, or several as --file.")
    if arguments.top < 1:
        raise UserError(f"top is {arguments.top}; expected 1 or more.")
    if arguments.file is not None:
        prediction_inputs.check_readable(arguments.file)
    elif not arguments.query.strip():
        raise UserError("The query is empty; expected some words.")
    index = search_flags.index_of(arguments, arguments.index, arguments.model)
    queries = _queries(arguments)
    while batch := list(itertools.islice(queries, AT_ONCE)):
        for query, hits in zip(batch, index.search_all(batch, arguments.top), strict=True):
            if arguments.json:
                row = {"query": query, "hits": [hit.as_json() for hit in hits]}
                print(json.dumps(row, ensure_ascii=False), flush=True)
                continue
            if arguments.file is not None:
                print(query)
            for hit in hits:
                print(f"{hit.score:7.4f}  {hit.id:>8}  {textwrap.shorten(hit.text, WIDTH)}", flush=True)


def _queries(arguments: argparse.Namespace) -> Iterator[str]:
    """Yields the queries; UserError for an empty one."""
    if arguments.file is None:
        yield arguments.query
        return
    columns = comma_separated(arguments.text_columns)
    for example in prediction_inputs.read(arguments.file, {"text": None}, columns=columns):
        if not example.texts[0].strip():
            raise UserError(f"In {example.location} the query is empty: remove it.")
        yield example.texts[0]

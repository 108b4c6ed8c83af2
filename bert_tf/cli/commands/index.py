"""Makes an index of texts, in which `bert-tf search` finds those nearest to a query.

  bert-tf index texts.txt my_index --model=all-minilm-l6-v2
  bert-tf index articles.jsonl my_index --model=runs/pairs --text_columns=body --id_column=url

TEXTS is .txt (one text per line) or a table (.tsv, .csv, .jsonl, .json, .xlsx or .parquet) with a column "text". MODEL
is a checkpoint in any format, a run or an export; a folder of sentence-transformers says how its vectors are pooled. A
command that was killed continues when it is started again. Above a million texts approximate search is prepared too,
which needs `pip install "bert-tf[search]"`.
"""

import argparse
import json
import time

from bert_tf.cli import device_flags
from bert_tf.errors import Interrupted, UserError
from bert_tf.runtime import process
from bert_tf.search import building
from bert_tf.tasks.embeddings.vector_choice import POOLINGS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("texts", metavar="TEXTS", help="texts to find: .txt, or a table")
    parser.add_argument("index", metavar="INDEX", help="folder to write")
    parser.add_argument("--model", required=True, help="checkpoint, run or export that makes the vectors")
    parser.add_argument("--pooling", choices=POOLINGS, help="how tokens become a vector (as in MODEL, else mean)")
    parser.add_argument("--max_seq_length", type=int, default=128, help="tokens per window of a long text (128)")
    parser.add_argument("--text_columns", default="", metavar="NAME", help="column of a table with the text (text)")
    parser.add_argument("--id_column", metavar="NAME", help="column of a table with an id (0, 1, 2, ...)")
    parser.add_argument(
        "--approximate",
        choices=building.CHOICES,
        default="auto",
        help="prepare approximate search, by a graph of neighbors (auto: above a million texts)",
    )
    parser.add_argument("--batch_size", type=int, default=64, help="texts per batch (64)")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing index")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    device_flags.add_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """Writes the index."""
    process.assume_frozen_weights()
    device_flags.apply(arguments)
    for name, least in (("batch_size", 1), ("max_seq_length", 5)):
        if getattr(arguments, name) < least:
            raise UserError(f"{name} is {getattr(arguments, name)}; expected {least} or more.")
    start = time.monotonic()
    try:
        about = building.build(
            arguments.texts,
            arguments.index,
            arguments.model,
            pooling=arguments.pooling or "",
            max_seq_length=arguments.max_seq_length,
            columns=[name.strip() for name in arguments.text_columns.split(",") if name.strip()],
            id_column=arguments.id_column,
            approximate=arguments.approximate,
            batch_size=arguments.batch_size,
            overwrite=arguments.overwrite,
        )
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else 2
        message = f"Stopped; run the same command again to continue, or remove {arguments.index}.partial."
        raise Interrupted(message, number) from None
    if arguments.json:
        print(json.dumps(about, ensure_ascii=False))
        return
    graph = ", with a graph for approximate search" if about["graph"] else ""
    print(
        f"{arguments.index} holds {about['count']:,} texts, vectors of {about['dimensions']} numbers{graph}; "
        f"{time.monotonic() - start:.0f} s."
    )

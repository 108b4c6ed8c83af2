"""Makes an index of texts, in which `bert-tf search` finds those nearest to a query.

  bert-tf index texts.txt my_index --model=all-minilm-l6-v2
  bert-tf index articles.jsonl my_index --model=runs/pairs --text_columns=body --id_column=url

TEXTS is .txt (one text per line) or a table (.tsv, .csv, .jsonl, .json, .xlsx or .parquet) with a column "text". MODEL
is a checkpoint in any format, a run or an export; what a folder of sentence-transformers says of its vectors applies:
pooling, length, size, similarity, prompts for texts and for queries. A command that was killed continues when it is
started again. Above a million texts approximate search is prepared too, which needs `pip install "bert-tf[search]"`.
"""

import argparse
import dataclasses
import json
import signal
import time

from bert_tf.cli import shared_flags
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.errors import Interrupted, count_text
from bert_tf.extras.search import building
from bert_tf.extras.search.embedder import EmbedderSettings
from bert_tf.extras.search.stored_vectors import STORAGES
from bert_tf.heads.vectors import sentence_choice


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", metavar="TEXTS", help="texts to find: .txt, or a table")
    parser.add_argument("index", metavar="INDEX", help="folder to write")
    parser.add_argument("--model", required=True, help="embedding model: checkpoint, run or export")
    parser.add_argument("--pooling", help="pooling of tokens: mean, cls, ... (as in MODEL, else mean)")
    parser.add_argument("--max_seq_length", type=int, help="tokens per text or window (as in MODEL, else 128)")
    parser.add_argument("--long_texts", choices=sentence_choice.LONG_TEXTS, help="(cut as in MODEL, else windows)")
    parser.add_argument("--prompt_name", metavar="NAME", help="prompt of MODEL for each text (document)")
    parser.add_argument("--prompt", metavar="TEXT", help="text to prepend to each text instead")
    parser.add_argument("--query_prompt_name", metavar="NAME", help="prompt of MODEL for queries (query)")
    parser.add_argument("--query_prompt", metavar="TEXT", help="text to prepend to queries instead")
    parser.add_argument("--truncate_dim", type=int, metavar="N", help="dimensions to keep (as in MODEL)")
    parser.add_argument(
        "--similarity", choices=("cosine", "dot"), help="similarity of vectors (as in MODEL, else cosine)"
    )
    parser.add_argument("--text_columns", default="", metavar="NAME", help="column of a table with the text (text)")
    parser.add_argument("--id_column", metavar="NAME", help="column of a table with an id (0, 1, 2, ...)")
    parser.add_argument(
        "--approximate",
        choices=building.CHOICES,
        default="auto",
        help="prepare approximate search, by a graph of neighbors (auto: above a million texts)",
    )
    parser.add_argument(
        "--storage",
        choices=tuple(STORAGES),
        default="float32",
        help="format of vectors: int8 takes 1/4 of the size, binary 1/32 (float32)",
    )
    parser.add_argument("--bm25", action="store_true", help="also prepare search by words, fused with vectors")
    parser.add_argument("--batch_size", type=int, default=64, help="texts per batch (64)")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing index")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    shared_flags.add_segments(parser)
    shared_flags.add_inference(parser)


def run(arguments: argparse.Namespace) -> None:
    shared_flags.set_up(arguments)
    shared_flags.check_batch_size(arguments)
    sentence_choice.check_length(arguments.max_seq_length, 0)
    if arguments.pooling is not None:
        sentence_choice.check_pooling(arguments.pooling)
    names = [field.name for field in dataclasses.fields(EmbedderSettings)]
    start = time.monotonic()
    try:
        about = building.build(
            arguments.texts,
            arguments.index,
            arguments.model,
            **{name: getattr(arguments, name) for name in names},
            columns=comma_separated(arguments.text_columns),
            id_column=arguments.id_column,
            approximate=arguments.approximate,
            bm25=arguments.bm25,
            storage=arguments.storage,
            batch_size=arguments.batch_size,
            overwrite=arguments.overwrite,
            engine=arguments.engine,
        )
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        message = f"Stopped; run the same command again to continue, or remove {arguments.index}.partial."
        raise Interrupted(message, number) from None
    if arguments.json:
        print(json.dumps(about, ensure_ascii=False))
        return
    graph = ", with a graph for approximate search" if about["graph"] else ""
    graph += ", with words for BM25" if arguments.bm25 else ""
    print(
        f"{arguments.index} contains {count_text(about['count'], 'text')}, embeddings with {about['dimensions']} "
        f"dimensions{graph}; {time.monotonic() - start:.0f} s."
    )

"""Prepares pre-training records from text, on this machine or with an engine of Apache Beam.

  bert-tf records my_texts runs/records --vocab_file=vocab.txt
  bert-tf records 'crawl/*.jsonl.zst' runs/records --vocab_file=vocab.txt --dry_run
  bert-tf records my_texts /shared/records --vocab_file=vocab.txt --runner=DaskRunner \
      --runner_flags="--dask_client_address=tcp://scheduler:8786"

TEXTS are comma-separated files, folders or globs: .txt and .jsonl, plain or in .gz, .bz2 or .zst, .parquet, and what
wikiextractor writes. `bert-tf pretrain --records_dir=TO` trains on the folder. The records do not depend on the engine
nor on the number of workers; the workers of an engine must see TEXTS and TO under the same names.
"""

import argparse
import dataclasses
import json
import os
import shlex

from bert_tf.config import flag_parsers
from bert_tf.config.flag_parsers import BOOLEANS
from bert_tf.data.pretraining import plan, records, statistics
from bert_tf.data.pretraining.plan import RecordOptions
from bert_tf.recipes.pretraining import pretraining_flags
from bert_tf.runtime.progress import progress
from bert_tf.text import special_tokens, vocabulary

CHOSEN = {"lower_case": "do_lower_case", "compress": "compress_records"}  # options whose flags have different names
NAMES = [CHOSEN.get(field.name, field.name) for field in dataclasses.fields(RecordOptions)]
SHARED = {*NAMES, "eval_file", "num_workers"} - {"vocab_file"}  # flags shared with `bert-tf pretrain`, if it has them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input_file", metavar="TEXTS", help="texts to make records from")
    parser.add_argument("output", metavar="TO", help="folder to write the records to")
    parser.add_argument("--vocab_file", required=True, help="vocab.txt; bert-tf vocabulary learns one")
    flag_parsers.add_arguments(parser, pretraining_flags.Flags, SHARED)
    for name, kind, default, text in (
        ("nsp", str, "true", "rows with two segments, for next-sentence prediction"),
        ("pairs", str, "next", "labels of two segments: next, or order (ALBERT)"),
        ("eval_fraction", float, 0.05, "fraction of the documents to hold out"),
        ("duplicates", str, "none", "documents to drop: none, documents (exact), near (MinHash)"),
        ("duplicate_sentences", str, "false", "drop repeated sentences"),
        ("skip_damaged", str, "false", "continue after unreadable files, and list the lost parts"),
    ):
        choices = BOOLEANS if default in BOOLEANS else None
        parser.add_argument(f"--{name}", type=kind, default=default, choices=choices, help=f"{text} ({default})")
    parser.add_argument("--runner", default="", help="Apache Beam runner, such as DirectRunner (none)")
    parser.add_argument("--runner_flags", default="", help="flags of the runner, in one string")
    parser.add_argument("--dry_run", action="store_true", help="estimate size and cost from a sample, write nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> None:
    options = _options(arguments)
    if arguments.dry_run:
        numbers = statistics.estimate(plan.make_plan(options, arguments.input_file, arguments.eval_file))
        print(json.dumps(numbers) if arguments.json else statistics.describe_estimate(numbers))
        return
    with progress("preparing records, parts") as report:
        manifest = records.prepare(
            arguments.output,
            options,
            input_file=arguments.input_file,
            eval_file=arguments.eval_file,
            num_workers=arguments.num_workers or os.cpu_count() or 1,
            progress=report,
            runner=arguments.runner,
            runner_flags=shlex.split(arguments.runner_flags),
        )
    if arguments.json:
        chosen = {name: manifest[name] for name in ("statistics", "warnings")}
        print(json.dumps({"records": arguments.output, **chosen}))
        return
    print(records.describe(manifest["statistics"], nsp=options.nsp))
    for warning in manifest["warnings"]:
        print(f"Warning: {warning}")


def _options(arguments: argparse.Namespace) -> RecordOptions:
    values = {}
    for field in dataclasses.fields(RecordOptions):
        value = getattr(arguments, CHOSEN.get(field.name, field.name))
        values[field.name] = value == "true" if value in BOOLEANS else value
    tokens = special_tokens.parse(values["special_tokens_in_strings"])
    chosen = special_tokens.choose(tokens, vocabulary.read(arguments.vocab_file)) if tokens else ()
    return RecordOptions(**values | {"special_tokens_in_strings": chosen})

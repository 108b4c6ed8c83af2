"""Compares a model in every form: live, SavedModel, OpenVINO, ONNX, LiteRT and int8, by score, size and time.

  bert-tf compare runs/classifier
  bert-tf compare runs/squad --max_rows=200 --engines=onnx --json
  bert-tf compare distilbert-sst2 --file=dev.csv --text_columns=sentence

MODEL is a run folder, written by bert-tf pretrain, finetune or squad, or a checkpoint with a head in any format. The
scores of a run are those of its evaluation rows, whose files must still be where the run read them; a checkpoint takes
a labelled file, as bert-tf evaluate does. Engines are written to a temporary folder; those whose packages are missing
are named. The table of a run is also written to its deployments.json and report.html. Several runs are compared by
bert-tf report.

The SavedModel in a run is a program: load only what you trust. Those that read or write files are refused.
"""

import argparse
import json
import os

from bert_tf.checkpoints import formats
from bert_tf.cli import shared_flags
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.errors import UserError
from bert_tf.export import trained_model
from bert_tf.recipes import engine_comparison
from bert_tf.recipes.finetuning import scored_export
from bert_tf.reports import report
from bert_tf.runtime import atomic_files, files, process


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="run folder, or a checkpoint with a head")
    parser.add_argument("--file", default="", help="labeled texts, questions or tagged words for a checkpoint")
    shared_flags.add_columns(parser)
    parser.add_argument("--max_rows", type=int, default=1000, help="maximum number of evaluation rows to score (1000)")
    parser.add_argument("--batch_size", type=int, default=8, help="rows per batch (8)")
    parser.add_argument("--engines", default="", metavar="NAMES", help="comma-separated engines (all installed)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    shared_flags.add_trust(parser)


def run(arguments: argparse.Namespace) -> None:
    process.assume_frozen_weights()
    folder = arguments.model
    is_run = files.exists(os.path.join(folder, "run.json"))
    if not is_run and formats.is_checkpoint(folder):
        if not arguments.file:
            raise UserError(f"{folder} is a checkpoint, which has no evaluation rows: pass a labeled --file.")
        reads = shared_flags.given_columns(arguments, folder, scored_export.about(folder)["kind"])
    else:
        trained_model.check_run(folder)
        reads = {}
        if arguments.file:
            raise UserError(f"{folder} is a run, which is compared on its own evaluation rows: remove --file.")
    names = comma_separated(arguments.engines)
    result = engine_comparison.compare(
        folder,
        max_rows=arguments.max_rows,
        batch_size=arguments.batch_size,
        names=names,
        file=arguments.file,
        reads=reads,
    )
    if is_run:
        atomic_files.write_json(f"{folder}/{engine_comparison.FILE}", result)
        report.write_report(folder)
    if arguments.json:
        print(json.dumps({"model": folder, **result}, ensure_ascii=False))
    else:
        print(*engine_comparison.lines(result), sep="\n")

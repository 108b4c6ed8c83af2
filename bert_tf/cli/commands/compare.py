"""Compares a run's model in every form: live, SavedModel, OpenVINO, ONNX, LiteRT and int8, by score, size and time.

  bert-tf compare runs/classifier
  bert-tf compare runs/squad --max_rows=200 --engines=onnx --json

RUN is a folder written by bert-tf pretrain, finetune or squad. The scores are those of its evaluation rows, whose files
must still be where the run read them. Engines are written to a temporary folder; those whose packages are missing are
named. The table is also written to RUN/deployments.json and RUN/report.html. Several runs are compared by bert-tf
report.

The SavedModel in RUN is a program: load only what you trust. Those that read or write files are refused.
"""

import argparse
import json
import os

from bert_tf.checkpoints import formats
from bert_tf.cli import trust_flags
from bert_tf.errors import UserError
from bert_tf.recipes import engine_comparison
from bert_tf.recipes.finetuning import finished_run
from bert_tf.reports import report
from bert_tf.runtime import atomic_files, files, process


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="run folder")
    parser.add_argument("--max_rows", type=int, default=1000, help="evaluation rows to score at most (1000)")
    parser.add_argument("--batch_size", type=int, default=8, help="rows per batch (8)")
    parser.add_argument("--engines", default="", metavar="NAMES", help="comma-separated engines (all installed)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    trust_flags.add_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """Writes the table and prints it."""
    process.assume_frozen_weights()
    folder = arguments.run_folder
    if not files.exists(os.path.join(folder, "run.json")) and formats.is_checkpoint(folder):
        raise UserError(
            f"{folder} is a checkpoint and no run, so it has no evaluation rows to compare on: `bert-tf evaluate` "
            "scores it on a file, and `bert-tf convert` to an engine compares their outputs."
        )
    finished_run.check_run(folder)
    names = [name.strip() for name in arguments.engines.split(",") if name.strip()]
    result = engine_comparison.compare(
        folder, max_rows=arguments.max_rows, batch_size=arguments.batch_size, names=names
    )
    atomic_files.write_json(f"{folder}/{engine_comparison.FILE}", result)
    report.write_report(folder)
    if arguments.json:
        print(json.dumps({"run": folder, **result}, ensure_ascii=False))
    else:
        print(*engine_comparison.lines(result), sep="\n")

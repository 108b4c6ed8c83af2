"""Rewrites a run's report.html from the files in its folder; for several runs, writes a page that compares them.

  bert-tf report runs/sst2
  bert-tf report runs/sst2 runs/sst2_large --output=compare.html
  bert-tf report runs/* --json

RUN is a folder written by bert-tf pretrain, finetune or squad. The page is a single file. Runs of different tasks are
compared by what they have in common. --json prints scores, settings and times; a page is then written only if --output
names one.
"""

import argparse
import json

from bert_tf.reports import comparison, report
from bert_tf.runtime import atomic_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folder")
    parser.add_argument("--output", help="page to write (RUN/report.html; compare.html for several runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> None:
    for folder in arguments.runs:
        report.read(folder)  # report errors before anything is written
    output = arguments.output
    if output:
        atomic_files.check_place(output)
    if arguments.json:
        print(json.dumps(comparison.compare(arguments.runs), ensure_ascii=False))
        if not output:
            return
    if len(arguments.runs) == 1:
        path = report.write_report(arguments.runs[0], output)
    else:
        path = comparison.write(arguments.runs, output or "compare.html")
    if not arguments.json:
        print(f"The report is {path}.")

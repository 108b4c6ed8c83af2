"""Writes a run's report.html anew from what lies in its folder; of several runs, a page that compares them.

  bert-tf report runs/sst2
  bert-tf report runs/sst2 runs/sst2_large --output=compare.html
  bert-tf report runs/* --json

RUN is the folder of a run of any of the scripts. The page needs no other file. Runs of different kinds are compared in
what they share. --json prints scores, settings and times instead of writing a page, unless --output names one too.
"""

import json
import os

from bert_tf.errors import UserError


def add_arguments(parser):
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run")
    parser.add_argument("--output", help="page to write (report.html in RUN; of several runs compare.html)")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def run(arguments):
    from bert_tf.reports import comparison, report

    for folder in arguments.runs:
        report.read(folder)  # mistakes come before anything is written
    output = arguments.output
    if output and (os.path.isdir(output) or not os.path.isdir(os.path.dirname(os.path.abspath(output)))):
        raise UserError(f"{output} cannot be written: give a file in a folder that is there.")
    if arguments.json:
        print(json.dumps(comparison.compared(arguments.runs), ensure_ascii=False))
        if not output:
            return
    if len(arguments.runs) == 1:
        path = report.write_report(arguments.runs[0], output)
    else:
        path = comparison.write(arguments.runs, output or "compare.html")
    if not arguments.json:
        print(f"Look at {path}.")

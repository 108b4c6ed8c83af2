"""Inference on every row of many files, on Apache Beam: each file that matches a pattern becomes an output file.

One worker reads, processes and writes a file, with the code for single files, so rows keep their order and ids. Output
files are written atomically, and existing ones are not written again: after retries, or if the same command is started
again, each row has exactly one result.
"""

import argparse
import functools
import json
import os
import shlex
from typing import Any

from bert_tf.cli.main import COMMANDS
from bert_tf.config import segments
from bert_tf.errors import UserError, count_text
from bert_tf.extras.beam import beam_runner
from bert_tf.runtime import atomic_files, files, json_files, plugins
from bert_tf.runtime.lazy import module

beam = module("apache_beam")
SETTINGS = "settings.json"  # in the output folder: the settings used
OF_THIS_CALL = ("runner", "runner_flags", "num_workers", "input", "run", "file", "output")
Pair = tuple[str, str]  # an input file, and its output file


def add_arguments(parser: argparse.ArgumentParser, source: Any) -> None:
    """Adds the flags; `source` is the group of flags for the input."""
    source.add_argument("--input", metavar="PATTERN", help="files to process on Apache Beam, such as 'texts/*.jsonl'")
    parser.add_argument("--runner", default="DirectRunner", help="Apache Beam runner for --input (DirectRunner)")
    parser.add_argument("--runner_flags", default="", help="flags of the runner, in one string")
    parser.add_argument("--num_workers", type=int, default=1, help="processes of DirectRunner (1)")


def pairs(pattern: str, output: str | None) -> list[Pair]:
    """The files that match a pattern and their output files: `output` has one *, for the name without its extension.

    Raises UserError if no file matches, or two files would have the same output file.
    """
    if not output or os.path.basename(output).count("*") != 1 or "*" in os.path.dirname(output):
        raise UserError(f"output is {output}; with input it is a pattern such as 'answers/*.jsonl'.")
    inputs = [path for path in files.glob(pattern) if files.is_file(path)]
    if not inputs:
        raise UserError(f"No file matches input={pattern}: pass a pattern such as 'texts/*.jsonl', in quotes.")
    by_output: dict[str, str] = {}
    for path in inputs:
        answers = output.replace("*", os.path.splitext(os.path.basename(path))[0])
        if answers in by_output:
            raise UserError(f"{by_output[answers]} and {path} would both be written to {answers}: rename one.")
        by_output[answers] = path
    return [(files.absolute(path), files.absolute(answers)) for answers, path in by_output.items()]


def first_of(arguments: argparse.Namespace) -> argparse.Namespace:
    """The arguments of `answer_file` for the first file; raises UserError like `pairs`."""
    file, output = pairs(arguments.input, arguments.output)[0]
    return argparse.Namespace(**vars(arguments) | {"file": file, "output": output})


def run(command: str, arguments: argparse.Namespace, **paths: str) -> None:
    """Processes all files with `answer_file(arguments)` of a command's module, then prints how many.

    paths: arguments that are paths, or names of published checkpoints. Raises UserError if the runner is not
    installed, or fails.
    """
    flags = shlex.split(arguments.runner_flags)
    beam_runner.check(arguments.runner, flags)
    every = pairs(arguments.input, arguments.output)
    folder = os.path.dirname(every[0][1])
    settings = {name: value for name, value in vars(arguments).items() if name not in OF_THIS_CALL}
    settings |= {name: files.absolute(path) if files.exists(path) else path for name, path in paths.items()}
    _claim(folder, {"command": command, **{name: value for name, value in settings.items() if name != "trust_code"}})
    missing = [pair for pair in every if not files.exists(pair[1])]
    if missing:
        build = functools.partial(_build, missing, command, settings)
        beam_runner.run(build, arguments.runner, flags, num_workers=arguments.num_workers)
    atomic_files.remove_abandoned(folder, {os.path.basename(answers) for _, answers in every})
    there = f", {len(every) - len(missing):,} existed already" if len(missing) < len(every) else ""
    print(f"Answered {count_text(len(missing), 'file')}{there}: {folder}.")


def _claim(folder: str, settings: dict[str, Any]) -> None:
    """Writes the settings into an output folder; raises UserError if it has results with other settings."""
    files.make_folder(folder)
    path = os.path.join(folder, SETTINGS)
    if files.exists(path) and json_files.require_json(path, "settings of answers") != settings:
        raise UserError(f"{folder} has predictions made with other flags: pass another folder, or delete it.")
    atomic_files.write_json(path, settings)


def _build(every: list[Pair], command: str, settings: dict[str, Any], pipeline: Any) -> None:
    chunks = pipeline | "Files" >> beam.Create(every) | "Spread" >> beam.Reshuffle()
    chunks | "Answer" >> beam.Map(_answer, command, json.dumps(settings))


def _answer(pair: Pair, command: str, settings: str) -> str:
    path, output = pair
    if not files.exists(output):
        module = plugins.member(COMMANDS, command, kind="command")
        arguments = argparse.Namespace(**json_files.parse(settings), file=path, output=output)
        with (
            plugins.trusting(everything=getattr(arguments, "trust_code", False)),
            segments.choosing(arguments.segments),
        ):
            module.answer_file(arguments)
    return output

"""Runs an export on texts: classifies, compares, rates, chooses, fills [MASK], finds entities, answers questions.

  bert-tf predict runs/sst2 --text "A gripping film."
  bert-tf predict runs/rte/export --text "Ann sings." --text_b "Somebody sings." --json
  bert-tf predict runs/squad --text "Ann sings in Ulm." --question "Where does Ann sing?"
  bert-tf predict runs/table --file reviews.csv --text_columns review --output answers.jsonl
  bert-tf predict runs/mnli --file news.txt --labels=sport,politics,science
  bert-tf predict runs/table --input='reviews/*.csv' --output='answers/*.jsonl' --runner=DaskRunner

EXPORT is the folder of an export or of a run with one, or a checkpoint with a head in any format (hf://owner/name too).
FILE is .txt (one text per line); a table (.tsv, .csv, .jsonl, .json, .xlsx or .parquet) with the columns of the one
that the model was trained on, or the inputs of the export (text, text_a, text_b, choices, context, question), or .json
with questions in SQuAD format; or - for standard input, one text per line. Files are streamed and may be of any length,
except .json. The other columns of a table are kept.

With --labels, a model of entailment (NLI) classifies texts by labels that it was not trained on: each makes a
hypothesis, of which the model says whether the text entails it.

An export is a program: load only what you trust. Those that read or write files are refused.
"""

import argparse
import functools
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from bert_tf.cli import shared_flags
from bert_tf.cli.text_progress import report_texts
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.data import tables, text_lines
from bert_tf.data.examples import Example
from bert_tf.errors import UserError, count_text, leave_out, listed
from bert_tf.export import about_file, engine_network, loaded_model, opening, prediction_inputs, tagged_words, zero_shot
from bert_tf.export.batches import BatchFunction, predict_in_order
from bert_tf.export.text_function import TextFunction
from bert_tf.heads.base import prediction_files
from bert_tf.heads.base.answering import Answered, answered
from bert_tf.runtime import atomic_files, files, machine
from bert_tf.runtime.lazy import module

bulk_files = module("bert_tf.extras.beam.bulk_files")

WINDOW = 4096  # texts per window, sorted by length before batching
OUTPUTS = prediction_files.EXTENSIONS
OTHER_TEXTS = ("text_b", "question", "choice")
log = logging.getLogger("bert_tf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "export", metavar="EXPORT", help="folder of an export, of a run with one, or a checkpoint with a head"
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", help="a single text")
    source.add_argument("--file", help="texts: .txt, a table, .json, or - for standard input")
    bulk_files.add_arguments(parser, source)
    parser.add_argument("--text_b", help="second text, for pairs")
    parser.add_argument("--question", help="question about the text")
    parser.add_argument("--choice", action="append", metavar="TEXT", help="a choice; repeat for each")
    parser.add_argument("--labels", metavar="NAMES", help="classify by these labels, with an NLI model")
    parser.add_argument("--multi_label", action="store_true", help="any number of --labels may apply, not just one")
    parser.add_argument(
        "--hypothesis_template",
        metavar="TEXT",
        default=zero_shot.TEMPLATE,
        help=f"with --labels: the hypothesis, {{}} for the label ({zero_shot.TEMPLATE})",
    )
    parser.add_argument("--text_columns", metavar="NAMES", help="columns of FILE, such as question,context")
    parser.add_argument(
        "--is_split_into_words",
        action="store_true",
        help="texts are split into words: lists in .jsonl and .parquet, else by spaces; a tagger tags each word",
    )
    parser.add_argument("--id_column", metavar="NAME", help="column of FILE with an id (0, 1, 2, ...)")
    parser.add_argument("--output", help="file to write, .jsonl, .tsv, .csv, .xlsx or .parquet")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    shared_flags.add_segments(parser)
    shared_flags.add_inference(parser)
    parser.add_argument("--batch_size", type=int, help="texts per batch (32; 2048 compiled by XLA)")


def run(arguments: argparse.Namespace) -> None:
    shared_flags.set_up(arguments)
    folder = loaded_model.find(arguments.export)
    if arguments.input is not None:
        check(bulk_files.first_of(arguments), has_folder=True)
        bulk_files.run("predict", arguments, export=folder)
        return
    check(arguments)
    export = _load(arguments, folder)
    rows = _rows(arguments, export)
    _write(arguments, rows)


def answer_file(arguments: argparse.Namespace) -> None:
    """Writes the predictions for one file of --input."""
    shared_flags.set_up(arguments)
    texts = _number_of_texts(arguments, arguments.export)
    found = _kept_export(arguments.export, arguments.engine, arguments.jit_compile, texts)
    rows = _rows(arguments, _by_labels(arguments, found))
    prediction_files.write_rows(arguments.output, rows, shared=True)


def _load(arguments: argparse.Namespace, folder: str) -> TextFunction:
    """The export, not compiled for a single text, because compiling would take longer than it saves."""
    found: Any = opening.load(folder, shared_flags.chosen_engine(arguments, folder))
    if not found:
        is_single = arguments.file is None and arguments.jit_compile == "auto"
        jit_compile = "false" if is_single else arguments.jit_compile
        if is_single and arguments.engine == opening.AUTO:
            _say_how_to_start_sooner(folder)
        found = opening.open_model(
            folder, opening.TENSORFLOW, jit_compile=jit_compile, texts=_number_of_texts(arguments, folder)
        )
    return _by_labels(arguments, found)


def _say_how_to_start_sooner(folder: str) -> None:
    """Prints how to add a model for an engine to one of this package's exports, if it has none."""
    is_ours = files.is_file(os.path.join(folder, about_file.EXTRA, "bert_config.json"))
    if is_ours and not engine_network.available(folder) and not machine.has_accelerator():
        print(
            "Runs on TensorFlow, which takes seconds to start; `bert-tf export RUN --overwrite` adds a model for "
            'OpenVINO, which starts sooner (pip install "bert-tf[openvino]").',
            file=sys.stderr,
        )


@functools.lru_cache(maxsize=1)
def _kept_export(folder: str, engine: str, jit_compile: str, texts: int | None) -> TextFunction:
    """The export, kept for the next file of this process."""
    return opening.open_model(folder, engine, jit_compile=jit_compile, texts=texts)


def _by_labels(arguments: argparse.Namespace, export: Any) -> TextFunction:
    """The export, or with --labels a zero-shot classifier."""
    if arguments.labels is None:
        return export
    return zero_shot.ZeroShot(
        export,
        export.labels,
        comma_separated(arguments.labels),
        multi_label=arguments.multi_label,
        hypothesis_template=arguments.hypothesis_template,
    )


def _number_of_texts(arguments: argparse.Namespace, folder: str) -> int | None:
    """Number of texts per example for a checkpoint, from the flags or the columns of the file, else None."""
    if loaded_model.is_export(folder):
        return None
    if arguments.labels is not None:
        return 2
    if arguments.file is None:
        return 1 + len([text for text in (arguments.text_b, *(arguments.choice or ())) if text is not None])
    return prediction_inputs.number_of_texts(arguments.file, arguments.text_columns)


def _rows(arguments: argparse.Namespace, export: TextFunction) -> Iterator[Answered]:
    batch_size = arguments.batch_size or export.batch_size
    if arguments.is_split_into_words and export.word_tagger:
        return _tagged(arguments, export, export.word_tagger, batch_size)
    examples = iter(_single(arguments, export)) if arguments.file is None else _from_file(arguments, export)
    window = _window(arguments, batch_size)
    outputs = predict_in_order(export, examples, batch_size=batch_size, window=window)
    return (answered(*pair, head=export.head, labels=export.labels, inputs=export.inputs) for pair in outputs)


def _tagged(
    arguments: argparse.Namespace, export: TextFunction, tagger: BatchFunction, batch_size: int
) -> Iterator[Answered]:
    """Yields a tagger's rows for sentences split into words."""
    if arguments.file is None:
        sentences = iter([Example("0", tuple(arguments.text.split()), None, "the flags")])
    else:
        column = arguments.text_columns or next(iter(export.inputs))
        sentences = prediction_inputs.read_words(arguments.file, column, id_column=arguments.id_column)
    window = _window(arguments, batch_size)
    outputs = predict_in_order(tagger, sentences, batch_size=batch_size, window=window)
    return (tagged_words.answered(*pair, export.labels) for pair in outputs)


def _write(arguments: argparse.Namespace, predicted: Iterator[Answered]) -> None:
    rows = report_texts(predicted, name="predicting", file=arguments.file, output=arguments.output)
    if arguments.output:
        has_mark = arguments.file is not None and text_lines.has_mark(arguments.file)
        prediction_files.write_rows(arguments.output, rows, has_mark=has_mark)
        print(f"The predictions are in {arguments.output}.")
        return
    has_one = arguments.file is None
    for row in rows:
        shown = row.details() if has_one else row.line()
        sys.stdout.write(prediction_files.json_line(row.fields()) if arguments.json else shown)
    sys.stdout.flush()


def check(arguments: argparse.Namespace, *, has_folder: bool = False) -> None:
    """Raises UserError for inconsistent flags and missing files, before TensorFlow is loaded.

    has_folder: whether the output folder exists, or will be created.
    """
    shared_flags.check_batch_size(arguments)
    for name in ("text_columns", "id_column") if arguments.file is None else OTHER_TEXTS:
        if getattr(arguments, name) is not None:
            raise leave_out(f"{name} requires {'file' if arguments.file is None else 'text'}")
    if arguments.labels is not None:
        zero_shot.hypotheses(comma_separated(arguments.labels), arguments.hypothesis_template)
    elif arguments.multi_label or arguments.hypothesis_template != zero_shot.TEMPLATE:
        raise UserError("multi_label and hypothesis_template require labels: remove them, or pass labels.")
    if arguments.file is not None:
        prediction_inputs.check_readable(arguments.file)
    output = arguments.output
    if output is None:
        return
    if arguments.json:
        raise UserError("json applies to standard output: remove it, or name an output that ends in .jsonl.")
    if not output.lower().endswith(OUTPUTS):
        raise UserError(f"output is {output}; expected a name that ends in {' or '.join(OUTPUTS)}.")
    if files.is_folder(output) or not has_folder:
        atomic_files.check_place(output)
    if arguments.file and files.same(output, arguments.file):
        raise UserError(f"output and file are both {output}: choose another name for the predictions.")


def _single(arguments: argparse.Namespace, export: TextFunction) -> list[Example]:
    """The text of the flags as one Example; raises UserError if the export takes more or fewer texts."""
    values = {"text": [arguments.text], "text_b": [arguments.text_b], "question": [arguments.question]}
    values["choice"] = arguments.choice or [None]
    flags = _flags_of(arguments.export, export)
    for name in OTHER_TEXTS:
        if name in flags and values[name] == [None]:
            raise UserError(f"{arguments.export} takes {' and '.join(export.inputs)}: pass --{name} too.")
        if name not in flags and values[name] != [None]:
            raise UserError(f"{arguments.export} takes {' and '.join(export.inputs)} only: remove --{name}.")
    texts = tuple(text for name in flags for text in values[name])
    expected = sum(count or 1 for count in export.inputs.values())
    if len(texts) != expected:
        raise UserError(f"Got {len(texts) - 1} choices; {arguments.export} takes {expected - 1}.")
    return [Example("0", texts, None, "the flags")]


def _flags_of(path: str, export: TextFunction) -> list[str]:
    """The flags for the texts of the inputs, in input order; UserError if the order is unknown."""
    export.check_order()
    singles = [name for name, count in export.inputs.items() if not count]
    questions = [name for name in singles if name == "question"] if len(singles) > 1 else []
    texts = [name for name in singles if name not in questions]
    flags = dict(zip(texts, ("text", "text_b"), strict=False)) | dict.fromkeys(questions, "question")
    flags |= {name: "choice" for name, count in export.inputs.items() if count}
    if len(set(flags.values())) < len(export.inputs) or "text" not in flags.values():
        raise UserError(f"{path} takes {' and '.join(export.inputs)}: pass a table with these columns as --file.")
    return [flags[name] for name in export.inputs]


def _from_file(arguments: argparse.Namespace, export: TextFunction) -> Iterator[Example]:
    columns = comma_separated(arguments.text_columns)
    columns = columns or _columns_of_training(arguments.file, export)
    if columns:
        export.check_order()
    read = prediction_inputs.read(arguments.file, export.inputs, columns=columns, id_column=arguments.id_column)
    return _naming_blank(read)


def _naming_blank(examples: Iterable[Example]) -> Iterator[Example]:
    """The examples; reports at the end how many have no text and thus meaningless predictions."""
    count, first = 0, ""
    for example in examples:
        if not any(text.strip() for text in example.texts):
            count, first = count + 1, first or example.location
        yield example
    if count:
        where = f" (the first in {first})" if first else ""
        log.warning("%s without text%s: ignore the predictions there.", count_text(count, "row"), where)


def _columns_of_training(path: str, export: TextFunction) -> list[str]:
    """The text columns of the training table, if the file has them."""
    is_table = path != prediction_inputs.STANDARD_INPUT and tables.is_table(path)
    if not is_table or isinstance(export, zero_shot.ZeroShot):
        return []
    names = (loaded_model.about(export.source).get("reads") or {}).get("text_columns") or ""
    columns, there = comma_separated(names), tables.column_names(path)
    if columns and not {*columns} <= {*there} and not {*export.inputs, prediction_inputs.TEXT} & {*there}:
        raise UserError(
            f"{path} has no column {' or '.join(map(repr, columns))}, which the model was trained on; its columns: "
            f"{listed(there)}. Name the text columns: --text_columns=NAME."
        )
    return columns if {*columns} <= {*there} else []


def _window(arguments: argparse.Namespace, batch_size: int) -> int:
    """The number of texts to read before the first prediction: one if a person types them."""
    is_typed = arguments.file == prediction_inputs.STANDARD_INPUT and sys.stdin.isatty()
    return 1 if is_typed else max(WINDOW // batch_size, 1) * batch_size

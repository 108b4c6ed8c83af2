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
import dataclasses
import functools
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_tf.cli import shared_flags
from bert_tf.cli.text_progress import report_texts
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.data import tables, text_lines
from bert_tf.data.examples import Example
from bert_tf.errors import UserError, count_text, leave_out, listed
from bert_tf.export import about_file, engine_network, loaded_model, opening, prediction_inputs, zero_shot
from bert_tf.export.batches import predict_in_order
from bert_tf.export.text_function import TextFunction
from bert_tf.heads.base import prediction_files
from bert_tf.heads.base.answering import Answered, answered
from bert_tf.heads.tags import tagged_words
from bert_tf.runtime import atomic_files, files, machine
from bert_tf.runtime.lazy import module

bulk_files = module("bert_tf.extras.beam.bulk_files")

WINDOW = 4096  # texts per window, sorted by length before batching
OUTPUTS = prediction_files.EXTENSIONS
OTHER_TEXTS = ("text_b", "question", "choice")
_kept_model = functools.lru_cache(maxsize=1)(opening.open_model)  # kept for the next file of --input in this process
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """The flags of a call, read once.

    Attributes:
        model: the model, as named on the command line.
        texts: {flag: its texts} of a single example; {} with a file.
        file: the file with the texts; None for a single example.
        columns: the text columns in the flags; [] for those of the training table or the inputs.
        id_column: the column with ids, if any.
        has_words: whether texts are split into words.
        zero_shot: {argument: value} of a zero-shot classifier; {} for the model itself.
        batch_size: texts per batch; None for the model's own.
        output: the file to write; None for standard output.
        as_json: whether standard output is JSON lines.
    """

    model: str
    texts: Mapping[str, Sequence[str]]
    file: str | None
    columns: Sequence[str]
    id_column: str | None
    has_words: bool
    zero_shot: Mapping[str, Any]
    batch_size: int | None
    output: str | None
    as_json: bool

    @classmethod
    def of(cls, arguments: argparse.Namespace, *, has_folder: bool = False) -> "Request":
        """The request in the flags, checked before TensorFlow is loaded.

        has_folder: whether the output folder exists, or will be created. Raises UserError for inconsistent flags and
        missing files.
        """
        shared_flags.check_batch_size(arguments)
        given = {"text": [arguments.text], "text_b": [arguments.text_b], "question": [arguments.question]}
        given["choice"] = arguments.choice or []
        texts = {name: values for name, values in given.items() if values not in ([], [None])}
        is_file = arguments.file is not None
        for name in OTHER_TEXTS if is_file else ("text_columns", "id_column"):
            if getattr(arguments, name) is not None:
                raise leave_out(f"{name} requires {'text' if is_file else 'file'}")
        chosen = {"multi_label": arguments.multi_label, "hypothesis_template": arguments.hypothesis_template}
        if arguments.labels is not None:
            chosen["labels"] = comma_separated(arguments.labels)
            zero_shot.hypotheses(chosen["labels"], arguments.hypothesis_template)
        elif arguments.multi_label or arguments.hypothesis_template != zero_shot.TEMPLATE:
            raise UserError("multi_label and hypothesis_template require labels: remove them, or pass labels.")
        if is_file:
            prediction_inputs.check_readable(arguments.file)
        output = arguments.output
        if output is not None:
            if arguments.json:
                raise UserError("json applies to standard output: remove it, or name an output that ends in .jsonl.")
            if not output.lower().endswith(OUTPUTS):
                raise UserError(f"output is {output}; expected a name that ends in {' or '.join(OUTPUTS)}.")
            if files.is_folder(output) or not has_folder:
                atomic_files.check_place(output)
            if is_file and files.same(output, arguments.file):
                raise UserError(f"output and file are both {output}: choose another name for the predictions.")
        return cls(
            model=arguments.export,
            texts=texts,
            file=arguments.file,
            columns=comma_separated(arguments.text_columns),
            id_column=arguments.id_column,
            has_words=arguments.is_split_into_words,
            zero_shot=chosen if "labels" in chosen else {},
            batch_size=arguments.batch_size,
            output=output,
            as_json=arguments.json,
        )


def run(arguments: argparse.Namespace) -> None:
    shared_flags.set_up(arguments)
    folder = loaded_model.find(arguments.export)
    if arguments.input is not None:
        Request.of(bulk_files.first_of(arguments), has_folder=True)  # raises for flags that do not fit together
        bulk_files.run("predict", arguments, export=folder)
        return
    request = Request.of(arguments)
    engine, jit_compile = shared_flags.chosen_engine(arguments, folder), arguments.jit_compile
    if engine == opening.TENSORFLOW and request.file is None and jit_compile == "auto":
        jit_compile = "false"  # compiling would take longer than it saves for a single text
        if arguments.engine == opening.AUTO:
            _say_how_to_start_sooner(folder)
    found = opening.open_model(folder, engine, jit_compile=jit_compile, texts=_number_of_texts(request, folder))
    _write(request, _answers(request, found))


def answer_file(arguments: argparse.Namespace) -> None:
    """Writes the predictions for one file of --input."""
    shared_flags.set_up(arguments)
    request = Request.of(arguments, has_folder=True)
    texts = _number_of_texts(request, arguments.export)
    found = _kept_model(arguments.export, arguments.engine, jit_compile=arguments.jit_compile, texts=texts)
    prediction_files.write_rows(arguments.output, _answers(request, found), shared=True)


def _say_how_to_start_sooner(folder: str) -> None:
    """Prints how to add a model for an engine to one of this package's exports, if it has none."""
    is_ours = files.is_file(os.path.join(folder, about_file.EXTRA, "bert_config.json"))
    if is_ours and not engine_network.available(folder) and not machine.has_accelerator():
        print(
            "Runs on TensorFlow, which takes seconds to start; `bert-tf export RUN --overwrite` adds a model for "
            'OpenVINO, which starts sooner (pip install "bert-tf[openvino]").',
            file=sys.stderr,
        )


def _number_of_texts(request: Request, folder: str) -> int | None:
    """Number of texts per example for a checkpoint, from the flags or the columns of the file, else None."""
    if loaded_model.is_export(folder):
        return None
    if request.zero_shot:
        return 2
    if request.file is None:
        return sum(len(values) for name, values in request.texts.items() if name != "question")
    return prediction_inputs.number_of_texts(request.file, request.columns)


def _answers(request: Request, model: Any) -> Iterator[Answered]:
    """The rows of the answers, in the order of the texts."""
    if request.zero_shot:
        model = zero_shot.ZeroShot(model, model.labels, **request.zero_shot)
    size = request.batch_size or model.batch_size
    is_typed = request.file == prediction_inputs.STANDARD_INPUT and sys.stdin.isatty()
    window = 1 if is_typed else max(WINDOW // size, 1) * size  # texts to read before the first prediction
    if request.has_words and model.word_tagger:
        outputs = predict_in_order(model.word_tagger, _sentences(request, model), batch_size=size, window=window)
        return (tagged_words.answered(*pair, model.labels) for pair in outputs)
    outputs = predict_in_order(model, _examples(request, model), batch_size=size, window=window)
    return (answered(*pair, head=model.head, labels=model.labels, inputs=model.inputs) for pair in outputs)


def _sentences(request: Request, model: TextFunction) -> Iterator[Example]:
    """The sentences for a tagger, split into words."""
    if request.file is None:
        return iter([Example("0", tuple(request.texts["text"][0].split()), None, "the flags")])
    column = ",".join(request.columns) or next(iter(model.inputs))
    return prediction_inputs.read_words(request.file, column, id_column=request.id_column)


def _examples(request: Request, model: TextFunction) -> Iterator[Example]:
    if request.file is None:
        return _naming_blank([_single(request, model)])
    columns = request.columns or _columns_of_training(request.file, model)
    if columns:
        model.check_order()
    read = prediction_inputs.read(request.file, model.inputs, columns=columns, id_column=request.id_column)
    return _naming_blank(read)


def _single(request: Request, model: TextFunction) -> Example:
    """The texts of the flags in the order of the inputs.

    Raises UserError if the model takes more or fewer, or the order is unknown.
    """
    model.check_order()
    name, inputs = request.model, " and ".join(model.inputs)
    singles = [each for each, count in model.inputs.items() if not count]
    questions = [each for each in singles if each == "question"] if len(singles) > 1 else []
    texts = [each for each in singles if each not in questions]
    flags = dict(zip(texts, ("text", "text_b"), strict=False)) | dict.fromkeys(questions, "question")  # {input: flag}
    flags |= {each: "choice" for each, count in model.inputs.items() if count}
    if len(set(flags.values())) < len(model.inputs) or "text" not in flags.values():
        raise UserError(f"{name} takes {inputs}: pass a table with these columns as --file.")
    for flag in OTHER_TEXTS:
        if flag in flags.values() and flag not in request.texts:
            raise UserError(f"{name} takes {inputs}: pass --{flag} too.")
        if flag not in flags.values() and flag in request.texts:
            raise UserError(f"{name} takes {inputs} only: remove --{flag}.")
    values = tuple(text for each in model.inputs for text in request.texts[flags[each]])
    expected = sum(count or 1 for count in model.inputs.values())
    if len(values) != expected:
        raise UserError(f"Got {len(values) - 1} choices; {name} takes {expected - 1}.")
    return Example("0", values, None, "the flags")


def _columns_of_training(path: str, model: TextFunction) -> list[str]:
    """The text columns of the training table, if the file has them."""
    is_table = path != prediction_inputs.STANDARD_INPUT and tables.is_table(path)
    if not is_table or isinstance(model, zero_shot.ZeroShot):
        return []
    names = (loaded_model.about(model.source).get("reads") or {}).get("text_columns") or ""
    columns, there = comma_separated(names), tables.column_names(path)
    if columns and not {*columns} <= {*there} and not {*model.inputs, prediction_inputs.TEXT} & {*there}:
        raise UserError(
            f"{path} has no column {' or '.join(map(repr, columns))}, which the model was trained on; its columns: "
            f"{listed(there)}. Name the text columns: --text_columns=NAME."
        )
    return columns if {*columns} <= {*there} else []


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


def _write(request: Request, answers: Iterator[Answered]) -> None:
    rows = report_texts(answers, name="predicting", file=request.file, output=request.output)
    if request.output:
        has_mark = request.file is not None and text_lines.has_mark(request.file)
        prediction_files.write_rows(request.output, rows, has_mark=has_mark)
        print(f"The predictions are in {request.output}.")
        return
    for row in rows:
        shown = row.details() if request.file is None else row.line()
        sys.stdout.write(prediction_files.json_line(row.fields()) if request.as_json else shown)
    sys.stdout.flush()

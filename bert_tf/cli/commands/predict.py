"""Answers texts with an export: sorts, compares, rates, chooses, fills [MASK], finds entities or what is asked for.

  bert-tf predict runs/sst2 --text "A gripping film."
  bert-tf predict runs/rte/export --text "Ann sings." --text_b "Somebody sings." --json
  bert-tf predict runs/squad --text "Ann sings in Ulm." --question "Where does Ann sing?"
  bert-tf predict runs/table --file reviews.csv --text_columns review --output answers.jsonl

EXPORT is the folder of an export or of a run that has one. FILE is .txt (a text a line), or .tsv, .csv or .jsonl with
the inputs of the export as columns (text, text_a, text_b, choices, context, question), or .json with questions in
SQuAD's layout; - is standard input, a text a line. The export is loaded once, and a file of any length but .json takes
no more memory than a short one.
"""

import os
import sys
import time

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import loaded_model, prediction_inputs
from bert_tf.runtime import process
from bert_tf.runtime.progress import progress
from bert_tf.tasks.text_classification import predictions

WINDOW = 4096  # texts among which those of like length are put together
OUTPUTS = (".jsonl", ".tsv")
OTHERS = ("text_b", "question", "choice")  # flags of what may come beside a text
SHOWN = 10  # probabilities of a single text
NOTHING = "no answer"
SECONDS_BETWEEN_REPORTS = 0.2


def add_arguments(parser):
    parser.add_argument("export", metavar="EXPORT", help="folder of an export, or of a run that has one")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--text", help="the text to answer")
    given.add_argument("--file", help="texts to answer: .txt, .tsv, .csv, .jsonl, .json, or - for standard input")
    parser.add_argument("--text_b", help="second text, where the export compares two")
    parser.add_argument("--question", help="question about the text, where the export answers questions")
    parser.add_argument("--choice", action="append", metavar="TEXT", help="a choice, once for each that there is")
    parser.add_argument("--text_columns", metavar="NAMES", help="columns of FILE, with commas, in the inputs' order")
    parser.add_argument("--id_column", metavar="NAME", help="column of FILE with an id; without: 0, 1, 2, ...")
    parser.add_argument("--output", help="file to write, .jsonl or .tsv; without: lines on standard output")
    parser.add_argument("--json", action="store_true", help="JSON lines on standard output")
    parser.add_argument("--batch_size", type=int, default=32, help="texts that are answered at once (32)")


def run(arguments):
    process.assume_frozen_weights()
    folder = loaded_model.find(arguments.export)
    check(arguments)
    export = loaded_model.Export(folder)
    asked_for = single(arguments, export) if arguments.file is None else from_file(arguments, export)
    answers = loaded_model.in_order(export, asked_for, batch_size=arguments.batch_size, window=window(arguments))
    rows = (predictions.answered(*answer, labels=export.labels, inputs=export.inputs) for answer in answers)
    rows = watched(rows, arguments)
    if arguments.output:
        predictions.write_rows(arguments.output, rows)
        print(f"The predictions are in {arguments.output}.")
        return
    if arguments.json:
        lines = predictions.json_lines(rows)
    else:
        lines = map(detailed if arguments.file is None else line, rows)
    for text in lines:
        sys.stdout.write(text)
    sys.stdout.flush()


def check(arguments):
    """Raises UserError for flags and files that do not go together, before TensorFlow is loaded."""
    if arguments.batch_size < 1:
        raise UserError(f"batch_size is {arguments.batch_size}; expected 1 or more.")
    for name in ("text_columns", "id_column") if arguments.file is None else OTHERS:
        if getattr(arguments, name) is not None:
            raise UserError(f"{name} goes with {'file' if arguments.file is None else 'text'} only: leave it out.")
    if arguments.file is not None:
        prediction_inputs.expect_readable(arguments.file)
    output = arguments.output
    if output is None:
        return
    if arguments.json:
        raise UserError("json is for standard output: leave it out, or name an output that ends in .jsonl.")
    if not output.lower().endswith(OUTPUTS):
        raise UserError(f"output is {output}; expected a name that ends in {' or '.join(OUTPUTS)}.")
    if os.path.isdir(output) or not os.path.isdir(os.path.dirname(os.path.abspath(output))):
        raise UserError(f"{output} cannot be written: give a file in a folder that is there.")
    if arguments.file and os.path.exists(output) and os.path.samefile(output, arguments.file):
        raise UserError(f"output and file are both {output}: give the predictions another name.")


def single(arguments, export):
    """The text of the flags as a list of one Example; UserError where the export takes more or fewer texts."""
    given = {"text": [arguments.text], "text_b": [arguments.text_b], "question": [arguments.question]}
    given["choice"] = arguments.choice or [None]
    flags = ["text", *(_flag_of(name, count) for name, count in list(export.inputs.items())[1:])]
    for name in OTHERS:
        if name in flags and given[name] == [None]:
            raise UserError(f"{arguments.export} takes {' and '.join(export.inputs)}: give --{name} too.")
        if name not in flags and given[name] != [None]:
            raise UserError(f"{arguments.export} takes {' and '.join(export.inputs)} only: leave out --{name}.")
    texts = tuple(text for name in flags for text in given[name])
    expected = sum(count or 1 for count in export.inputs.values())
    if len(texts) != expected:
        raise UserError(f"{len(texts) - 1} choices were given; {arguments.export} takes {expected - 1}.")
    return [Example("0", texts, None, "the flags")]


def _flag_of(name, count):
    """The flag for an input of an export that is not its first."""
    if count:
        return "choice"
    return "question" if name == "question" else "text_b"


def from_file(arguments, export):
    """The texts of the file, one after the other."""
    columns = [name.strip() for name in (arguments.text_columns or "").split(",") if name.strip()]
    return prediction_inputs.read(arguments.file, export.inputs, columns=columns, id_column=arguments.id_column)


def window(arguments):
    """How many texts to read before the first is answered: one where a person types them."""
    typed = arguments.file == prediction_inputs.STANDARD_INPUT and sys.stdin.isatty()
    return 1 if typed else max(WINDOW // arguments.batch_size, 1) * arguments.batch_size


def watched(rows, arguments, what="predicting"):
    """Yields the rows of a file; shows how far they are and how fast, but not where it could stand among the rows."""
    may_meet = not arguments.output and (sys.stdout.isatty() or not sys.stderr.isatty())
    if arguments.file is None or may_meet:
        yield from rows
        return
    start = shown = time.monotonic()
    done = 0
    with progress(what, prediction_inputs.count(arguments.file)) as report:
        for done, row in enumerate(rows, 1):
            yield row
            now = time.monotonic()
            if now - shown > SECONDS_BETWEEN_REPORTS:
                shown = now
                report(done, f"{done / (now - start):,.0f} texts/s")
        report(done, f"{done / (time.monotonic() - start):,.0f} texts/s", total=done)


def line(row):
    """A row for reading: what was answered, how sure, and the texts; entities with their places are JSON."""
    if "entities" in row:
        return next(predictions.json_lines([row]))
    texts = [row[name] for name in predictions.TEXTS if name in row] + row.get("choices", [])
    said = [str(row.get("label", ""))]
    if isinstance(row.get("probabilities"), dict) and row.get("label") in row["probabilities"]:
        said.append(f"{row['probabilities'][row['label']]:.1%}")
    if "n_best" in row:
        said = [row["answer"] or NOTHING, f"{row['score']:.1%}"]
    elif "answers" in row:
        said = [", ".join(f"{answer['piece']} {answer['score']:.0%}" for answer in mask[:3]) for mask in row["answers"]]
        said = ["; ".join(said) or "no [MASK] in it"]
    elif "label" not in row:
        said = [str({name: value for name, value in row.items() if name not in predictions.NOT_COLUMNS})]
    return "\t".join(" ".join(part.split()) for part in [*said, *texts]) + "\n"


def detailed(row):
    """A single answer for reading: all the probabilities, the highest first."""
    shown, probabilities = [f"{row.get('label') or 'none'}\n"], row.get("probabilities")
    if isinstance(probabilities, list):
        probabilities = dict(enumerate(probabilities))
    if probabilities:
        best = sorted(probabilities.items(), key=lambda pair: -pair[1])[:SHOWN]
        return "".join(shown + [f"  {value:6.1%}  {label}\n" for label, value in best])
    if "n_best" in row:
        best = [{**one, "text": " ".join(one["text"].split()) or NOTHING} for one in row["n_best"]]
        lines = ["{probability:6.1%}  {text}  {start}-{end}\n".format(**one) for one in best[:SHOWN]]
        return "".join([f"{row['answer'] or NOTHING}\n", *lines])
    if row.get("entities"):
        return "".join("{score:6.1%}  {label}  {text}  {start}-{end}\n".format(**entity) for entity in row["entities"])
    if "answers" in row:
        return "".join(f"{a['score']:6.1%}  {a['piece']}\n" for mask in row["answers"] for a in mask) or line(row)
    return shown[0] if "label" in row else line(row)

"""Scores an export on a labelled file: accuracy and F1 of texts, exact match of answers, entities found.

  bert-tf evaluate runs/sst2 --file=dev.tsv
  bert-tf evaluate runs/table --file=reviews.csv --text_columns=review --label_column=stars --json
  bert-tf evaluate runs/squad --file=dev-v2.0.json

MODEL is the folder of an export or of a run that has one; `bert-tf export` makes it where it is missing. FILE is what
the model was fine-tuned on: a table with labels (.tsv, .csv, .jsonl, GLUE's and SWAG's files), questions in SQuAD's
layout, or words and tags in columns. Columns are those of the training data unless they are named. The scores are
those that the training scripts print; of questions with the threshold that the export has.
"""

import json

from bert_tf.errors import UserError
from bert_tf.export import loaded_model
from bert_tf.recipes.finetuning import scored_export
from bert_tf.runtime import process
from bert_tf.runtime.progress import progress


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL", help="folder of an export, or of a run that has one")
    parser.add_argument("--file", required=True, help="labelled texts, questions or words")
    parser.add_argument("--text_columns", metavar="NAMES", help="columns of a table with the texts, with commas")
    parser.add_argument("--label_column", metavar="NAME", help="column of a table with the label")
    parser.add_argument("--word_column", type=int, help="of tagged words: the column with the word, from 1")
    parser.add_argument("--tag_column", type=int, help="of tagged words: the column with the tag; -1 is the last")
    parser.add_argument("--batch_size", type=int, default=32, help="examples that are answered at once (32)")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def run(arguments):
    process.assume_frozen_weights()
    folder = loaded_model.find(arguments.model)
    if arguments.batch_size < 1:
        raise UserError(f"batch_size is {arguments.batch_size}; expected 1 or more.")
    told = scored_export.about(folder)
    told["reads"] = told["reads"] | columns(arguments, told["kind"])
    scored_export.expect_readable(arguments.file, told["kind"])
    found = scored_export.score(folder, arguments.file, told, batch_size=arguments.batch_size, watched=watched)
    if arguments.json:
        print(json.dumps({"model": folder, "file": arguments.file, **vars(found)}, ensure_ascii=False))
    else:
        print(*lines(found, arguments.file), sep="\n")


def columns(arguments, kind):
    """The columns that were named; UserError for those that another kind of file has."""
    of_words = kind == scored_export.TAGS
    given = {}
    for name in ("text_columns", "label_column", "word_column", "tag_column"):
        value = getattr(arguments, name)
        if value is None:
            continue
        if kind == scored_export.QUESTIONS or (name in ("word_column", "tag_column")) is not of_words:
            expected = "tagged words" if name in ("word_column", "tag_column") else "tables"
            raise UserError(f"{name} goes with {expected}, which {arguments.model} is not asked: leave it out.")
        given[name] = value
    return given


def watched(rows):
    """Yields the rows; shows how many there were."""
    with progress("evaluating") as report:
        for done, row in enumerate(rows, 1):
            yield row
            report(done)


def lines(found, path):
    """Scores and classes for reading."""
    yield f"{found.task} on {found.examples:,} examples of {path}:"
    for name, value in found.scores.items():
        yield f"  {name:26} {value:,}" if isinstance(value, int) else f"  {name:26} {value:.4f}"
    for row in found.details.get("per_class", []):
        yield "  {label:26} precision {precision:.3f}  recall {recall:.3f}  F1 {f1:.3f}  of {count}".format(**row)
    if "questions" in found.details:
        from bert_tf.tasks.question_answering import answer_highlights

        yield from answer_highlights.sentences(found.details["questions"])

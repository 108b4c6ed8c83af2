"""Evaluates an export on a labelled file: accuracy and F1 of texts, exact match of answers, F1 of entities.

  bert-tf evaluate runs/sst2 --file=dev.tsv
  bert-tf evaluate runs/table --file=reviews.csv --text_columns=review --label_column=stars --json
  bert-tf evaluate runs/squad --file=dev-v2.0.json

MODEL is the folder of an export or of a run with one (`bert-tf export` makes it), or a checkpoint with a head in any
format. FILE has the format of the training
data: a table with labels (.tsv, .csv, .jsonl, GLUE or SWAG files), questions in SQuAD format, or words and tags in
columns. Columns are those of the training data by default. The scores are the ones printed in training; for questions
with the no-answer threshold of the export.

Of the run of a pre-training, FILE is a text like its eval_file, and the scores are the losses and accuracies of its own
evaluation:

  bert-tf evaluate runs/pretraining --file=held_out.txt

Of an index, FILE is a table of queries and the ids of the texts that answer them (--text_columns=query and
--label_column=id by default); the scores are nDCG@10, MRR@10 and recall@k of `bert-tf search`:

  bert-tf evaluate my_index --file=queries.csv --reranker=runs/reranker

An export is a program: load only what you trust. Those that read or write files are refused.
"""

import argparse
import functools
import json
from collections.abc import Iterator
from typing import Any

from bert_tf.cli import shared_flags
from bert_tf.config import segments
from bert_tf.errors import count_text
from bert_tf.export import loaded_model
from bert_tf.heads.span import answer_highlights
from bert_tf.recipes.finetuning import scored_export
from bert_tf.runtime.lazy import module
from bert_tf.runtime.progress import counted
from bert_tf.training.run_directory import is_pretraining

index_files = module("bert_tf.extras.search.index_files")
retrieval_scores = module("bert_tf.extras.search.retrieval_scores")
search_flags = module("bert_tf.extras.search.search_flags")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="folder of an export, of a run with one, or a checkpoint")
    parser.add_argument("--file", required=True, help="labeled texts, questions or tagged words, or plain text")
    shared_flags.add_columns(parser)
    shared_flags.add_segments(parser)
    shared_flags.add_inference(parser)
    parser.add_argument("--batch_size", type=int, help="examples per batch (32; 2048 compiled by XLA)")
    search_flags.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> None:
    shared_flags.set_up(arguments)
    is_index = index_files.is_index(arguments.model)
    if is_index or is_pretraining(arguments.model):
        segments.check_unused(arguments.model)
    if is_index:
        retrieval_scores.evaluate(arguments)
        return
    search_flags.check_unused(arguments)
    shared_flags.check_batch_size(arguments)
    if is_pretraining(arguments.model):
        from bert_tf.recipes.pretraining import scored_text  # its packages are missing in server installations

        folder = arguments.model
        result = scored_text.score(
            folder, arguments.file, batch_size=arguments.batch_size, jit_compile=arguments.jit_compile
        )
    else:
        folder = loaded_model.find(arguments.model)
        result = _scored_export(arguments, folder)
    if arguments.json:
        print(json.dumps({"model": folder, "file": arguments.file, **vars(result)}, ensure_ascii=False))
    else:
        print(*_lines(result, arguments.model, arguments.file), sep="\n")


def _scored_export(arguments: argparse.Namespace, folder: str) -> scored_export.Scored:
    """The scores of an export or a checkpoint on a labeled file."""
    about = scored_export.about(folder)
    about["reads"] = about["reads"] | shared_flags.given_columns(arguments, arguments.model, about["kind"])
    scored_export.check_file(arguments.file, about)
    texts = None if loaded_model.is_export(folder) else scored_export.number_of_texts(arguments.file, about)
    return scored_export.score(
        folder,
        arguments.file,
        about,
        texts=texts,
        batch_size=arguments.batch_size,
        report=functools.partial(counted, name="evaluating"),
        jit_compile=arguments.jit_compile,
        engine=shared_flags.chosen_engine(arguments, folder),
    )


def _lines(result: Any, model: str, path: str) -> Iterator[str]:
    yield f"{model} on {count_text(result.examples, 'example')} of {path}:"
    for name, value in result.scores.items():
        yield f"  {name:26} {value:,}" if isinstance(value, int) else f"  {name:26} {value:.4f}"
    for row in result.details.get("per_class", []):
        yield "  {label:26} precision {precision:.3f}  recall {recall:.3f}  F1 {f1:.3f}  of {count}".format(**row)
    if "questions" in result.details:
        yield from answer_highlights.summarize(result.details["questions"])

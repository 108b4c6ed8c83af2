"""Flags that name the columns of a labelled file."""

import argparse

from bert_tf.errors import UserError
from bert_tf.recipes.finetuning import scored_export

TAG_COLUMNS = ("word_column", "tag_column")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds them."""
    parser.add_argument("--text_columns", metavar="NAMES", help="comma-separated text columns of a table")
    parser.add_argument("--label_column", metavar="NAME", help="label column of a table")
    parser.add_argument("--word_column", type=int, help="word column of tagged words, from 1")
    parser.add_argument("--tag_column", type=int, help="tag column of tagged words; -1 is the last")


def given(arguments: argparse.Namespace, model: str, kind: str) -> dict[str, str | int]:
    """The columns on the command line; raises UserError for those of another kind of file than a model's."""
    columns = {}
    for name in ("text_columns", "label_column", *TAG_COLUMNS):
        value = getattr(arguments, name)
        if value is None:
            continue
        if kind == scored_export.QUESTIONS or (name in TAG_COLUMNS) != (kind == scored_export.TAGS):
            expected = "tagged words" if name in TAG_COLUMNS else "tables"
            raise UserError(f"{name} applies to {expected}, which {model} does not take: leave it out.")
        columns[name] = value
    return columns

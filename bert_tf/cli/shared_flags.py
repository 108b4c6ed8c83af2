"""Flags shared by several commands."""

import argparse
import dataclasses
import sys

from bert_tf import heads
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config import segments
from bert_tf.config.device_options import XLA_CACHE_HELP
from bert_tf.config.train_config import JIT_CHOICES
from bert_tf.errors import UserError, leave_out
from bert_tf.export import opening
from bert_tf.export.opening import AUTO, CHOICES, TENSORFLOW
from bert_tf.runtime import machine, process, tensorflow_startup
from bert_tf.text import special_tokens, vocabulary


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Adds --trust_code, for the commands that read folders."""
    help = "import modules from outside this package named in files, such as an encoder or a task"
    parser.add_argument("--trust_code", action="store_true", help=help)


def add_inference(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of commands that run inference with a user's folder."""
    add_engine(parser)
    add_devices(parser)
    add_trust(parser)


def add_num_texts(parser: argparse.ArgumentParser) -> None:
    """Adds --num_texts, the number of texts per example, which a checkpoint does not specify."""
    parser.add_argument(
        "--num_texts",
        type=int,
        help="texts per example, for a checkpoint: 2 for pairs, number of choices plus 1 for multiple choice (1; 2 for "
        "an NLI model or a cross-encoder)",
    )


def add_devices(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of commands for inference: XLA and its cache, and the precision of matrix products on GPUs."""
    parser.add_argument(
        "--jit_compile",
        choices=JIT_CHOICES,
        default="auto",
        help="compile the model with XLA, in a few static shapes of rows that the host fills with texts (on GPUs)",
    )
    parser.add_argument(
        "--gpu_memory_growth",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="allocate GPU memory on demand, not nearly all of it at the start",
    )
    parser.add_argument(
        "--tf32",
        action="store_true",
        help="multiply float32 in TF32 on GPUs: several times as fast, with 10 bits of mantissa",
    )
    parser.add_argument("--xla_cache", default=process.DEFAULT_CACHE, metavar="FOLDER", help=XLA_CACHE_HELP)


def set_up(arguments: argparse.Namespace) -> None:
    """Sets up a process for inference only, before TensorFlow is imported."""
    process.assume_frozen_weights()
    if arguments.gpu_memory_growth:
        machine.grow_memory()
    if arguments.tf32:
        tensorflow_startup.allow_tf32()
    process.set_up_xla(arguments.xla_cache)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Adds --engine, for commands that run inference."""
    parser.add_argument(
        "--engine",
        default=AUTO,
        metavar="NAME",
        help=f"engine: {', '.join(CHOICES)} (auto: the fastest installed one that the export has a model for; see "
        "`bert-tf export --engine`)",
    )


def chosen_engine(arguments: argparse.Namespace, folder: str) -> str:
    """The engine for an export; printed if the flag does not name one."""
    if arguments.engine == AUTO and arguments.jit_compile == "true":
        return TENSORFLOW
    name = opening.choose(folder, arguments.engine)
    say_engine(arguments, name)
    return name


def say_engine(arguments: argparse.Namespace, name: str) -> None:
    """Prints the engine in use, if the flag does not name one."""
    if arguments.engine == AUTO and name != TENSORFLOW:
        print(f"Runs on {name}; --engine={TENSORFLOW} uses TensorFlow.", file=sys.stderr)


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Adds --vocab_file, --do_lower_case, --special_tokens_in_strings and --segments, which checkpoints may lack."""
    parser.add_argument("--vocab_file", help="vocab.txt of the checkpoint, if it has none")
    parser.add_argument(
        "--do_lower_case",
        choices=("true", "false"),
        help="whether the checkpoint is uncased, if its files do not specify it",
    )
    parser.add_argument(
        "--special_tokens_in_strings",
        default="",
        help="special tokens recognized in texts: all, none, or the five and these: [E1],[/E1] (as in the checkpoint)",
    )
    add_segments(parser)


def add_segments(parser: argparse.ArgumentParser) -> None:
    """Adds --segments, for the commands that read checkpoints; `cli.main` applies it."""
    parser.add_argument("--segments", choices=segments.SEGMENTS, help=segments.HELP)


def complete_checkpoint(checkpoint: Checkpoint, arguments: argparse.Namespace) -> Checkpoint:
    """Returns the checkpoint with vocabulary and casing from the flags; raises UserError if they contradict it."""
    if arguments.vocab_file:
        tokens = vocabulary.read(arguments.vocab_file)
        if checkpoint.vocabulary is not None:
            tokens = vocabulary.with_settings(tokens, vocabulary.settings_of(checkpoint.vocabulary))
        checkpoint = dataclasses.replace(checkpoint, vocabulary=tokens)
    if arguments.do_lower_case:
        lower_case = arguments.do_lower_case == "true"
        if checkpoint.lower_case not in (None, lower_case):
            raise UserError(
                f"--do_lower_case={arguments.do_lower_case}: {arguments.source} is "
                f"{'un' if checkpoint.lower_case else ''}cased. Remove the flag."
            )
        checkpoint = dataclasses.replace(checkpoint, lower_case=lower_case)
    elif checkpoint.vocabulary is not None:
        checkpoint = dataclasses.replace(checkpoint, lower_case=checkpoint.lowers_case)
    chosen = special_tokens.parse(
        arguments.special_tokens_in_strings, checkpoint.special_tokens, checkpoint.added_tokens
    )
    recognized = special_tokens.choose(chosen, checkpoint.vocabulary or ())
    checkpoint = dataclasses.replace(checkpoint, special_tokens=recognized)
    own, expected = checkpoint.vocabulary, checkpoint.config.vocab_size
    if own is not None and len(own) != expected:
        raise UserError(
            f"The vocabulary of {arguments.source} has {len(own)} tokens, but its model expects {expected}: "
            "pass the matching vocab.txt as --vocab_file."
        )
    return checkpoint


def check_batch_size(arguments: argparse.Namespace) -> None:
    """Raises UserError for a batch without texts."""
    if arguments.batch_size is not None and arguments.batch_size < 1:
        raise UserError(f"batch_size is {arguments.batch_size}; expected 1 or more.")


TAG_COLUMNS = ("word_column", "tag_column")


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Adds the flags for the columns of a labeled file."""
    parser.add_argument("--text_columns", "--text", metavar="NAMES", help="comma-separated text columns of a table")
    parser.add_argument("--label_column", "--label", metavar="NAME", help="label column of a table")
    parser.add_argument("--word_column", type=int, help="word column of tagged words, from 1")
    parser.add_argument("--tag_column", type=int, help="tag column of tagged words; -1 is the last")


def given_columns(arguments: argparse.Namespace, model: str, kind: str) -> dict[str, str | int]:
    """The columns on the command line; raises UserError for columns of the wrong kind of file for the model."""
    columns = {}
    for name in ("text_columns", "label_column", *TAG_COLUMNS):
        value = getattr(arguments, name)
        if value is None:
            continue
        if name not in heads.get(kind).wording().labelled_columns:
            expected = "tagged words" if name in TAG_COLUMNS else "tables"
            raise leave_out(f"{name} applies to {expected}, which {model} does not take")
        columns[name] = value
    return columns

"""--vocab_file, --do_lower_case and --special_tokens_in_strings: what a checkpoint may lack."""

import argparse
import dataclasses

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.text import special_tokens, vocabulary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the three flags."""
    parser.add_argument("--vocab_file", help="vocab.txt of the checkpoint, if it has none")
    parser.add_argument(
        "--do_lower_case", choices=("true", "false"), help="whether the checkpoint is uncased, if it does not say"
    )
    parser.add_argument(
        "--special_tokens_in_strings",
        default="",
        help="special tokens recognized in texts: all, none, or the five and these: [E1],[/E1] (as in the checkpoint)",
    )


def complete(checkpoint: Checkpoint, arguments: argparse.Namespace) -> Checkpoint:
    """Returns the checkpoint with the vocabulary and casing of the flags; raises UserError if they contradict it."""
    if arguments.vocab_file:
        tokens = vocabulary.read(arguments.vocab_file)
        if checkpoint.vocabulary is not None:
            tokens = vocabulary.with_settings(tokens, vocabulary.settings_of(checkpoint.vocabulary))
        checkpoint = dataclasses.replace(checkpoint, vocabulary=tokens)
    if arguments.do_lower_case:
        lower_case = arguments.do_lower_case == "true"
        if checkpoint.lower_case not in (None, lower_case):
            raise UserError(
                f"--do_lower_case={arguments.do_lower_case} was given, but {arguments.source} is "
                f"{'un' if checkpoint.lower_case else ''}cased: leave the flag out."
            )
        checkpoint = dataclasses.replace(checkpoint, lower_case=lower_case)
    chosen = special_tokens.parse(arguments.special_tokens_in_strings, checkpoint)
    recognized = special_tokens.choose(chosen, checkpoint.vocabulary or ())
    checkpoint = dataclasses.replace(checkpoint, special_tokens=recognized)
    own, expected = checkpoint.vocabulary, checkpoint.config.vocab_size
    if own is not None and len(own) != expected:
        raise UserError(
            f"The vocabulary of {arguments.source} has {len(own)} tokens, but its model expects {expected}: "
            "pass the matching vocab.txt as --vocab_file."
        )
    return checkpoint

"""--trust_code, of the commands that read folders."""

import argparse
import contextlib

from bert_tf.runtime import plugins


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flag."""
    help = "import modules outside of this package that files name, such as an encoder or a task"
    parser.add_argument("--trust_code", action="store_true", help=help)


def trusting(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Lets files name code in the block if the flag is given."""
    return plugins.trusting(everything=getattr(arguments, "trust_code", False))

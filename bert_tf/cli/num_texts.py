"""--num_texts: how many texts an example has, which a checkpoint does not say."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flag."""
    parser.add_argument(
        "--num_texts",
        type=int,
        help="texts of an example, for a checkpoint: 2 for pairs, of choices one more than there are (1; 2 for a model "
        "of entailment, or a cross-encoder)",
    )

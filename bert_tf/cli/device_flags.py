"""Flags of commands for inference: XLA, where it stores what it has compiled, and how GPUs multiply."""

import argparse

from bert_tf.config.flag_groups import XLA_CACHE_HELP
from bert_tf.config.train_config import JIT_CHOICES
from bert_tf.runtime import accelerators, tensorflow_startup, xla_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds them."""
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
        help="take memory of GPUs as it is needed, not nearly all of it at the start",
    )
    parser.add_argument(
        "--tf32",
        action="store_true",
        help="multiply float32 in TF32 on GPUs: several times as fast, with 10 bits of mantissa",
    )
    parser.add_argument("--xla_cache", default=xla_options.DEFAULT_CACHE, metavar="FOLDER", help=XLA_CACHE_HELP)


def apply(arguments: argparse.Namespace) -> None:
    """Sets up the process, before TensorFlow is imported."""
    if arguments.gpu_memory_growth:
        accelerators.grow_memory()
    if arguments.tf32:
        tensorflow_startup.allow_tf32()
    xla_options.set_up(arguments.xla_cache)

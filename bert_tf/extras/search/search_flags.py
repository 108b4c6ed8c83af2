"""Flags for searching an index."""

import argparse

from bert_tf.errors import leave_out
from bert_tf.export import loaded_model
from bert_tf.export.opening import AUTO
from bert_tf.extras.search.index import Index
from bert_tf.extras.search.index_files import IndexFiles

NAMES = {"method": "auto", "exact": False, "reranker": "", "reranker_label": ""}  # {flag: default}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
    parser.add_argument(
        "--method",
        choices=("auto", "vectors", "bm25", "hybrid"),
        default="auto",
        help="by vectors, by words, or both (auto: both, if the index was made with --bm25)",
    )
    parser.add_argument("--exact", action="store_true", help="compare every text, even if there is a graph")
    parser.add_argument("--reranker", default="", metavar="MODEL", help="export or run of a cross-encoder")
    parser.add_argument("--reranker_label", default="", metavar="LABEL", help="the class that means a match")


def check_unused(arguments: argparse.Namespace) -> None:
    """Raises UserError for any of these flags, because no index is searched."""
    given = [name for name, default in NAMES.items() if getattr(arguments, name) != default]
    if given:
        raise leave_out(f"{given[0]} requires an index")


def index_of(arguments: argparse.Namespace, folder: str, model: str = "") -> Index:
    """The index in a folder, set up according to the flags; model: see `Index`."""
    IndexFiles(folder)  # report errors in the folder before loading TensorFlow
    if arguments.reranker:
        loaded_model.find(arguments.reranker)
    flags = {name: getattr(arguments, name) for name in NAMES}
    return Index(folder, model=model, engine=getattr(arguments, "engine", AUTO), **flags)

"""Flags of `bert-tf extract`, and the vectors they select."""

import argparse
import dataclasses
import sys

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import shared_flags
from bert_tf.config.flag_groups import EXPORT_PRECISIONS
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.errors import UserError, leave_out
from bert_tf.export import loaded_model, prediction_inputs
from bert_tf.extras.beam import bulk_files
from bert_tf.extras.features import feature_files
from bert_tf.heads.vectors import sentence_choice, vector_choice
from bert_tf.heads.vectors.sentence_choice import SentenceOptions
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.runtime import files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
    parser.add_argument("source", metavar="MODEL", help="checkpoint to read, or run folder")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", help="a single text, or a pair as 'one ||| another'")
    source.add_argument("--file", help="texts: .txt, .tsv, .csv, .jsonl, or - for standard input")
    bulk_files.add_arguments(parser, source)
    source.add_argument("--export", metavar="FOLDER", help="write a SavedModel that maps texts to embeddings")
    parser.add_argument("--attention", action="store_true", help="export a signature that returns attention weights")
    parser.add_argument("--output", help="file to write (JSON lines on standard output)")
    parser.add_argument("--format", choices=feature_files.FORMATS, help="format of the output (by its extension)")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing output")
    parser.add_argument("--unit", choices=vector_choice.UNITS, help="unit of each embedding (token)")
    parser.add_argument("--layers", default="last", help="layers to extract (last)")
    parser.add_argument("--layer_weights", default="", metavar="NUMBERS", help="return one weighted sum of the layers")
    parser.add_argument("--pooling", help="pooling of tokens: mean, cls, max, mean+max, ...")
    parser.add_argument("--word_vectors", choices=vector_choice.WORD_VECTORS, help="which tokens of a word (first)")
    parser.add_argument("--words", choices=vector_choice.WORDS, help="split words as BERT does (text), or at spaces")
    optional = argparse.BooleanOptionalAction
    parser.add_argument("--normalize", action=optional, default=None, help="scale embeddings to unit length")
    parser.add_argument("--prompt_name", metavar="NAME", help="prompt of MODEL for each text, such as query")
    parser.add_argument("--prompt", metavar="TEXT", help="text to prepend to each text instead")
    parser.add_argument("--truncate_dim", type=int, metavar="N", help="dimensions of a sentence embedding to keep")
    parser.add_argument("--max_seq_length", type=int, help="tokens per model input (as in MODEL, else 128)")
    parser.add_argument("--long_texts", choices=sentence_choice.LONG_TEXTS, help="(cut as in MODEL, else windows)")
    parser.add_argument("--doc_stride", type=int, default=0, help="stride of windows (half of max_seq_length)")
    parser.add_argument("--text_columns", metavar="NAMES", help="column of FILE with the text, or two with pairs")
    parser.add_argument("--id_column", metavar="NAME", help="column of FILE with an id to write too")
    shared_flags.add_checkpoint(parser)
    parser.add_argument("--precision", choices=(*EXPORT_PRECISIONS, "auto"), default="float32", help="(float32)")
    shared_flags.add_inference(parser)
    parser.add_argument("--batch_size", type=int, default=256, help="texts per batch (256)")


def check(arguments: argparse.Namespace) -> None:
    """Raises UserError for inconsistent flags and missing files, before TensorFlow is loaded."""
    check_combinations(arguments)
    parts = vector_choice.parse_layers(arguments.layers)
    vector_choice.parse_weights(arguments.layer_weights)
    if arguments.pooling is not None:
        sentence_choice.check_pooling(arguments.pooling)
    if arguments.pooling == "pooled" and (len(parts) > 1 or parts[0] not in ("last", -1) or arguments.layer_weights):
        raise UserError("pooling=pooled uses the last layer: remove layers and layer_weights.")
    if arguments.file is not None:
        prediction_inputs.check_readable(arguments.file)
        if arguments.output and files.same(arguments.output, arguments.file):
            raise UserError(f"output and file are both {arguments.output}: choose another name for the embeddings.")
    if arguments.output is not None:
        feature_files.check_writable(arguments.output, overwrite=arguments.overwrite, kind=arguments.format)
    if arguments.export is not None:
        loaded_model.check_free(arguments.export, overwrite=arguments.overwrite)


def check_combinations(arguments: argparse.Namespace) -> None:
    """Raises UserError for incompatible flags and numbers out of range."""
    unit = arguments.unit or "token"
    for name, is_applicable, required in (
        ("pooling", unit == "sentence" or arguments.export, "unit=sentence"),
        ("prompt_name", unit == "sentence" or arguments.export, "unit=sentence"),
        ("prompt", unit == "sentence" or arguments.export, "unit=sentence"),
        ("truncate_dim", unit == "sentence" or arguments.export, "unit=sentence"),
        ("word_vectors", unit == "word" and not arguments.export, "unit=word"),
        ("words", unit == "word" and not arguments.export, "unit=word"),
        ("attention", arguments.export, "export"),
        ("unit", not arguments.export, "text or file"),
        ("output", not arguments.export, "text or file"),
        ("text_columns", arguments.file, "file or input"),
        ("id_column", arguments.file, "file or input"),
        ("format", arguments.output, "output"),
        ("doc_stride", arguments.long_texts != "cut", "long_texts=windows"),
    ):
        if getattr(arguments, name) and not is_applicable:
            raise leave_out(f"{name} requires {required}")
    if arguments.export and arguments.precision == "auto":
        raise UserError(
            "precision=auto suits this machine, and an export may run on another: "
            f"pass one of {', '.join(EXPORT_PRECISIONS)}."
        )
    shared_flags.check_batch_size(arguments)
    sentence_choice.check_length(arguments.max_seq_length, arguments.doc_stride)


def choose(arguments: argparse.Namespace, checkpoint: Checkpoint) -> VectorChoice:
    """The VectorChoice from the flags; raises UserError for anything the model lacks or that is not supported."""
    unit = arguments.unit or "token"
    recorded = checkpoint.sentence_vectors
    if recorded is not None and not (unit == "sentence" or arguments.export):  # tokens only need the length
        recorded = SentenceVectors(max_seq_length=recorded.max_seq_length)
    names = [field.name for field in dataclasses.fields(SentenceOptions)]
    options = SentenceOptions(**{name: getattr(arguments, name) for name in names})
    if not (unit == "sentence" or arguments.export) and not options.long_texts:
        options = dataclasses.replace(options, long_texts="windows")
    choice = sentence_choice.choose(
        recorded,
        options,
        path=arguments.source,
        config=checkpoint.config,
        layers=arguments.layers,
        layer_weights=arguments.layer_weights,
        unit=unit,
        word_vectors=arguments.word_vectors or "first",
        words=arguments.words or "text",
    )
    if recorded is not None and (unit == "sentence" or arguments.export):
        print(_described(arguments.source, choice), file=sys.stderr)
    return choice


def _described(source: str, choice: VectorChoice) -> str:
    """A line on the model's embedding settings, including changes by flags."""
    parts = [choice.pooling, *(layer.kind.replace("normalize", "normalized") for layer in choice.after)]
    if choice.truncate_dim is not None:
        parts.append(f"{choice.truncate_dim} numbers")
    if not choice.stride:
        parts.append(f"texts truncated at {choice.max_seq_length} tokens")
    if choice.prompt:
        parts.append(f"prompt {choice.prompt!r}")
    return f"Vectors as specified by {source}: {', '.join(parts)}."

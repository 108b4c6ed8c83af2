"""Converts a checkpoint to another format, or for another engine, with its configuration and vocabulary.

  bert-tf convert uncased_L-12_H-768_A-12 bert-base --format=huggingface
  bert-tf convert runs/pretraining my-bert --format=google_tf
  bert-tf convert runs/sst2 sst2-openvino --format=openvino --quantize=int8
  bert-tf convert uncased_L-12_H-768_A-12 with-my-words --format=native --new_vocab_file=longer.txt

FROM is a folder (also of a run or an export), the prefix of a TF1 checkpoint, hf://owner/name, or the name of a
KerasHub preset; its format is detected. TO is a new folder, written completely or not at all. The activation, the
LayerNorm epsilon and casing are translated. For an engine, TO holds a function of token ids whose outputs have been
compared with the model's: docs/serving.md.

With --new_vocab_file, tokens in both vocabularies keep their embeddings; a new one starts as the mean of the tokens it
was split into before. With --max_position_embeddings the model takes longer inputs: new position embeddings start as
copies of the existing ones. Both need further training (bert-tf pretrain --init_checkpoint=TO).
"""

import argparse
import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.resize_positions import with_positions
from bert_tf.checkpoints.resize_vocabulary import with_vocabulary
from bert_tf.cli import shared_flags
from bert_tf.errors import UserError
from bert_tf.export import engines
from bert_tf.model import weights
from bert_tf.reports import model_card
from bert_tf.runtime import files, plugins
from bert_tf.runtime.atomic_files import check_free
from bert_tf.text import vocabulary

CALIBRATION_LINES = 300  # more do not change the calibration
HOLDING_VECTORS = ("huggingface", "native")  # formats that store sentence-transformers settings
RESIZING_FLAGS = ("new_vocab_file", "max_position_embeddings")  # the model needs more training


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="checkpoint to read")
    parser.add_argument("target", metavar="TO", help="folder to write")
    names = plugins.Choices([*formats.writable_names(), *engines.names()])
    parser.add_argument("--format", required=True, choices=names, help="format of TO, or the module of one")
    parser.add_argument("--source_format", metavar="FORMAT", help="format of FROM (detected)")
    parser.add_argument("--quantize", choices=engines.QUANTIZED, help="quantize the weights, for an engine")
    parser.add_argument(
        "--calibration_file", help="texts, one per line, to compare outputs on and to calibrate OpenVINO's int8"
    )
    shared_flags.add_checkpoint(parser)
    shared_flags.add_trust(parser)
    parser.add_argument("--new_vocab_file", help="vocab.txt for TO instead of the checkpoint's")
    parser.add_argument("--max_position_embeddings", type=int, help="number of positions for TO")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> None:
    check_free(arguments.target)
    if engines.is_engine(arguments.format):
        for flag in RESIZING_FLAGS:
            if getattr(arguments, flag) is not None:
                raise UserError(f"--{flag} applies to checkpoint formats: convert twice, and train in between.")
        _write_for_engine(arguments)
        return
    for flag in ("quantize", "calibration_file"):
        if getattr(arguments, flag):
            raise UserError(f"--{flag} applies to engines: pass --format={' or '.join(engines.names())}.")
    new = vocabulary.read(arguments.new_vocab_file) if arguments.new_vocab_file else None
    checkpoint = _read(arguments)
    from bert_tf.checkpoints import pretrained

    report = weights.compared(pretrained.model_of(checkpoint), checkpoint.weights)
    weights.check_same_shapes(report)
    lines = [f"{arguments.source}: {report}"]
    if new is not None:
        checkpoint, change = with_vocabulary(checkpoint, new)
        lines.append(str(change))
    if arguments.max_position_embeddings is not None:
        before = checkpoint.config.max_position_embeddings
        checkpoint = with_positions(checkpoint, arguments.max_position_embeddings)
        lines.append(f"{arguments.max_position_embeddings} positions instead of {before}.")
    if not arguments.json:
        print(*lines, sep="\n", flush=True)
    left_out = formats.write(checkpoint, arguments.target, arguments.format)
    model_card.write_of_conversion(checkpoint, arguments.source, arguments.target, arguments.format)
    if arguments.json:
        print(json.dumps(_as_json(arguments, checkpoint, report, left_out), ensure_ascii=False))
    else:
        print(*_lines(arguments, checkpoint, left_out), sep="\n")


def _read(arguments: argparse.Namespace) -> Checkpoint:
    """The checkpoint with the settings from the flags."""
    checkpoint = formats.read(arguments.source, arguments.source_format)
    return shared_flags.complete_checkpoint(checkpoint, arguments)


def _write_for_engine(arguments: argparse.Namespace) -> None:
    """Converts the checkpoint for an engine and prints its size, speed and differences."""
    texts = () if arguments.calibration_file is None else _read_texts(arguments.calibration_file)
    engines.engine_of(arguments.format, arguments.quantize)  # report a missing package before reading anything
    checkpoint = _read(arguments)
    from bert_tf.export import engine_folders

    written = engine_folders.write(
        checkpoint, arguments.target, arguments.format, quantize=arguments.quantize, texts=texts
    )
    model_card.write_of_conversion(checkpoint, arguments.source, arguments.target, arguments.format)
    if arguments.json:
        paths = {"source": arguments.source, "target": arguments.target, "format": arguments.format}
        print(json.dumps({**paths, **dataclasses.asdict(written)}))
        return
    print(f"{arguments.source}: {written.report}", *engine_folders.table([written]), sep="\n")
    print(f"Wrote {arguments.target} for {arguments.format}.", *_notes(arguments, checkpoint), sep="\n")


def _read_texts(path: str) -> list[str]:
    """The first non-empty lines of a file; raises UserError if there are none."""
    try:
        with files.open_text(path) as file:
            texts = [line.strip() for line in itertools.islice(file, CALIBRATION_LINES) if line.strip()]
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: pass texts, one per line.") from None
    if not texts:
        raise UserError(f"{path} contains no text: pass texts, one per line.")
    return texts


def _as_json(
    arguments: argparse.Namespace, checkpoint: Checkpoint, report: Any, left_out: Iterable[str]
) -> dict[str, Any]:
    paths = {"source": arguments.source, "target": arguments.target, "format": arguments.format}
    known = {"lower_case": checkpoint.lower_case, "labels": checkpoint.labels, "kind": checkpoint.kind}
    size = None if checkpoint.vocabulary is None else len(checkpoint.vocabulary)
    weights = {name: getattr(report, name) for name in ("loaded", "newly_initialized", "unused", "shape_mismatch")}
    return {**paths, "pieces": size, **known, **weights, "left_out": list(left_out)}


def _lines(arguments: argparse.Namespace, checkpoint: Checkpoint, left_out: Sequence[str]) -> Iterator[str]:
    for name in left_out:
        yield f"  dropped {name}, which the format {arguments.format} cannot store"
    yield f"Wrote {len(checkpoint.weights) - len(left_out)} weights to {arguments.target} as {arguments.format}."
    yield from _notes(arguments, checkpoint, has_head="classifier/bias" not in left_out)


def _notes(arguments: argparse.Namespace, checkpoint: Checkpoint, *, has_head: bool = True) -> Iterator[str]:
    """Notes on the labels, and on parts missing in the checkpoint or the format."""
    vectors = checkpoint.sentence_vectors
    holds_vectors = arguments.format in HOLDING_VECTORS
    if arguments.format == "keras_hub":
        holds_vectors = formats.load("keras_hub").holds_vectors(checkpoint)
    if vectors is not None and (vectors.unsupported or not holds_vectors):
        what = (
            f"{vectors.unsupported} is not supported" if vectors.unsupported else f"{arguments.format} cannot store it"
        )
        yield f"The embedding settings of {arguments.source} were not written because {what}: embeddings will differ."
    settings, format_name = vocabulary.settings_of(checkpoint.vocabulary or ()), arguments.format
    if format_name in ("huggingface", "google_tf"):
        of_huggingface = format_name == "huggingface"
        whose, longer, sigma = (
            ("transformers", "longer", "σ") if of_huggingface else ("google-research/bert", "first", "ς")
        )
        if has_head and checkpoint.kind in heads.text_kinds() and settings.odd_to_longer != of_huggingface:
            yield f"{whose} keeps one more token of the {longer} of two long texts if their total is odd."
        has_finals = any("ς" in token for token in checkpoint.vocabulary or ())
        if checkpoint.lower_case and has_finals and settings.no_final_sigma != of_huggingface:
            yield f"At the end of a word, {whose} lower-cases a Greek Σ to {sigma}, unlike this model."
    if format_name == "keras_hub" and (settings.odd_to_longer or settings.one_segment):
        yield "Pairs are truncated and get segments as in KerasHub, which may change predictions."
    layout = formats.load("huggingface").LAYOUTS.get(checkpoint.config.encoder)
    for name, reason in layout.unused.items() if layout else ():
        yield f"{name} is not written because {reason}."
    if checkpoint.labels and has_head:
        yield f"Labels: {', '.join(checkpoint.labels)}."
    if checkpoint.vocabulary is None:
        yield f"No vocabulary was written because {arguments.source} has none: pass it as --vocab_file."
    if checkpoint.lower_case is None:
        yield f"No casing was written because {arguments.source} does not specify it: pass --do_lower_case."

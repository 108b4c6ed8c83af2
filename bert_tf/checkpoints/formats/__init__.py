"""Checkpoint formats, plugins: `recognizes(path)`, `read(path)` and usually `write(checkpoint, folder)`.

docs/adding_a_checkpoint_format.md describes the contents of a module.
"""

import dataclasses
import logging
import os
import re
import sys
from types import ModuleType

import numpy as np

from bert_tf.checkpoints import keras_files, published, torch_folders
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.resize_positions import with_position_table
from bert_tf.config.segments import chosen
from bert_tf.errors import UserError, listed, reason_of
from bert_tf.model.weights import BETWEEN, HEADS, PRE_TRAINED, holds_floats
from bert_tf.runtime import atomic_files, files, plugins
from bert_tf.runtime.lazy import module
from bert_tf.runtime.settings import shortened
from bert_tf.runtime.tensorflow_startup import check_installed

huggingface_hub = module("huggingface_hub")
HUB = "hf://"
PRESET = re.compile(r"[a-z0-9.]+(_[a-z0-9.]+){2,}")  # such as bert_base_en; KerasHub knows the full list
# Runs write adapters, `bert_tf.export.saved_model` exports, and `Bert.save` Keras files.
READ_ONLY = ("keras_file", "peft", "saved_model", "word_vectors")
# Files on a model hub that a format may read; each further list only if no weights were found before.
HUB_FILES = ["*.json", "vocab.txt", "merges.txt", "model*.safetensors", "*.weights.h5"]
HUB_FILES += ["spiece.model", "sentencepiece.bpe.model", "spm.model"]
HUB_FILES += ["assets/tokenizer/*", "bert_model.ckpt.*", "adapter_model.safetensors"]
HUB_FILES += ["[0-9]_*/model.safetensors", "[0-9]_*/pytorch_model.bin"]  # layers of sentence-transformers
FURTHER_HUB_FILES = (["pytorch_model.bin", "pytorch_model-*.bin"], ["tf_model.h5", "tf_model-*.h5"])
# Weight files that no format reads -> what to do.
NOT_READ = {
    "flax_model.msgpack": "Flax's weights: load it with transformers 4, from_flax=True, and save it again",
    "model.onnx": "an ONNX graph: pass the checkpoint that it was made from",
}
MAX_SHOWN = 5  # names of files in an error
WANTED = (
    "expected config.json with model.safetensors, pytorch_model.bin or tf_model.h5, bert_config.json with "
    "bert_model.ckpt.index, a KerasHub preset, a SavedModel of TensorFlow Hub, a run, or an "
    "export; see docs/coming_from.md"
)


def names() -> list[str]:
    """The names of the formats of this package, without importing them."""
    return plugins.names(__name__)


def writable_names() -> list[str]:
    """The names of the formats of this package that have `write`, without importing them."""
    return [name for name in names() if name not in READ_ONLY]


def load(name: str) -> ModuleType:
    """Imports a format: one of `names()`, or a module outside of this package by its dotted name."""
    check_installed()
    module = plugins.load(__name__, name, kind="checkpoint format")
    if not hasattr(module, "recognizes") or not hasattr(module, "read"):
        raise UserError(f"The module {name} is not a checkpoint format; expected the functions recognizes and read.")
    return module


def read(path: str | os.PathLike[str], format_name: str | None = None, *, segments: str | None = None) -> Checkpoint:
    """Reads a checkpoint: a folder, a prefix of files, "hf://owner/name", or the name of a published one.

    Names come from `checkpoints.published` and KerasHub's presets.

    Args:
        path: the checkpoint.
        format_name: its format; by default the format of this package that recognizes it.
        segments: "one" or "two", for the texts of a pair; None: from `config.segments.choosing` or its files.

    Raises:
        UserError: there is no such file, no format recognizes it, or it is damaged.
    """
    path = locate(path)
    atomic_files.check_whole(path)
    if path.startswith(HUB):
        return _read_from_hub(path, format_name, segments)
    module = _format_of(path, format_name)
    if module is None:
        raise UserError(f"No checkpoint format recognizes {path}: {_reason(path, format_name)}.")
    return _checked(module.read(path), path, segments)


def _reason(path: str, format_name: str | None = None) -> str:
    """Describes the content of a path and the expected content, as far as the files show it."""
    if keras_files.is_one(path):
        name = shortened(keras_files.class_of(path))
        return f"its model has the class {name} (nothing in it was run); expected a model of KerasHub or of bert_tf"
    if not files.is_folder(path):
        folder = os.path.dirname(path) or "."
        return (
            f"it is a file; pass its folder, {folder}" if torch_folders.is_model(folder) else f"it is a file; {WANTED}"
        )
    found = sorted(files.names(path))
    held = next((name for name in NOT_READ if name in found), None)
    if held:
        return f"it contains {held}, {NOT_READ[held]}"
    if torch_folders.config_file(path):
        what = "it has a configuration but no weights"
    elif torch_folders.has_weights(path):
        what = "it has weights but no config.json to describe them"
    else:
        what = (
            f"it contains {listed(found[:MAX_SHOWN])}{' and more' * (len(found) > MAX_SHOWN)}"
            if found
            else "it is empty"
        )
    return f"{what}; {WANTED}" if format_name is None else f"{what}, and {format_name} expects something else"


def _checked(checkpoint: Checkpoint, path: str, segments: str | None = None) -> Checkpoint:
    """The checkpoint with these segments; UserError if it has no weights or non-finite ones, or is too large."""
    checkpoint.config.check_room_for_weights()
    names = [name for name in checkpoint.weights if name.startswith((*PRE_TRAINED, *HEADS))]
    if not names:
        first = f", as {next(iter(checkpoint.weights))}" if checkpoint.weights else ""
        raise UserError(
            f"{path} contains no BERT weights, only {len(checkpoint.weights)} others{first}: pass a checkpoint with "
            "weights."
        )
    strange = [name for name in names if not holds_floats(checkpoint.weights[name])]
    if strange:
        kind = checkpoint.weights[strange[0]].dtype
        raise UserError(f"{strange[0]} in {path} has values of type {kind}; expected floating-point numbers.")
    damaged = [name for name in names if not np.isfinite(checkpoint.weights[name]).all()]
    if damaged:
        raise UserError(
            f"{len(damaged)} weights in {path} contain NaN or infinity, the first is {damaged[0]}: the training that "
            "wrote them failed; pass an earlier checkpoint."
        )
    if wanted := segments or chosen():
        checkpoint = checkpoint.with_segments(wanted)
    for sentence in (*checkpoint.left_out, *filter(None, [checkpoint.segments_differ])):
        logging.getLogger("bert_tf").warning("%s: %s.", path, sentence)
    return checkpoint


def locate(path: str | os.PathLike[str]) -> str:
    """Returns the path of a checkpoint, or for the name of a published one its hf:// handle, which it prints.

    Reads no file, and loads TensorFlow only for a path in a store. Names of KerasHub presets are returned unchanged,
    known or not.

    Raises:
        UserError: there is neither a file nor a published checkpoint of that name.
    """
    path = os.fspath(path)
    if path.startswith(HUB) or files.exists_with_prefix(path):
        return path
    if handle := published.handle(path):
        print(f"{path} is {handle}.", file=sys.stderr)
        return handle
    if ("://" in path and not files.is_remote(path)) or PRESET.fullmatch(path):
        return path
    raise UserError(
        f"There is no checkpoint {path}: neither a file or folder nor the name of a published checkpoint; pass a "
        f"checkpoint folder, or the path up to .index or .ckpt.{published.suggestion(path)}"
    )


def is_checkpoint(path: str) -> bool:
    """Returns whether a path is a checkpoint, or a name that could be one on a hub; reads no weights."""
    if not files.exists_with_prefix(path):
        return bool(path.startswith(HUB) or published.handle(path) or PRESET.fullmatch(path))
    return _format_of(path) is not None


def labels(path: str | os.PathLike[str]) -> list[str] | None:
    """The labels of a fine-tuned checkpoint in a folder, without reading its weights; None if unknown."""
    path = os.fspath(path)
    module = _format_of(path) if files.exists_with_prefix(path) else None
    return module.labels(path) if module is not None and hasattr(module, "labels") else None


def write(checkpoint: Checkpoint, folder: str | os.PathLike[str], format_name: str) -> list[str]:
    """Writes a checkpoint as a new folder in a format, whole or not at all.

    Returns:
        The names of weights that the format cannot store.

    Raises:
        UserError: the format is unknown or cannot store this model, or the folder cannot be written.
    """
    module = load(format_name)
    if not hasattr(module, "write"):
        raise UserError(f"{format_name} is read-only; writable formats: {', '.join(writable_names())}.")
    written = checkpoint
    if not getattr(module, "HOLDS_ANY_ENCODER", False):
        encoder, known = checkpoint.config.encoder, getattr(module, "ENCODERS", ("bert",))
        if encoder not in known:
            raise UserError(
                f"{format_name} does not support this model's encoder {encoder!r}, only {', '.join(known)}: choose "
                "the format native."
            )
        if checkpoint.reads_mean:
            raise UserError(
                f"{format_name} supports only classifiers on [CLS], but this one reads the mean of the tokens: choose "
                "the format native, or train it with --pooling=cls."
            )
        written = with_position_table(checkpoint)
    if not getattr(module, "HOLDS_ANY_WEIGHT", False):
        written = _without_layers_between(written)
    left_out = module.write(written, folder)
    return sorted({*left_out, *(checkpoint.weights.keys() - written.weights.keys())})


def _without_layers_between(checkpoint: Checkpoint) -> Checkpoint:
    """Removes a tagger's layers between encoder and head, and the head, which is useless without them."""
    if not any(name.startswith(BETWEEN) for name in checkpoint.weights):
        return checkpoint
    weights = {
        name: array
        for name, array in checkpoint.weights.items()
        if not name.startswith((*BETWEEN, "classifier/", "crf/"))
    }
    return dataclasses.replace(checkpoint, weights=weights, labels=None, kind=None, answers={})


def _format_of(path: str, format_name: str | None = None) -> ModuleType | None:
    modules = (load(name) for name in ([format_name] if format_name else names()))
    return next((module for module in modules if module.recognizes(path)), None)


def _read_from_hub(path: str, format_name: str | None, segments: str | None) -> Checkpoint:
    """Downloads with huggingface_hub, which has its own cache and reads HF_HOME and HF_HUB_OFFLINE."""
    for patterns in (HUB_FILES, *FURTHER_HUB_FILES):
        folder = _download(path, patterns)
        module = _format_of(folder, format_name)
        if module is not None and not torch_folders.lacks_shards(folder):
            break
    if module is None:
        raise UserError(f"No checkpoint format recognizes the files of {path}: {_reason(folder, format_name)}.")
    return _checked(module.read(folder), path, segments)


def _download(path: str, patterns: list[str]) -> str:
    try:
        return str(huggingface_hub.snapshot_download(path.removeprefix(HUB), allow_patterns=patterns))
    except Exception as error:  # from the network, the hub or the cache
        raise UserError(
            f"{path} could not be fetched ({reason_of(error)}). Check the name, hf://owner/name, and the network. "
            f"Without a network, run `hf download {path.removeprefix(HUB)} --local-dir FOLDER` on another machine, "
            "copy FOLDER here and pass it in place of the name."
        ) from None

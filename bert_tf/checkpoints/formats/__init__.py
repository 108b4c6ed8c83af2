"""Checkpoint formats, one file each: `recognizes(path)`, `read(path)`, and of most `write(checkpoint, folder)`.

A new file here is a new format; docs/adding_a_checkpoint_format.md says what it holds.
"""

import dataclasses
import glob
import importlib
import os
import pkgutil

from bert_tf.checkpoints.sentence_transformers import SentenceVectors
from bert_tf.config.bert_config import BETWEEN, BertConfig
from bert_tf.errors import UserError
from bert_tf.runtime.tensorflow_startup import start_tensorflow

HUB = "hf://"
READ_ALONE = ("saved_model",)  # what no checkpoint is written as: an export is a task's
HOLD_ALL = ("native", "keras_hub")  # they have room for weights of any name
# What a format may read from a model hub; weights for torch only if there are no others, as they are the same again.
HUB_FILES = ["*.json", "vocab.txt", "model*.safetensors", "*.weights.h5", "assets/tokenizer/*", "bert_model.ckpt.*"]
HUB_FILES_OF_TORCH = ["pytorch_model.bin"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What any format holds, in our terms: `weights` is {canonical name: float32 array}; None where it says nothing.

    labels: the names of what its head sorts into, in the order of its outputs. kind: what the head answers, "class",
    "several" (any number of labels), "number", "choice", "span" or "tags" (a label for each word).
    sentence_vectors: how it was made to give vectors of whole texts.
    """

    config: BertConfig
    weights: dict
    vocabulary: list | None = None
    lower_case: bool | None = None
    labels: list | None = None
    kind: str | None = None
    sentence_vectors: SentenceVectors | None = None


def names():
    """The names of the formats, without loading them."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def written_names():
    """The names of the formats that checkpoints can be written in, without loading them."""
    return [name for name in names() if name not in READ_ALONE]


def formats():
    """{name: module} of every format in this folder; loads TensorFlow."""
    start_tensorflow()
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names()}


def read(path):
    """Reads a checkpoint in whatever format it is: a folder, a prefix of files, "hf://owner/name", a KerasHub name.

    Raises UserError where no format recognizes the path or the files in it are damaged.
    """
    path = os.fspath(path)
    if path.startswith(HUB):
        return _read_from_hub(path)
    # A wrong path is answered before TensorFlow is loaded; names of presets have no folder.
    is_there = os.sep not in path or "://" in path or glob.glob(f"{glob.escape(path)}*")
    module = _format_of(path) if is_there else None
    if module is None:
        raise UserError(f"No checkpoint format recognizes {path}. Known: {', '.join(names())}.")
    return module.read(path)


def labels(path):
    """The names of the labels of a fine-tuned checkpoint in a folder, without reading its weights; None if unknown."""
    path = os.fspath(path)
    module = _format_of(path) if os.path.exists(path) else None
    return module.labels(path) if hasattr(module, "labels") else None


def write(checkpoint, folder, format_name):
    """Writes a checkpoint as a new folder in the format of that name, whole or not at all.

    Returns the names of weights that have no place in the format. Raises UserError where it cannot be written.
    """
    known = formats()
    if format_name not in written_names():
        raise UserError(f"There is no checkpoint format {format_name!r} to write. Known: {', '.join(written_names())}.")
    encoder = checkpoint.config.encoder
    if encoder != "bert" and format_name != "native":
        raise UserError(f"{format_name} has no encoder {encoder!r}, which this model has: choose the format native.")
    placed = checkpoint if format_name in HOLD_ALL else _on_the_encoder_alone(checkpoint)
    left_out = known[format_name].write(placed, folder)
    return sorted({*left_out, *(checkpoint.weights.keys() - placed.weights.keys())})


def _on_the_encoder_alone(checkpoint):
    """Without a tagger's layers between encoder and head, and without the head: alone it would answer nonsense."""
    if not any(name.startswith(BETWEEN) for name in checkpoint.weights):
        return checkpoint
    kept = {name: x for name, x in checkpoint.weights.items() if not name.startswith((*BETWEEN, "classifier/"))}
    return dataclasses.replace(checkpoint, weights=kept, labels=None, kind=None)


def _format_of(path):
    return next((module for module in formats().values() if module.recognizes(path)), None)


def _read_from_hub(path):
    """Through huggingface_hub's own download and cache, HF_HOME and HF_HUB_OFFLINE included."""
    folder = _downloaded(path, HUB_FILES)
    module = _format_of(folder)
    if module is None:
        folder = _downloaded(path, HUB_FILES_OF_TORCH)
        module = _format_of(folder)
    if module is None:
        raise UserError(f"No checkpoint format recognizes the files of {path}. Known: {', '.join(names())}.")
    return module.read(folder)


def _downloaded(path, patterns):
    import huggingface_hub

    try:
        return huggingface_hub.snapshot_download(path.removeprefix(HUB), allow_patterns=patterns)
    except Exception as error:  # of the network, the hub or the cache
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{path} could not be fetched ({reason}): expected hf://owner/name and a network or a filled cache."
        ) from None

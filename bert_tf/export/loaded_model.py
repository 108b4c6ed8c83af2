"""Finds the model at a path, and loads a SavedModel without its model code."""

import contextlib
import glob
import importlib.util
import os
import sys
from collections.abc import Collection
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints import formats, tensorflow_weights
from bert_tf.config import segments
from bert_tf.errors import UserError, reason_of
from bert_tf.export import about_file, graph_operations
from bert_tf.export.text_function import Signatures
from bert_tf.heads.base.head import Head
from bert_tf.runtime import atomic_files, files
from bert_tf.runtime.lazy import tf

SAVED_MODEL = "saved_model.pb"


def check_free(target: str, *, overwrite: bool) -> None:
    """Raises UserError if there is anything at the target, except an export that may be overwritten."""
    if not overwrite or not files.is_file(os.path.join(target, SAVED_MODEL)):
        atomic_files.check_free(target)


def find(path: str) -> str:
    """The model at a path: an export, the path itself or `export` in a run folder; or a checkpoint.

    Raises UserError if it is neither. Loading a checkpoint shows whether it has a head.
    """
    if not path.startswith("hf://"):
        for folder in (path, os.path.join(path, "export")):
            if is_export(folder):
                atomic_files.check_whole(folder)
                segments.check_unused(folder)
                return folder
        if files.is_file(os.path.join(path, "run.json")):
            raise UserError(f"The run in {path} has no export: `bert-tf export {path}` makes it.")
    if formats.is_checkpoint(path):
        return path
    if not files.is_folder(path):
        raise UserError(f"There is no folder {path}: pass an export, a run that has one, or a checkpoint.")
    raise UserError(
        f"{path} is neither an export (it has no {SAVED_MODEL}) nor a checkpoint: pass a run's export folder."
    )


def forget_checkpoints() -> None:
    """Makes loaded checkpoints be read again, because they may have been replaced."""
    if loaded := sys.modules.get("bert_tf.export.checkpoint_predictor"):  # imported only with a checkpoint
        loaded.forget()


def is_export(folder: str) -> bool:
    """Returns whether a folder has a SavedModel to run; third-party encoders on token ids are checkpoints."""
    return files.is_file(os.path.join(folder, SAVED_MODEL)) and not tensorflow_weights.is_encoder(folder)


def on_strings(folder: str) -> Signatures:
    """The signatures of a SavedModel without functions on rows, such as one with an external head; starts TensorFlow.

    Raises UserError if it is damaged, or has no default signature that takes strings.
    """
    found = Signatures(folder, signatures(folder), about(folder))
    found.head = head_of(folder, found.outputs)
    return found


def head_of(folder: str, outputs: Collection[str], inputs: Collection[str] | None = None) -> type[Head] | None:
    """Kind of the answers of an export or a checkpoint: as specified, or by the tensors of its default signature.

    The latter also if it names an untrusted external module, or if its answers need tensors other
    than the outputs.
    """
    kind = about(folder).get("kind")
    with contextlib.suppress(UserError):
        head = heads.get(kind) if kind else None
        if head and (not outputs or head.answers_signature(None, outputs)):
            return head
    return heads.of_signature(inputs, outputs)


def signatures(folder: str) -> dict[str, Any]:
    """{name: signature} of the SavedModel in a folder; starts TensorFlow. Raises UserError like `load`."""
    return dict(load(folder).signatures)


def load(folder: str) -> Any:
    """The SavedModel in a folder; starts TensorFlow.

    Raises UserError if it is damaged, or does more than compute, see `export.graph_operations`.
    """
    graph_operations.check(folder)
    for library in text_operations():  # without the package tensorflow-text, which would load Keras too
        tf.load_op_library(library)  # loading one a second time does nothing
    try:
        return tf.saved_model.load(folder)
    except Exception as error:  # a damaged file raises anything from DecodeError to AttributeError
        raise UserError(
            f"The export {folder} cannot be loaded ({reason_of(error)}): one of its files is damaged or missing; "
            "export it again."
        ) from None


def text_operations() -> list[str]:
    """The paths of the libraries with the operations of tensorflow-text."""
    package = importlib.util.find_spec("tensorflow_text")
    folder = os.path.dirname(str(package and package.origin))
    return sorted(glob.glob(os.path.join(folder, "python", "ops", "_*.so")))


def about(folder: str) -> dict[str, Any]:
    """The content of about.json, or its equivalent for a checkpoint; {} if it is missing or damaged."""
    if not is_export(folder) and formats.is_checkpoint(folder):
        from bert_tf.export import checkpoint_predictor

        return checkpoint_predictor.about(folder)
    return about_file.read(folder)

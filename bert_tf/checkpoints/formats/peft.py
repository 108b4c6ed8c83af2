"""PEFT folders with LoRA adapters: read merged into the checkpoint that they name, and written by runs."""

import dataclasses
import os
import re
from typing import Any

from bert_tf import heads
from bert_tf.checkpoints import formats, peft_adapters
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import read_head_file
from bert_tf.checkpoints.formats import native
from bert_tf.errors import UserError
from bert_tf.heads.base import format_names
from bert_tf.runtime import files
from bert_tf.runtime.settings import TEXT

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")  # owner/name


def recognizes(path: str) -> bool:
    """Returns whether a path is a folder with both files of an adapter."""
    names = (peft_adapters.CONFIG, peft_adapters.WEIGHTS)
    return all(files.is_file(os.path.join(path, name)) for name in names)


def read(path: str) -> Checkpoint:
    """Reads the checkpoint named in adapter_config.json and adds the adapters to its kernels.

    Raises:
        UserError: the adapter does not fit the checkpoint, is of a different kind, or names itself as its base.
    """
    base = _check_no_circle(path)
    checkpoint = formats.read(base)
    adapters, head, kind = peft_adapters.read(path, checkpoint.config)
    parts = {name.split("/")[0] for name in head} - {"encoder"}
    kept = {name: array for name, array in checkpoint.weights.items() if name.split("/")[0] not in parts}
    merged = peft_adapters.merged(adapters, {**kept, **head}, path, base)
    size = len(merged["classifier/bias"]) if "classifier/bias" in merged else 0
    if parts and kind is None:
        kind = checkpoint.kind if checkpoint.kind in heads.text_kinds() else None
        kind = kind or format_names.of_size(size)
    run = os.path.dirname(files.absolute(path))  # the run that wrote the adapter, if it is one of ours
    if parts and files.is_file(os.path.join(run, native.CONFIG)):
        head = read_head_file(run, native.RUN_LABELS)
        if size == len(head["labels"] or ()):
            fields: dict[str, Any] = dict(head, weights=merged, kind=head["kind"] or kind)
            return dataclasses.replace(checkpoint, **fields)
    labels = checkpoint.labels if size == len(checkpoint.labels or ()) else None
    answers = {} if parts else checkpoint.answers
    return dataclasses.replace(checkpoint, weights=merged, kind=kind or checkpoint.kind, labels=labels, answers=answers)


def _base_of(path: str) -> str:
    """The checkpoint that an adapter names: a path, or the handle for a name on the Hugging Face hub."""
    base = peft_adapters.settings_of(path).value("base_model_name_or_path", TEXT)
    if not base:
        raise UserError(
            f"{path} does not name the model it adapts: set base_model_name_or_path in adapter_config.json."
        )
    return f"{formats.HUB}{base}" if HUB_NAME.fullmatch(base) and not files.exists_with_prefix(base) else base


def _check_no_circle(path: str) -> str:
    """The base of an adapter; UserError if the chain of bases leads back to this adapter."""
    first, seen = _base_of(path), [files.absolute(path)]
    base = first
    while not base.startswith(formats.HUB) and recognizes(base):
        if files.absolute(base) in seen:
            raise UserError(
                f"{path} names {first} as its base, which leads back to this adapter: set base_model_name_or_path in "
                "adapter_config.json to the adapted model."
            )
        seen.append(files.absolute(base))
        base = _base_of(base)
    return first

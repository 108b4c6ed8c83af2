"""Folders of PEFT's LoRA adapters, which are read merged into the checkpoint that they name; a run writes them."""

import dataclasses
import os

from bert_tf.checkpoints import formats, peft_adapters
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.model import lora
from bert_tf.runtime import files


def recognizes(path: str) -> bool:
    """Whether a path is a folder with both files of an adapter."""
    names = (peft_adapters.CONFIG, peft_adapters.WEIGHTS)
    return all(files.is_file(os.path.join(path, name)) for name in names)


def read(path: str) -> Checkpoint:
    """Reads the checkpoint that adapter_config.json names, and adds the adapters to its kernels."""
    base = peft_adapters.settings_of(path).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise UserError(f"{path} does not say what it adapts: write base_model_name_or_path in adapter_config.json.")
    checkpoint = formats.read(base)
    weights, adapter, kind = peft_adapters.read(path, checkpoint.config)
    heads = {name.split("/")[0] for name in weights} - {"encoder"}
    kept = {name: array for name, array in checkpoint.weights.items() if name.split("/")[0] not in heads}
    merged = lora.merged({**kept, **weights}, adapter)
    return dataclasses.replace(checkpoint, weights=merged, kind=kind or ("class" if heads else checkpoint.kind))

"""Our own formats: run folders, and small folders with canonical names in `model.safetensors`.

Both contain `bert_config.json`, `vocab.txt` and `tokenizer_config.json`; a run also has `checkpoints/ckpt-N`.
"""

import logging
import os
import re
from typing import Any

import numpy as np

from bert_tf.checkpoints import sentence_transformers
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import (
    new_folder,
    read_head_file,
    read_safetensors,
    read_tensors,
    read_tokenizer_files,
    write_head_file,
    write_safetensors,
    write_tokenizer_files,
)
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import LoraConfig
from bert_tf.errors import UserError
from bert_tf.model import lora
from bert_tf.model.weights import TEACHER_PROJECTION
from bert_tf.runtime import files
from bert_tf.runtime.settings import number, read_settings, whole
from bert_tf.training import checkpoint_paths

HOLDS_ANY_WEIGHT = HOLDS_ANY_ENCODER = True
CONFIG, WEIGHTS = "bert_config.json", "model.safetensors"
RUN_LABELS = "task.json"  # in fine-tuning run folders
# The name of a weight in a tf.train.Checkpoint, with "/" as ".S" (see training.checkpointing).
SAVED = re.compile(r"weights/(?P<name>[^/]+)/\.ATTRIBUTES/VARIABLE_VALUE")


def recognizes(path: str) -> bool:
    """Returns whether a path is a run folder, its checkpoints, one of them (ckpt-N), or a folder from `write`."""
    folder = _run_folder(path)
    has_weights = files.is_file(os.path.join(folder, WEIGHTS)) or bool(_prefixes(path, folder))
    return has_weights and files.is_file(os.path.join(folder, CONFIG))


def read(path: str) -> Checkpoint:
    """Reads a checkpoint; for a run, its model.safetensors if it exists, otherwise the newest intact checkpoint."""
    folder = _run_folder(path)
    config = BertConfig.from_json_file(os.path.join(folder, CONFIG))
    final = os.path.join(folder, WEIGHTS)
    prefixes = _prefixes(path, folder)
    is_final = not prefixes or files.same(path, folder) and files.is_file(final)
    weights = read_safetensors(final) if is_final else _read_newest_whole(prefixes)
    weights = {name: array for name, array in weights.items() if not name.startswith(TEACHER_PROJECTION)}
    if any(map(lora.NAME.fullmatch, weights)):
        weights = lora.merged(weights, _adapter_of(folder))
    return Checkpoint(config=config, weights=weights, **read_description(folder, config))


def read_description(folder: str, config: BertConfig) -> dict[str, Any]:
    """The Checkpoint fields for tokenizer, head and text embeddings, as far as the files in a folder have them."""
    return {
        **read_tokenizer_files(folder),
        **_head_of(folder),
        "sentence_vectors": sentence_transformers.read(folder, config.max_position_embeddings, has_length=False),
    }


def labels(path: str) -> list[str] | None:
    """The labels of a fine-tuned model."""
    found: list[str] | None = _head_of(_run_folder(path))["labels"]
    return found


def write(checkpoint: Checkpoint, folder: str) -> list[str]:
    """Writes a new folder with `model.safetensors`, `bert_config.json`, `vocab.txt` and `tokenizer_config.json`.

    Returns:
        An empty list: the format stores every weight.
    """
    with new_folder(folder) as partial:
        checkpoint.config.write(os.path.join(partial, CONFIG))
        write_safetensors(os.path.join(partial, WEIGHTS), checkpoint.weights, framework="bert_tf")
        write_description(checkpoint, partial)
    return []


def write_description(checkpoint: Checkpoint, folder: str) -> None:
    """Writes the files for `read_description`."""
    write_tokenizer_files(folder, checkpoint)
    write_head_file(folder, checkpoint)
    sentence_transformers.write(folder, checkpoint.sentence_vectors, checkpoint.config.hidden_size)


def _adapter_of(folder: str) -> LoraConfig:
    """Scale of a run's adapters."""
    path = os.path.join(folder, "run.json")
    flags = read_settings(path).inside("flags")
    rank, alpha = flags.value("lora_rank", whole(1)), flags.value("lora_alpha", number(above=0))
    if rank is None or alpha is None:
        raise UserError(f"{path} lacks the flags lora_rank and lora_alpha of the adapters in {folder}: copy it there.")
    return LoraConfig(lora_rank=rank, lora_alpha=alpha)


def _head_of(folder: str) -> dict[str, Any]:
    """See `read_head_file`."""
    is_run = files.is_file(os.path.join(folder, RUN_LABELS))
    return read_head_file(folder, RUN_LABELS) if is_run else read_head_file(folder)


def _run_folder(path: str) -> str:
    """The run folder for a path inside its checkpoints/; otherwise the path."""
    path = files.absolute(path)
    if checkpoint_paths.is_one(path.removesuffix(".index")):
        path = os.path.dirname(path)
    return os.path.dirname(path) if os.path.basename(path) == "checkpoints" else path


def _prefixes(path: str, folder: str) -> list[str]:
    """Prefixes of the checkpoints to try, newest first."""
    path = path.removesuffix(".index")
    if checkpoint_paths.is_one(path):
        return [path] if files.is_file(f"{path}.index") else []
    return checkpoint_paths.newest_first(os.path.join(folder, "checkpoints"))


def _read_newest_whole(prefixes: list[str]) -> dict[str, np.ndarray]:
    *newer, oldest = prefixes
    for prefix in newer:
        try:
            return read_weights(prefix)
        except UserError as error:
            logging.getLogger("bert_tf").warning("Skipped: %s", error)
    return read_weights(oldest)


def read_weights(prefix: str) -> dict[str, np.ndarray]:
    """{canonical name: array} from a tf.train.Checkpoint of a run or from the variables of an export."""
    tensors = read_tensors(prefix, SAVED.fullmatch)
    if not tensors:
        raise UserError(f"{prefix} contains no model weights; expected a checkpoint of a training run.")
    return {SAVED.sub(r"\g<name>", name).replace(".S", "/"): array for name, array in tensors.items()}

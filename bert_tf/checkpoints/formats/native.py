"""Our own formats: the folder of a run, and a small folder with `model.safetensors` under canonical names.

Both have `bert_config.json`, `vocab.txt` and `tokenizer_config.json` at their top; a run has `checkpoints/ckpt-N`.
There is no name table, as the names are ours.
"""

import logging
import os
import re

from bert_tf.checkpoints import sentence_transformers
from bert_tf.checkpoints.checkpoint_files import (
    read_safetensors,
    read_settings,
    read_task_side,
    read_tensors,
    read_text_side,
    whole_folder,
    write_safetensors,
    write_task_side,
    write_text_side,
)
from bert_tf.checkpoints.formats import Checkpoint
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.training import checkpoint_paths

CONFIG, WEIGHTS = "bert_config.json", "model.safetensors"
RUN_LABELS = "task.json"  # in the folder of a run that fine-tuned
# How tf.train.Checkpoint writes the name of a weight, with "/" as ".S" (see train_state.TrainState).
SAVED = re.compile(r"weights/(?P<name>[^/]+)/\.ATTRIBUTES/VARIABLE_VALUE")


def recognizes(path):
    """The folder of a run, its checkpoints, one of them (ckpt-N), or what `write` made."""
    folder = _top(path)
    has_weights = os.path.isfile(os.path.join(folder, WEIGHTS)) or bool(_saved(path, folder))
    return has_weights and os.path.isfile(os.path.join(folder, CONFIG))


def read(path):
    """Reads the weights; of a run those of the newest checkpoint that is whole."""
    folder = _top(path)
    config = BertConfig.from_json_file(os.path.join(folder, CONFIG))
    prefixes = _saved(path, folder)
    weights = _newest_whole(prefixes) if prefixes else read_safetensors(os.path.join(folder, WEIGHTS))
    vocabulary, lower_case = read_text_side(folder)
    labels, kind = _task_side(folder)
    return Checkpoint(
        config=config,
        weights=weights,
        vocabulary=vocabulary,
        lower_case=lower_case,
        labels=labels,
        kind=kind,
        sentence_vectors=sentence_transformers.read(folder),
    )


def labels(path):
    """The names of the labels of a fine-tuned model."""
    return _task_side(_top(path))[0]


def write(checkpoint, folder):
    """Writes a new folder with `model.safetensors`, `bert_config.json`, `vocab.txt` and `tokenizer_config.json`.

    Every weight has a place here: returns an empty list.
    """
    with whole_folder(folder) as beside:
        checkpoint.config.write(os.path.join(beside, CONFIG))
        write_safetensors(os.path.join(beside, WEIGHTS), checkpoint.weights, maker="bert_tf")
        write_text_side(beside, checkpoint)
        write_task_side(beside, checkpoint)
        sentence_transformers.write(beside, checkpoint)
    return []


def _task_side(folder):
    """Of what `write` made, or of a run that fine-tuned: its task.json, and the flag of a table with several labels."""
    if not os.path.isfile(os.path.join(folder, RUN_LABELS)):
        return read_task_side(folder)
    labels, kind = read_task_side(folder, RUN_LABELS)
    if kind is None:
        flags = read_settings(os.path.join(folder, "run.json")).get("flags") or {}
        is_table = str(flags.get("task_name", "")).lower() == "table"
        kind = flags.get("label_type") if is_table else "class" if labels else "number"
        kind = "choice" if flags.get("task_name") == "swag" else kind
    return labels, kind


def _top(path):
    """The folder of the run that a path inside its checkpoints/ belongs to; else the path."""
    path = os.path.abspath(path)
    if checkpoint_paths.is_one(path.removesuffix(".index")):
        path = os.path.dirname(path)
    return os.path.dirname(path) if os.path.basename(path) == "checkpoints" else path


def _saved(path, folder):
    """Prefixes of the checkpoints that are meant, newest first."""
    path = path.removesuffix(".index")
    if checkpoint_paths.is_one(path):
        return [path] if os.path.isfile(f"{path}.index") else []
    return checkpoint_paths.newest_first(os.path.join(folder, "checkpoints"))


def _newest_whole(prefixes):
    for prefix in prefixes:
        try:
            return _read_arrays(prefix)
        except UserError as error:
            logging.getLogger("bert_tf").warning("Passed over: %s", error)
            last = error
    raise last


def _read_arrays(prefix):
    found = read_tensors(prefix, SAVED.fullmatch)
    if not found:
        raise UserError(f"{prefix} holds no weights of a model; expected a checkpoint of a training run.")
    return {SAVED.fullmatch(name)["name"].replace(".S", "/"): array for name, array in found.items()}

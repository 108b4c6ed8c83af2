"""SavedModels as checkpoints: exports of runs, with `assets.extra` next to their graph, and TensorFlow Hub encoders.

`bert_tf.export.saved_model` writes exports: weights with canonical names, and their configuration in `assets.extra`.
The bfloat16 weights of an export are converted to float32.
"""

import dataclasses
import os

import numpy as np

from bert_tf.checkpoints import model_garden, sentence_transformers, tensorflow_weights
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import (
    read_head_file,
    read_tokenizer_files,
)
from bert_tf.checkpoints.formats import native
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.errors import UserError
from bert_tf.runtime import files, head_records
from bert_tf.runtime.json_files import read_json
from bert_tf.runtime.settings import Settings

TOKENS_OF_TRANSFORMERS = "embeddings.word_embeddings.weight"
EXTRA, CONFIG = "assets.extra", "bert_config.json"  # TensorFlow's loaders ignore the files in this folder


def recognizes(path: str) -> bool:
    """Returns whether a path is a folder with a SavedModel."""
    return files.is_file(os.path.join(path, "saved_model.pb"))


def read(path: str) -> Checkpoint:
    """Reads weights, configuration, vocabulary and labels; UserError if the SavedModel has no configuration."""
    extra = os.path.join(path, EXTRA)
    if not files.is_file(os.path.join(extra, CONFIG)):
        return _read_of_others(path)
    config = BertConfig.from_json_file(os.path.join(extra, CONFIG))
    weights = native.read_weights(os.path.join(path, "variables", "variables"))
    head = read_head_file(extra)
    of_about, of_host = os.path.join(path, "about.json"), os.path.join(extra, "host.json")
    about, host = read_json(of_about), read_json(of_host)
    if isinstance(about, dict):
        head_records.check_task(Settings(about, of_about))
        head["answers"] = about
        if isinstance(host, dict):
            head_records.check_host(Settings(host, of_host))
            head["answers"] = {**about, "host": host}
    vectors = sentence_transformers.read(extra, config.max_position_embeddings, has_length=False)
    return Checkpoint(
        config=config,
        weights={name: np.asarray(array, np.float32) for name, array in weights.items()},
        **read_tokenizer_files(extra),
        **head,
        sentence_vectors=vectors or _sentence_vectors(path),
    )


def _read_of_others(path: str) -> Checkpoint:
    """A TensorFlow Hub encoder, from the names of its variables and its assets. Nothing in the SavedModel runs."""
    prefix = os.path.join(path, tensorflow_weights.VARIABLES)
    if not tensorflow_weights.is_of_objects(prefix):
        raise UserError(
            f"The SavedModel {path} has no weight names: it is from TensorFlow 1, damaged, or an older export of "
            "bert-tf. Pass its run folder, or the checkpoint it was made from."
        )
    variables = tensorflow_weights.names(prefix)
    if not any("embedding" in name for name in variables):
        raise UserError(
            f"The SavedModel {path} has no encoder, only {len(variables)} other variables, like the preprocessing "
            "models of TensorFlow Hub: pass the encoder that belongs to it, whose tokenizer is read with it; see "
            "docs/coming_from.md."
        )
    if any(name.startswith("tf") and ".".join(name.split("/")).endswith(TOKENS_OF_TRANSFORMERS) for name in variables):
        raise UserError(
            f"The SavedModel {path} contains a transformers model without its configuration: copy the model's "
            "config.json into the folder."
        )
    found = model_garden.read(prefix, path)
    of_tokenizer = read_tokenizer_files(os.path.join(path, "assets"))
    if of_tokenizer["lower_case"] is None:
        of_tokenizer["lower_case"] = tensorflow_weights.read_flag(prefix, "do_lower_case")
    return dataclasses.replace(found, **of_tokenizer)


def _sentence_vectors(path: str) -> SentenceVectors | None:
    """Pooling of an older export of last-layer embeddings; None for others."""
    about = read_json(os.path.join(path, "about.json"))
    if not isinstance(about, dict) or about.get("layers") not in (["last"], ["-1"]) or "pooling" not in about:
        return None
    return SentenceVectors(str(about["pooling"]), bool(about.get("normalize")))


def labels(path: str) -> list[str] | None:
    """The labels of a fine-tuned model."""
    found: list[str] | None = read_head_file(os.path.join(path, EXTRA))["labels"]
    return found

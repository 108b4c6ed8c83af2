"""TF1 checkpoints of google-research/bert: `bert_model.ckpt.index` and its data, `bert_config.json` and `vocab.txt`.

Names and shapes follow google-research/bert `modeling.py` and `run_pretraining.py`; for ALBERT, whose folder has
`albert_config.json` and a SentencePiece model, google-research/albert; for ELECTRA, whose archives contain only the
weights and `vocab.txt`, google-research/electra.

Object-based checkpoints of the Model Garden are read too: see `checkpoints.model_garden`.
"""

import dataclasses
import logging
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import families
from bert_tf.checkpoints import model_garden, tensorflow_weights
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import (
    new_folder,
    read_head_file,
    read_tensors,
    read_tokenizer_files,
    with_masked_lm_head,
    write_head_file,
    write_tokenizer_files,
)
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.families.base.google import Layout
from bert_tf.model.weights import from_canonical_names, to_canonical_names
from bert_tf.runtime import files
from bert_tf.runtime.atomic_files import write_json
from bert_tf.runtime.json_files import require_json
from bert_tf.runtime.lazy import tf
from bert_tf.text import sentencepiece_model
from bert_tf.text.vocabulary import settings_of
from bert_tf.training import checkpoint_paths

LAYOUTS: Mapping[str, Layout] = families.having("GOOGLE")
ENCODERS = tuple(LAYOUTS)
CONFIG_FILES = [layout.config_file for layout in LAYOUTS.values()]
PREFIX = "bert_model.ckpt"
INDEX = re.compile(r"(?!\.)(.*\.)?ckpt.*\.index|electra_(small|base|large)\.index")
# Optimizer state and counters.
NOT_WEIGHTS = re.compile(
    r"(.*/)?(global_step|(adam|lamb)_[mv]|\w*(Adam|LAMB)\w*Optimizer(_1)?|beta[12]_power|ExponentialMovingAverage)"
)
# Casing in the names of released folders (google-research/bert `tokenization.py: validate_case_matches_checkpoint`).
UNCASED, CASED = re.compile(r"uncased|chinese_L-|multilingual_L-"), re.compile(r"cased")


def recognizes(path: str) -> bool:
    """Returns whether a path is the prefix of a checkpoint, its `.index` file, or the folder of either."""
    return _prefix(path) is not None


def read(path: str) -> Checkpoint:
    """Reads the weights, and `bert_config.json` and `vocab.txt` next to them; "gelu" means the tanh approximation.

    Casing comes from tokenizer_config.json, the name of a released folder, or capital letters in the vocabulary;
    without any of them it is unknown.
    """
    prefix = _existing_prefix(path)
    folder = os.path.dirname(files.absolute(prefix))
    if tensorflow_weights.is_of_objects(prefix):
        found = model_garden.read(prefix, folder)
    else:
        arrays = read_tensors(prefix, lambda name: not NOT_WEIGHTS.fullmatch(name))
        config = _read_config(folder, arrays)
        weights, used = to_canonical_names(LAYOUTS[config.encoder].table(config), arrays, _is_transposed)
        weights.update((name, array) for name, array in arrays.items() if name not in used)
        found = Checkpoint(config=config, weights=weights)
    of_tokenizer = _read_tokenizer(folder)
    if of_tokenizer["lower_case"] is None:
        of_tokenizer["lower_case"] = _casing(os.path.basename(folder))
    head = read_head_file(folder)
    return dataclasses.replace(
        found,
        **of_tokenizer,
        labels=head["labels"] or found.labels,
        kind=head["kind"] or found.kind,
        answers=head["answers"],
    )


def labels(path: str) -> list[str] | None:
    """The labels from the file that `write` adds; google-research/bert stores none."""
    found: list[str] | None = read_head_file(os.path.dirname(files.absolute(_existing_prefix(path))))["labels"]
    return found


def write(checkpoint: Checkpoint, folder: str) -> list[str]:
    """Writes `bert_model.ckpt.*` with google-research/bert's names, `bert_config.json` and `vocab.txt` as a new folder.

    Returns:
        The names of weights that the format cannot store.
    """
    _check_writable(checkpoint)
    config = checkpoint.config
    checkpoint = with_masked_lm_head(checkpoint, config.hidden_act, config.layer_norm_eps, "The original's code")
    arrays, used = from_canonical_names(LAYOUTS[config.encoder].table(config), checkpoint.weights, _is_transposed)
    with new_folder(folder) as partial:
        _write_arrays(os.path.join(partial, PREFIX), arrays)
        write_json(os.path.join(partial, LAYOUTS[config.encoder].config_file), _config_values(config))
        write_tokenizer_files(partial, checkpoint)
        write_head_file(partial, checkpoint)
    return sorted(checkpoint.weights.keys() - used)


def _check_writable(checkpoint: Checkpoint) -> None:
    """Raises UserError for tokenizer settings other than casing, which google-research/bert does not support."""
    settings = settings_of(checkpoint.vocabulary or ())
    for name, value, expected in (
        ("strip_accents", settings.strip_accents, None),
        ("tokenize_chinese_chars", settings.split_ideographs, True),
    ):
        if value != expected:
            raise UserError(
                f"google_tf does not support this model's tokenizer with {name}={value}: choose another format."
            )


def _read_config(folder: str, arrays: Mapping[str, np.ndarray]) -> BertConfig:
    """The configuration in a folder; for archives without one, inferred from the shapes of the weights."""
    paths = {encoder: os.path.join(folder, layout.config_file) for encoder, layout in LAYOUTS.items()}
    by_file = next((encoder for encoder, path in paths.items() if encoder != "bert" and files.is_file(path)), None)
    by_weights = next((encoder for encoder, layout in LAYOUTS.items() if layout.own_table in arrays), None)
    path, encoder = paths[by_file or "bert"], by_file or by_weights
    config_of = LAYOUTS[by_weights].config_of if by_weights else None
    if config_of and not files.is_file(path):
        return config_of(arrays)
    if encoder is None:
        return BertConfig.from_json_file(path)
    values = require_json(path, f"the configuration of an {encoder.upper()}")
    if not isinstance(values, dict) or values.get("inner_group_num", 1) != 1:
        raise UserError(f"{path} has an inner_group_num other than 1, which is not supported: pass another ALBERT.")
    return BertConfig.from_dict({**values, "encoder": encoder}, gelu=LAYOUTS[encoder].gelu)


def _read_tokenizer(folder: str) -> dict[str, Any]:
    """See `read_tokenizer_files`; for a released ALBERT without vocab.txt, from its SentencePiece model."""
    found = read_tokenizer_files(folder)
    names = [name for name in files.names(folder) if name.endswith(".model")]
    if not names or found["vocabulary"] is not None:
        return found
    path = os.path.join(folder, names[0])
    with files.open_binary(path) as file:
        tokens = sentencepiece_model.tokens_of(file.read(), path)
    return {**found, "vocabulary": tokens, "lower_case": found["lower_case"] is not False}


def _prefix(path: str) -> str | None:
    path = path.removesuffix(".index")
    if files.is_file(f"{path}.index"):
        return path if _is_ours(path) else None
    names = [os.path.join(path, name.removesuffix(".index")) for name in files.names(path) if INDEX.fullmatch(name)]
    return max(filter(_is_ours, names), key=_precedence, default=None)


def _is_ours(prefix: str) -> bool:
    """Returns whether a checkpoint has this format and is neither a run's (ckpt-N) nor described by config.json."""
    folder = os.path.dirname(files.absolute(prefix))
    is_of_transformers = files.is_file(os.path.join(folder, "config.json")) and not any(
        files.is_file(os.path.join(folder, name)) for name in CONFIG_FILES
    )
    if checkpoint_paths.is_one(prefix) or is_of_transformers:
        return tensorflow_weights.is_of_objects(prefix) != is_of_transformers
    return True


def _existing_prefix(path: str) -> str:
    prefix = _prefix(path)
    if prefix is None:
        raise UserError(f"{path} contains no TF1 checkpoint; expected files such as {PREFIX}.index.")
    return prefix


def _precedence(prefix: str) -> tuple[bool, int, str]:
    """Released weights take precedence over training checkpoints (model.ckpt-N), and the last step over others."""
    step = re.search(r"\bckpt-(\d+)$", prefix)
    return (step is None, int(step[1]) if step else 0, prefix)


def _write_arrays(prefix: str, arrays: dict[str, np.ndarray]) -> None:
    names = sorted(arrays)
    try:
        # The operation behind tf.compat.v1.train.Saver, which writes plain names as in google-research's checkpoints.
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(arrays[name]) for name in names],
        )
    except tf.errors.OpError as error:  # a full disk, for instance
        raise OSError(error.message) from None


def _config_values(config: BertConfig) -> dict[str, Any]:
    """The content of `bert_config.json` for google-research/bert, which has one GELU and one epsilon."""
    layout, values = LAYOUTS[config.encoder], config.to_dict()
    del values["pooling"]  # "cls", or unused without a head
    values |= layout.written(config)
    if config.hidden_act == layout.gelu:
        values["hidden_act"] = "gelu"
    elif config.hidden_act != "relu":
        logging.getLogger("bert_tf").warning(
            "This model has %s, as in %s; google-research/bert has only its own GELU and ReLU.",
            config.hidden_act,
            layout.config_file,
        )
    if config.layer_norm_eps == 1e-12:
        del values["layer_norm_eps"]
    if config.is_causal:
        logging.getLogger("bert_tf").warning(
            "This model is causal, as in bert_config.json; google-research/bert has no causal models."
        )
    else:
        del values["is_causal"]
    return values


def _casing(folder_name: str) -> bool | None:
    if UNCASED.search(folder_name) or CASED.search(folder_name):
        return bool(UNCASED.search(folder_name))
    return None


def _is_transposed(name: str) -> bool:
    """Output layers that are not dense layers in google-research/bert are stored [out, in]."""
    return name.endswith("output_weights")

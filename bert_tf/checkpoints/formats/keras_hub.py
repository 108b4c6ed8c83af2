"""KerasHub presets of `keras_hub.models.BertBackbone`: folders, "bert_base_en_uncased", "kaggle://...".

KerasHub reads, downloads and writes them, so the package is needed: `pip install "bert-tf[keras-hub]"`.
The next sentence head, which KerasHub lacks, and the head of a task are in heads.safetensors.

D hidden size, H heads, K size of one head.
"""

import dataclasses
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bert_tf.checkpoints import formats, keras_hub_presets
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import (
    new_folder,
    read_head_file,
    read_safetensors,
    read_tokenizer_files,
    write_head_file,
    write_safetensors,
    write_tokenizer_files,
)
from bert_tf.checkpoints.keras_hub_presets import KAGGLE, SHAPE
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.model.weights import expand, from_canonical_names, to_canonical_names
from bert_tf.runtime import files
from bert_tf.runtime.settings import FLAG, TEXT, read_settings, shortened
from bert_tf.text import vocabulary
from bert_tf.text.special_tokens import SETTING
from bert_tf.text.tokenizer_settings import AddedToken, TokenizerSettings

TOKENIZER = {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]"}  # of config in tokenizer.json
LAYER, ATTENTION = "transformer_layer_{i}/", "transformer_layer_{i}/self_attention_layer/"
DENSE, NORM = ("kernel", "bias"), ("gamma", "beta")
MODULES: Mapping[str, tuple[str | tuple[str, ...], tuple[str, ...]]] = {  # ours -> KerasHub's, and the parts of both
    "encoder/embeddings/norm": ("embeddings_layer_norm", NORM),
    "encoder/layers/{i}/attention/query_key_value": (
        (ATTENTION + "query", ATTENTION + "key", ATTENTION + "value"),
        DENSE,
    ),
    "encoder/layers/{i}/attention/project_out": (ATTENTION + "attention_output", DENSE),
    "encoder/layers/{i}/attention_norm": (LAYER + "self_attention_layer_norm", NORM),
    "encoder/layers/{i}/feed_forward/expand": (LAYER + "feedforward_intermediate_dense", DENSE),
    "encoder/layers/{i}/feed_forward/contract": (LAYER + "feedforward_output_dense", DENSE),
    "encoder/layers/{i}/feed_forward_norm": (LAYER + "feedforward_layer_norm", NORM),
    "encoder/pooler": ("pooled_dense", DENSE),
    "masked_lm/transform": ("mlm_head/intermediate_dense", DENSE),
    "masked_lm/norm": ("mlm_head/intermediate_layer_norm", NORM),
    **{name: (name, DENSE) for name in ("next_sentence", "classifier", "span")},  # in heads.safetensors
}
NAMES = {  # canonical names -> paths of KerasHub's variables
    **{f"encoder/embeddings/{name}_table": f"{name}_embedding/embeddings" for name in ("token", "position", "segment")},
    "masked_lm/output_bias": "mlm_head/output_bias",
    "crf/potentials": "crf/potentials",
} | {
    f"{ours}/{part}": tuple(f"{name}/{part}" for name in theirs) if isinstance(theirs, tuple) else f"{theirs}/{part}"
    for ours, (theirs, parts) in MODULES.items()
    for part in parts
}
HOLDS_ANY_WEIGHT = True
HEADS, EPSILON = "heads.safetensors", 1e-12
LOGITS = {"logits/kernel": "classifier/kernel", "logits/bias": "classifier/bias"}  # of their head


def recognizes(path: str) -> bool:
    """Returns whether a path is the folder of a preset with a backbone, or may be the name of one, not of a file."""
    if files.exists(path):
        return keras_hub_presets.backbone_class(path).endswith("Backbone")
    return path.startswith(KAGGLE) or formats.PRESET.fullmatch(path) is not None


def read(path: str) -> Checkpoint:
    """Reads a preset; KerasHub downloads and caches one with a name or handle.

    GELU is the tanh approximation and epsilon 1e-12 unless `bert_config.json`, which `write` adds, differs.
    The head, of a masked LM or a classifier, comes from the task of a folder, if it has one.
    """
    path = path if files.is_folder(path) else keras_hub_presets.fetched(path)
    backbone, head, left_out = keras_hub_presets.load(path)
    config = _config(backbone, os.path.join(path, "bert_config.json"))
    named = [(LOGITS.get(variable.path, variable.path), variable) for variable in [*backbone.weights, *head]]
    arrays = {name: _flat(name, np.asarray(variable)) for name, variable in named}
    if files.is_file(os.path.join(path, HEADS)):
        arrays.update(read_safetensors(os.path.join(path, HEADS)))
    weights, used = to_canonical_names(expand(NAMES, config.num_hidden_layers), arrays, _is_transposed)
    weights.update((name, array) for name, array in arrays.items() if name not in used)
    vocabulary, lower_case = _tokenizer_of(path)
    arrays_of_head = LOGITS.keys() & {variable.path for variable in head}
    labels, kind = (None, keras_hub_presets.kind_of_classifier(path)) if arrays_of_head else read_head_file(path)
    return Checkpoint(
        config=config,
        weights=weights,
        vocabulary=vocabulary,
        lower_case=lower_case,
        special_tokens=_special_tokens(path),
        labels=labels,
        kind=kind,
        left_out=left_out,
    )


def labels(path: str) -> list[str] | None:
    """The labels in the file that `write` adds; a backbone has none."""
    return read_head_file(path)[0]


def write(checkpoint: Checkpoint, folder: str) -> list[str]:
    """Writes a preset as a new folder; with a masked-LM head as `keras_hub.models.BertMaskedLM`.

    Returns:
        An empty list: weights that KerasHub cannot hold are in heads.safetensors.

    Raises:
        UserError: the encoder lacks a weight, is causal, or has an activation that KerasHub's BERT cannot have.
    """
    config = checkpoint.config
    table = expand(NAMES, config.num_hidden_layers)
    _check_writable(checkpoint, table)
    arrays, used = from_canonical_names(table, checkpoint.weights, _is_transposed)
    rest = {name: array for name, array in checkpoint.weights.items() if name not in used}
    with new_folder(folder) as partial:
        model, tokenizer = _new_model(checkpoint)
        variables = {variable.path: variable for variable in model.weights}
        for name in variables.keys() & arrays.keys():
            variables[name].assign(arrays[name].reshape(variables[name].shape))
        rest.update((name, array) for name, array in arrays.items() if name not in variables)
        _save(model, tokenizer, checkpoint, partial)
        if rest:
            write_safetensors(os.path.join(partial, HEADS), rest, framework="bert_tf")
        config.write(os.path.join(partial, "bert_config.json"))
        write_head_file(partial, checkpoint)
    return []


def _config(backbone: Any, path: str) -> BertConfig:
    """The configuration of a backbone; values that KerasHub lacks come from our bert_config.json at `path`, if any."""
    settings = backbone.get_config()
    shape = {name: settings[theirs] for name, theirs in SHAPE.items()}
    if files.is_file(path):
        return dataclasses.replace(BertConfig.from_json_file(path), **shape)
    return BertConfig(**shape, attention_probs_dropout_prob=settings["dropout"], hidden_act="gelu_tanh")


def _flat(name: str, array: np.ndarray) -> np.ndarray:
    """Joins the heads of attention: kernels [D, H, K] and [H, K, D] -> [D, D], biases [H, K] -> [D]."""
    if "/self_attention_layer/" not in name:
        return array
    if name.endswith("/bias"):
        return array.reshape(-1)
    return array.reshape(-1, array.shape[-1]) if "/attention_output/" in name else array.reshape(len(array), -1)


def _tokenizer_of(path: str) -> tuple[list[str] | None, bool | None]:
    """Vocabulary and casing, read without KerasHub."""
    settings = os.path.join(path, "tokenizer.json")
    if not files.is_file(settings):
        return read_tokenizer_files(path)
    values = read_settings(settings).inside("config")
    name = read_settings(settings).value("registered_name", TEXT, "")
    if not name.endswith("BertTokenizer"):
        raise UserError(f"{settings} has the tokenizer {shortened(name)}; only BertTokenizer is supported.")
    tokens = vocabulary.read(os.path.join(path, "assets", "tokenizer", "vocabulary.txt"))
    for name, expected in TOKENIZER.items():
        value = values.get(name, expected)
        if value != expected:
            raise UserError(f"{settings}: {name} is {value!r}, which is not supported; supported is {expected!r}.")
    lower_case, strips = (values.value(name, FLAG) for name in ("lowercase", "strip_accents"))
    tokenizer_settings = TokenizerSettings(strip_accents=None if strips == bool(lower_case) else strips)
    return vocabulary.with_settings(tokens, tokenizer_settings), lower_case


def _special_tokens(path: str) -> tuple[str, ...]:
    """The special tokens that the tokenizer of a folder recognizes in texts: all of KerasHub's or none."""
    recognizes_them = read_settings(os.path.join(path, "tokenizer.json")).inside("config").value(SETTING, FLAG)
    return vocabulary.SPECIAL_TOKENS if recognizes_them else ()


def _check_writable(checkpoint: Checkpoint, table: Iterable[str]) -> None:
    """Raises UserError for a checkpoint that KerasHub's BERT cannot be; warns where it computes something else."""
    config, settings = checkpoint.config, vocabulary.settings_of(checkpoint.vocabulary or ())
    missing = [name for name in table if name.startswith("encoder/") and name not in checkpoint.weights]
    plain = [AddedToken(content=token) for token in vocabulary.SPECIAL_TOKENS]
    if others := [token.content for token in settings.found_as(checkpoint.special_tokens) if token not in plain]:
        raise UserError(
            f"keras_hub cannot recognize the added token {others[0]!r} in texts as this model does: choose another "
            "format, or pass special_tokens_in_strings=none."
        )
    refused = {
        f"KerasHub has no BERT without {', '.join(missing[:1])}, which the checkpoint lacks": missing,
        "keras_hub has no tokenizer with tokenize_chinese_chars=False, which this model has": (
            not settings.split_ideographs
        ),
        "KerasHub's BERT cannot be causal, which this model is": config.is_causal,
        f"KerasHub's BERT cannot have hidden_act {config.hidden_act}, which this model has": (
            not config.hidden_act.startswith("gelu_")
        ),
    }
    for reason, is_so in refused.items():
        if is_so:
            raise UserError(f"{reason}: choose another format.")
    if config.hidden_act != "gelu_tanh" or config.layer_norm_eps != EPSILON:
        logging.getLogger("bert_tf").warning(
            "KerasHub computes with the tanh GELU and epsilon %g where this model has %s and %g: close, not equal.",
            EPSILON,
            config.hidden_act,
            config.layer_norm_eps,
        )


def _new_model(checkpoint: Checkpoint) -> tuple[Any, Any]:
    """A backbone, in a BertMaskedLM if the checkpoint has all of its head, and a tokenizer, None without vocabulary."""
    models = keras_hub_presets.keras_hub("The keras_hub format").models
    settings = checkpoint.config.to_dict()
    backbone = models.BertBackbone(**{theirs: settings[ours] for ours, theirs in SHAPE.items()})
    head = {name for name in NAMES if name.startswith("masked_lm/")}
    tokenizer = None
    if checkpoint.vocabulary is not None and checkpoint.lower_case is not None:
        tokenizer = models.BertTokenizer(
            checkpoint.vocabulary,
            lowercase=checkpoint.lower_case,
            strip_accents=vocabulary.settings_of(checkpoint.vocabulary).strips_accents(checkpoint.lower_case),
            special_tokens_in_strings=bool(checkpoint.special_tokens),
        )
    if not head <= checkpoint.weights.keys():
        return backbone, tokenizer
    preprocessor = None
    if tokenizer:
        length = checkpoint.config.max_position_embeddings
        preprocessor = models.BertMaskedLMPreprocessor(tokenizer, sequence_length=length)
    return models.BertMaskedLM(backbone, preprocessor=preprocessor), tokenizer


def _save(model: Any, tokenizer: Any, checkpoint: Checkpoint, folder: str) -> None:
    try:
        model.save_to_preset(folder)
        if tokenizer:
            tokenizer.save_to_preset(folder)
        else:
            write_tokenizer_files(folder, checkpoint)
    except RuntimeError as error:  # how h5py reports a full disk
        raise OSError(str(error)) from None


def _is_transposed(name: str) -> bool:
    """Dense layers are stored [in, out], as ours."""
    return False

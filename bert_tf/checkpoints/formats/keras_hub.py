"""KerasHub presets of `keras_hub.models.BertBackbone`: folders, "bert_base_en_uncased", "kaggle://...".

KerasHub reads, downloads and writes them, so the package is needed: `pip install "bert-tf[keras-hub]"`.
The next sentence head, which KerasHub lacks, and the head of a task are in heads.safetensors.

D hidden size, H heads, K size of one head.
"""

import dataclasses
import logging
import os
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

from bert_tf import heads
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import (
    new_folder,
    read_head_file,
    read_safetensors,
    read_settings,
    read_tokenizer_files,
    setting,
    shortened,
    write_head_file,
    write_safetensors,
    write_tokenizer_files,
)
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.model.weights import expand, from_canonical_names, to_canonical_names
from bert_tf.runtime import files, memory_estimate
from bert_tf.text import vocabulary
from bert_tf.text.special_tokens import SETTING
from bert_tf.text.tokenizer_settings import AddedToken, TokenizerSettings

TOKENIZER = {"split": True, "suffix_indicator": "##", "oov_token": "[UNK]"}  # of config in tokenizer.json
LAYER = "transformer_layer_{i}/"
ATTENTION = LAYER + "self_attention_layer/"
# Canonical names -> paths of KerasHub's variables.
NAMES = {
    "encoder/embeddings/token_table": "token_embedding/embeddings",
    "encoder/embeddings/position_table": "position_embedding/embeddings",
    "encoder/embeddings/segment_table": "segment_embedding/embeddings",
    "encoder/embeddings/norm/gamma": "embeddings_layer_norm/gamma",
    "encoder/embeddings/norm/beta": "embeddings_layer_norm/beta",
    "encoder/layers/{i}/attention/query_key_value/kernel": tuple(
        ATTENTION + f"{part}/kernel" for part in ("query", "key", "value")
    ),
    "encoder/layers/{i}/attention/query_key_value/bias": tuple(
        ATTENTION + f"{part}/bias" for part in ("query", "key", "value")
    ),
    "encoder/layers/{i}/attention/project_out/kernel": ATTENTION + "attention_output/kernel",
    "encoder/layers/{i}/attention/project_out/bias": ATTENTION + "attention_output/bias",
    "encoder/layers/{i}/attention_norm/gamma": LAYER + "self_attention_layer_norm/gamma",
    "encoder/layers/{i}/attention_norm/beta": LAYER + "self_attention_layer_norm/beta",
    "encoder/layers/{i}/feed_forward/expand/kernel": LAYER + "feedforward_intermediate_dense/kernel",
    "encoder/layers/{i}/feed_forward/expand/bias": LAYER + "feedforward_intermediate_dense/bias",
    "encoder/layers/{i}/feed_forward/contract/kernel": LAYER + "feedforward_output_dense/kernel",
    "encoder/layers/{i}/feed_forward/contract/bias": LAYER + "feedforward_output_dense/bias",
    "encoder/layers/{i}/feed_forward_norm/gamma": LAYER + "feedforward_layer_norm/gamma",
    "encoder/layers/{i}/feed_forward_norm/beta": LAYER + "feedforward_layer_norm/beta",
    "encoder/pooler/kernel": "pooled_dense/kernel",
    "encoder/pooler/bias": "pooled_dense/bias",
    "masked_lm/transform/kernel": "mlm_head/intermediate_dense/kernel",
    "masked_lm/transform/bias": "mlm_head/intermediate_dense/bias",
    "masked_lm/norm/gamma": "mlm_head/intermediate_layer_norm/gamma",
    "masked_lm/norm/beta": "mlm_head/intermediate_layer_norm/beta",
    "masked_lm/output_bias": "mlm_head/output_bias",
    "next_sentence/kernel": "next_sentence/kernel",  # in heads.safetensors
    "next_sentence/bias": "next_sentence/bias",
    "classifier/kernel": "classifier/kernel",
    "classifier/bias": "classifier/bias",
    "crf/potentials": "crf/potentials",
    "span/kernel": "span/kernel",
    "span/bias": "span/bias",
}
HOLDS_ANY_WEIGHT = True
LEAST_BYTES, LARGEST_HEADER = 2, 1 << 20  # weights in a byte, of 4 bits each; and of what a file of few holds
HEADS, EPSILON = "heads.safetensors", 1e-12
CLASSIFIERS = (">BertTextClassifier", ">BertClassifier")  # the second is that of older presets
LOGITS = {"logits/kernel": "classifier/kernel", "logits/bias": "classifier/bias"}  # of their head
KAGGLE = "kaggle://"
NAME = re.compile(KAGGLE + r".*|[a-z0-9]+(_[a-z0-9.]+)+")  # possible names of presets of a model hub
SHAPE = {  # fields of BertConfig -> arguments of a KerasHub backbone
    "vocab_size": "vocabulary_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "hidden_size": "hidden_dim",
    "intermediate_size": "intermediate_dim",
    "hidden_dropout_prob": "dropout",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
}


def recognizes(path: str) -> bool:
    """Returns whether a path is the folder of a preset with a backbone, or may be the name of one, not of a file."""
    if files.exists(path):
        return _backbone_class(path).endswith("Backbone")
    return NAME.fullmatch(path) is not None


def read(path: str) -> Checkpoint:
    """Reads a preset; KerasHub downloads and caches one with a name or handle.

    GELU is the tanh approximation and epsilon 1e-12 unless `bert_config.json`, which `write` adds, differs.
    The head, of a masked LM or a classifier, comes from the task of a folder, if it has one.
    """
    path = path if files.is_folder(path) else _fetched(path)
    backbone, head, left_out = _load(path)
    config = _config(backbone, os.path.join(path, "bert_config.json"))
    named = [(LOGITS.get(variable.path, variable.path), variable) for variable in [*backbone.weights, *head]]
    arrays = {name: _flat(name, np.asarray(variable)) for name, variable in named}
    if files.is_file(os.path.join(path, HEADS)):
        arrays.update(read_safetensors(os.path.join(path, HEADS)))
    weights, used = to_canonical_names(expand(NAMES, config.num_hidden_layers), arrays, _is_transposed)
    weights.update((name, array) for name, array in arrays.items() if name not in used)
    vocabulary, lower_case = _tokenizer_of(path)
    arrays_of_head = LOGITS.keys() & {variable.path for variable in head}
    labels, kind = (None, _kind_of_classifier(path)) if arrays_of_head else read_head_file(path)
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


def _keras_hub(path: str) -> ModuleType:
    try:
        import keras_hub
    except ImportError as error:
        raise UserError(
            f"{path} needs KerasHub, which cannot be imported ({error}): pip install 'bert-tf[keras-hub]'."
        ) from None
    return keras_hub


def _fetched(name: str) -> str:
    """The folder in KerasHub's cache with all files of a preset, by its name or kaggle:// handle."""
    presets = _keras_hub(name).models.BertBackbone.presets
    if "://" not in name and name not in presets:
        known = ", ".join(sorted(each for each in presets if each.startswith("bert_")))
        raise UserError(f"{name} is neither a folder nor a preset of KerasHub for BERT, such as {known}.")
    handle = name if "://" in name else presets[name]["kaggle_handle"]
    import kagglehub

    try:
        return str(kagglehub.model_download(handle.removeprefix(KAGGLE)))
    except Exception as error:  # of the network, the hub or the cache
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{name} could not be fetched ({reason}): check the name and the network; without one, download the preset "
            "elsewhere and pass its folder."
        ) from None


def _backbone_class(path: str) -> str:
    """The class that config.json names, such as "keras_hub>BertBackbone"; "" for a folder that is not a preset."""
    file = os.path.join(path, "config.json")
    return str(read_settings(file).get("registered_name", "")) if files.is_file(file) else ""


def _load(path: str) -> tuple[Any, list[Any], tuple[str, ...]]:
    """A backbone, the variables of its head, of a masked LM or a classifier, and which other head is left out."""
    if not _backbone_class(path).endswith(">BertBackbone"):
        raise UserError(f"{path} holds a {_backbone_class(path).split('>')[-1]}; expected a BertBackbone.")
    models = _keras_hub(path).models
    _check_weights_of_all_layers(path)
    try:
        with files.local_copy(path) as local:
            backbone = models.BertBackbone.from_preset(local)
            task = os.path.join(local, "task.json")
            name = str(read_settings(task).get("registered_name", ""))
            if name.endswith(CLASSIFIERS):
                size = _classifier_settings(local).get("num_classes")
                classifier = models.BertTextClassifier(backbone, num_classes=size, preprocessor=None)
                classifier.load_task_weights(os.path.join(local, "task.weights.h5"))
                return backbone, classifier.output_dense.weights, ()
            if not name.endswith(">BertMaskedLM"):
                return backbone, [], (f"the head of {name} is left out, which is not supported",) if name else ()
            masked_lm = models.BertMaskedLM(backbone, preprocessor=None)
            masked_lm.load_task_weights(os.path.join(local, "task.weights.h5"))
        return backbone, masked_lm.masked_lm_head.weights, ()
    except UserError:
        raise
    except Exception as error:  # Keras, h5py and the hubs raise many types for damaged or missing files
        reason = (str(error).strip().splitlines() or [""])[0]
        raise UserError(
            f"{path} cannot be read as a KerasHub preset ({type(error).__name__}: {reason}): a file of it is missing "
            "or cut short; fetch it again."
        ) from None


def _classifier_settings(path: str) -> dict[str, Any]:
    return setting(os.path.join(path, "task.json"), "config", dict) or {}


def _kind_of_classifier(path: str) -> str:
    """The kind of head of a classifier; UserError for an activation that is none of probabilities."""
    settings = _classifier_settings(path)
    activation = settings.get("activation")
    kinds = {each: kind for kind, head in heads.known().items() for each in head.activations}
    if not isinstance(activation, str | None) or activation not in kinds:
        known = ", ".join(filter(None, kinds))
        raise UserError(f"{path}: activation of the classifier is {shortened(activation)}; expected one of {known}.")
    kind = kinds[activation]
    return heads.of_size(1) if settings.get("num_classes") == 1 and kind == heads.of_size(2) else kind


def _check_weights_of_all_layers(path: str) -> None:
    """Raises UserError if config.json describes far more weights than the files of weights have bytes.

    KerasHub would create all of them first.
    """
    file = os.path.join(path, "config.json")
    settings = setting(file, "config", dict) or {}
    try:
        config = BertConfig(**{name: settings[theirs] for name, theirs in SHAPE.items()})
    except KeyError as error:
        raise UserError(f"{file} has no {error} of a BertBackbone: fetch it again.") from None
    held = sum(files.size(each) for each in files.walk(path) if each.endswith(".h5"))
    count = memory_estimate.num_weights(config)
    if count > LEAST_BYTES * held + LARGEST_HEADER:
        raise UserError(
            f"{file} describes a model of {count:,} weights, and the files of weights have {held:,} bytes: pass the "
            "configuration and the weights of the same model."
        )


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
    name = str(read_settings(settings).get("registered_name", ""))
    if not name.endswith("BertTokenizer"):
        raise UserError(f"{settings} has the tokenizer {shortened(name)}; only BertTokenizer is supported.")
    tokens = vocabulary.read(os.path.join(path, "assets", "tokenizer", "vocabulary.txt"))
    for name, expected in TOKENIZER.items():
        value = read_settings(settings).get("config", {}).get(name, expected)
        if value != expected:
            raise UserError(f"{settings}: {name} is {value!r}, which is not supported; supported is {expected!r}.")
    lower_case, strips = (setting(settings, name, bool, inside="config") for name in ("lowercase", "strip_accents"))
    tokenizer_settings = TokenizerSettings(strip_accents=None if strips == bool(lower_case) else strips)
    return vocabulary.with_settings(tokens, tokenizer_settings), lower_case


def _special_tokens(path: str) -> tuple[str, ...]:
    """The special tokens that the tokenizer of a folder recognizes in texts: all of KerasHub's or none."""
    recognizes_them = setting(os.path.join(path, "tokenizer.json"), SETTING, bool, inside="config")
    return vocabulary.SPECIAL_TOKENS if recognizes_them else ()


def _check_writable(checkpoint: Checkpoint, table: Iterable[str]) -> None:
    """Raises UserError for a checkpoint that KerasHub's BERT cannot be; warns where it computes something else."""
    missing = [name for name in table if name.startswith("encoder/") and name not in checkpoint.weights]
    if missing:
        raise UserError(
            f"KerasHub has no BERT without {missing[0]}, which the checkpoint lacks: choose another format."
        )
    found = vocabulary.settings_of(checkpoint.vocabulary or ()).found_as(checkpoint.special_tokens)
    plain = [AddedToken(content=token) for token in vocabulary.SPECIAL_TOKENS]
    if others := [token.content for token in found if token not in plain]:
        raise UserError(
            f"keras_hub cannot recognize the added token {others[0]!r} in texts as this model does: choose another "
            "format, or pass special_tokens_in_strings=none."
        )
    config = checkpoint.config
    if not vocabulary.settings_of(checkpoint.vocabulary or ()).split_ideographs:
        raise UserError(
            "keras_hub has no tokenizer with tokenize_chinese_chars=False, which this model has: choose another format."
        )
    if config.is_causal:
        raise UserError("KerasHub's BERT cannot be causal, which this model is: choose another format.")
    if config.hidden_act == "relu":
        raise UserError("KerasHub's BERT cannot have hidden_act relu, which this model has: choose another format.")
    if config.hidden_act != "gelu_tanh" or config.layer_norm_eps != EPSILON:
        logging.getLogger("bert_tf").warning(
            "KerasHub computes with the tanh GELU and epsilon %g where this model has %s and %g: close, not equal.",
            EPSILON,
            config.hidden_act,
            config.layer_norm_eps,
        )


def _new_model(checkpoint: Checkpoint) -> tuple[Any, Any]:
    """A backbone, in a BertMaskedLM if the checkpoint has all of its head, and a tokenizer, None without vocabulary."""
    models = _keras_hub("The keras_hub format").models
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

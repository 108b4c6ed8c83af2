"""Presets of KerasHub: fetched from its hub, and loaded by KerasHub itself."""

import os
from types import ModuleType
from typing import Any

from bert_tf import heads
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import files
from bert_tf.runtime.lazy import module
from bert_tf.runtime.settings import TEXT, Settings, read_settings, shortened

kagglehub = module("kagglehub")
LEAST_BYTES, LARGEST_HEADER = 2, 1 << 20  # weights in a byte, of 4 bits each; and of what a file of few holds
CLASSIFIERS = (">BertTextClassifier", ">BertClassifier")  # the second is that of older presets
KAGGLE = "kaggle://"
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


def keras_hub(path: str) -> ModuleType:
    """The package; UserError, which names the path that needs it, where it is not installed."""
    try:
        import keras_hub as package
    except ImportError as error:
        raise UserError(
            f"{path} needs KerasHub, which cannot be imported ({error}): pip install 'bert-tf[keras-hub]'."
        ) from None
    return package


def fetched(name: str) -> str:
    """The folder in KerasHub's cache with all files of a preset, by its name or kaggle:// handle."""
    presets = keras_hub(name).models.BertBackbone.presets
    if "://" not in name and name not in presets:
        known = ", ".join(sorted(each for each in presets if each.startswith("bert_")))
        raise UserError(f"{name} is neither a folder nor a preset of KerasHub for BERT, such as {known}.")
    handle = name if "://" in name else presets[name]["kaggle_handle"]
    try:
        return str(kagglehub.model_download(handle.removeprefix(KAGGLE)))
    except Exception as error:  # of the network, the hub or the cache
        raise UserError(
            f"{name} could not be fetched ({reason_of(error)}): check the name and the network; without one, "
            "download the preset elsewhere and pass its folder."
        ) from None


def backbone_class(path: str) -> str:
    """The class that config.json names, such as "keras_hub>BertBackbone"; "" for a folder that is not a preset."""
    file = os.path.join(path, "config.json")
    return read_settings(file).value("registered_name", TEXT, "") if files.is_file(file) else ""


def load(path: str) -> tuple[Any, list[Any], tuple[str, ...]]:
    """A backbone, the variables of its head, of a masked LM or a classifier, and which other head is left out."""
    if not backbone_class(path).endswith(">BertBackbone"):
        raise UserError(f"{path} holds a {backbone_class(path).split('>')[-1]}; expected a BertBackbone.")
    models = keras_hub(path).models
    _check_weights_of_all_layers(path)
    try:
        with files.local_copy(path) as local:
            backbone = models.BertBackbone.from_preset(local)
            task = os.path.join(local, "task.json")
            name = read_settings(task).value("registered_name", TEXT, "")
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


def _classifier_settings(path: str) -> Settings:
    return read_settings(os.path.join(path, "task.json")).inside("config")


def kind_of_classifier(path: str) -> str:
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
    settings = read_settings(file).inside("config")
    try:
        config = BertConfig(**{name: settings[theirs] for name, theirs in SHAPE.items()})
    except KeyError as error:
        raise UserError(f"{file} has no {error} of a BertBackbone: fetch it again.") from None
    held = sum(files.size(each) for each in files.walk(path) if each.endswith(".h5"))
    count = config.num_weights
    if count > LEAST_BYTES * held + LARGEST_HEADER:
        raise UserError(
            f"{file} describes a model of {count:,} weights, and the files of weights have {held:,} bytes: pass the "
            "configuration and the weights of the same model."
        )

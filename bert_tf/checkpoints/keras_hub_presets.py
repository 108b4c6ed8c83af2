"""KerasHub models as files: preset folders, fetched from its hub, and `.keras` files; read without KerasHub."""

import dataclasses
import os
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from bert_tf import families
from bert_tf.checkpoints import keras_files
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError, reason_of
from bert_tf.families.base.keras_hub import TASK, Layout
from bert_tf.heads.base import format_names
from bert_tf.runtime import files
from bert_tf.runtime.lazy import module
from bert_tf.runtime.settings import TEXT, Settings, read_settings, shortened, whole

kagglehub = module("kagglehub")
MOST, LARGEST_SMALL = 2, 1 << 20  # times as many weights as a file has, or this many, may be described
KAGGLE = "kaggle://"
WEIGHTS, TASK_WEIGHTS = "model.weights.h5", "task.weights.h5"
BACKBONE = "Backbone"
CLASSIFIERS = ("TextClassifier", "Classifier")  # the second is in older presets
MASKED_LM, EMBEDDER = "MaskedLM", "TextEmbedder"
ROLES = (BACKBONE, *CLASSIFIERS, MASKED_LM, EMBEDDER)
HEAD_EPSILON = 1e-5  # for the LayerNorm in every masked LM head
FIRST_LAYER = re.compile(r"(layers/\w+_encoder)(?=/)")  # has no number, and the second has 1
ATTENTION = re.compile(r".*/self_attention_layer/(\w+)_dense/vars/(\d)")
FROM_TASK = re.compile(r"layers/\w+_backbone/(?=layers/)")  # precedes the paths of a backbone in a `.keras`
LAYOUTS: Mapping[str, Layout] = families.having("KERAS_HUB")
CLASS = re.compile(rf"keras_(?:hub|nlp)>({'|'.join(layout.classes for layout in LAYOUTS.values())})({'|'.join(ROLES)})")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """A preset or a `.keras` file.

    Attributes:
        path: the folder or file.
        encoder: the encoder of its backbone.
        task_class: the registered class of its task; "" for a backbone.
        role: the role of that class, one of ROLES; BACKBONE also for an unsupported task.
        backbone, task, preprocessor: their arguments; empty for missing ones.
        tokenizer: class and arguments.
        weights: {path as in the tables of the families: array}.
        assets: {name of a tokenizer file: its content}.
    """

    path: str
    encoder: str
    task_class: str
    role: str
    backbone: Settings
    task: Settings
    preprocessor: Settings
    tokenizer: Settings
    weights: "dict[str, np.ndarray]"
    assets: Mapping[str, bytes]


def class_of(name: str) -> tuple[str, str] | None:
    """The encoder and the role, one of ROLES, for a registered class; None for others."""
    found = CLASS.fullmatch(name)
    if found is None:
        return None
    return next(encoder for encoder, layout in LAYOUTS.items() if layout.classes == found[1]), found[2]


def path_here(path: str, *, in_task: bool) -> str:
    """The path in the tables here for one from `keras_files`. in_task: whether it is in the file of a task."""
    inside = FROM_TASK.sub("", path)
    return TASK * (in_task and inside == path) + FIRST_LAYER.sub(r"\1_0", inside)


def flat(name: str, array: np.ndarray) -> np.ndarray:
    """Joins the heads of attention: kernels [D, H, K] and [H, K, D] -> [D, D], biases [H, K] -> [D]."""
    found = ATTENTION.fullmatch(name)
    if found is None:
        return array
    if found[2] == "1":
        return array.reshape(-1)
    return array.reshape(-1, array.shape[-1]) if found[1] == "output" else array.reshape(len(array), -1)


def keras_hub(path: str) -> ModuleType:
    """The package; UserError, which names the path that needs it, if it is not installed."""
    try:
        import keras_hub as package
    except ImportError as error:
        raise UserError(
            f"{path} needs KerasHub, which cannot be imported ({error}): pip install 'bert-tf[keras-hub]'."
        ) from None
    return package


def fetched(name: str) -> str:
    """The folder in KerasHub's cache with all files of a preset, by its name or kaggle:// handle."""
    models = keras_hub(name).models
    presets = {key: value for each in LAYOUTS.values() for key, value in backbone_of(models, each).presets.items()}
    if "://" not in name and name not in presets:
        known = ", ".join(sorted(presets))
        raise UserError(f"{name} is neither a folder nor a KerasHub preset of a supported encoder: {known}.")
    handle = name if "://" in name else presets[name]["kaggle_handle"]
    try:
        return str(kagglehub.model_download(handle.removeprefix(KAGGLE)))
    except Exception as error:  # from the network, the hub or the cache
        raise UserError(
            f"{name} could not be fetched ({reason_of(error)}): check the name and the network; without one, "
            "download the preset elsewhere and pass its folder."
        ) from None


def backbone_of(models: ModuleType, layout: Layout) -> Any:
    """KerasHub's backbone for a layout."""
    return getattr(models, f"{layout.classes}{BACKBONE}")


def is_one(path: str) -> bool:
    """Returns whether a path is a preset with a backbone, or a `.keras` file of KerasHub."""
    if keras_files.is_one(path):
        return keras_files.class_of(path).startswith(("keras_hub>", "keras_nlp>"))
    file = os.path.join(path, "config.json")
    name = read_settings(file).value("registered_name", TEXT, "") if files.is_file(file) else ""
    return name.endswith(BACKBONE)


def read(path: str) -> Preset:
    """Reads a preset or a `.keras` file; UserError if it is damaged or its encoder is not supported."""
    return _read_file(path) if keras_files.is_one(path) else _read_folder(path)


def _read_file(path: str) -> Preset:
    file = keras_files.read(path)
    is_task = not keras_files.class_in(file.config).endswith(BACKBONE)
    task = file.config if is_task else Settings({}, path)
    backbone = file.config.inside("config").inside("backbone") if is_task else file.config
    preprocessor = task.inside("config").inside("preprocessor")
    tokenizer = preprocessor.inside("config").inside("tokenizer")
    weights = {path_here(name, in_task=is_task): array for name, array in file.weights.items()}
    before = "preprocessor/tokenizer/"
    assets = {name.removeprefix(before): data for name, data in file.assets.items() if name.startswith(before)}
    return _preset(path, backbone, task, preprocessor, tokenizer, weights, assets)


def _read_folder(path: str) -> Preset:
    backbone, task, preprocessor, tokenizer = (
        read_settings(os.path.join(path, f"{name}.json")) for name in ("config", "task", "preprocessor", "tokenizer")
    )
    preprocessor = preprocessor or task.inside("config").inside("preprocessor")
    weights: dict[str, np.ndarray] = {}
    for name, in_task in ((WEIGHTS, False), (TASK_WEIGHTS, True)):
        found = keras_files.read_weights(os.path.join(path, name))
        weights |= {path_here(each, in_task=in_task): array for each, array in found.items()}
        if not weights:
            raise UserError(f"{path} has no {WEIGHTS}: fetch the preset again.")
    folder, assets = os.path.join(path, "assets", "tokenizer"), {}
    for name in files.names(folder) if files.is_folder(folder) else ():
        with files.open_binary(os.path.join(folder, name)) as opened:
            assets[name] = opened.read()
    return _preset(path, backbone, task, preprocessor, tokenizer, weights, assets)


def _preset(
    path: str,
    backbone: Settings,
    task: Settings,
    preprocessor: Settings,
    tokenizer: Settings,
    weights: "dict[str, np.ndarray]",
    assets: Mapping[str, bytes],
) -> Preset:
    """A preset made of these objects; UserError if their classes do not belong to one encoder."""
    name, task_class = keras_files.class_in(backbone), keras_files.class_in(task)
    encoder, role = class_of(name) or ("", "")
    if role != BACKBONE:
        outer = task_class if keras_files.is_one(path) and task_class else name
        known = ", ".join(layout.classes + BACKBONE for layout in LAYOUTS.values())
        raise UserError(
            f"{path} contains a {shortened(outer.split('>')[-1])}, whose encoder is not supported; expected a "
            f"KerasHub model with one of these backbones: {known}."
        )
    encoder_of_task, role = class_of(task_class) or (encoder, BACKBONE)
    if encoder_of_task != encoder:
        raise UserError(f"{path} has the task {task_class} and the backbone {name}: fetch it again.")
    return Preset(
        path=path,
        encoder=encoder,
        task_class=task_class,
        role=role,
        backbone=backbone.inside("config"),
        task=task.inside("config"),
        preprocessor=preprocessor.inside("config"),
        tokenizer=tokenizer,
        weights=weights,
        assets=assets,
    )


def config_of(preset: Preset) -> BertConfig:
    """The configuration of a backbone.

    Raises UserError if an argument is missing or not supported, or if they describe far more weights than there are.
    """
    layout, given = LAYOUTS[preset.encoder], preset.backbone
    try:
        values = {ours: given[theirs] for ours, theirs in layout.sizes.items()}
    except KeyError as error:
        raise UserError(f"{given.source} has no {error} of a {layout.classes}{BACKBONE}: fetch it again.") from None
    values["attention_probs_dropout_prob"] = given.get("dropout")
    if given.value("num_inner_repetitions", whole(), 1) != 1:
        raise UserError(
            f"{given.source}: num_inner_repetitions is {shortened(given['num_inner_repetitions'])}, which is not "
            "supported; supported is 1."
        )
    values["settings"] = layout.settings(given)
    if layout.lacks_segment:
        values["type_vocab_size"] = 1
    if values.get("embedding_size") == values["hidden_size"]:
        values["embedding_size"] = None
    try:
        config = BertConfig(
            **values, encoder=preset.encoder, hidden_act=layout.hidden_act, layer_norm_eps=layout.layer_norm_eps
        )
    except UserError as error:
        raise UserError(f"{given.source}: {error}") from None
    held = sum(array.size for array in preset.weights.values())
    if config.num_weights > MOST * held + LARGEST_SMALL:
        raise UserError(
            f"{given.source} describes a model of {config.num_weights:,} weights, but {preset.path} has {held:,}: "
            "pass the configuration and the weights of the same model."
        )
    return config


def kind_of_classifier(preset: Preset) -> str:
    """The kind of a classifier's head; UserError for an activation that does not produce probabilities."""
    activation = preset.task.get("activation")
    kinds = {each: kind for kind, names in format_names.FORMATS.items() for each in names.activations}
    if not isinstance(activation, str | None) or activation not in kinds:
        known = ", ".join(filter(None, kinds))
        raise UserError(
            f"{preset.path}: activation of the classifier is {shortened(activation)}; expected one of {known}."
        )
    width, expected = preset.task.get("hidden_dim"), preset.backbone.get("hidden_dim")
    if width not in (None, expected):
        raise UserError(
            f"{preset.path}: hidden_dim of the classifier is {shortened(width)}, which is not supported; supported is "
            f"{expected}, as in its backbone."
        )
    kind = kinds[activation]
    return format_names.of_size(1) if preset.task.get("num_classes") == 1 and kind == format_names.of_size(2) else kind

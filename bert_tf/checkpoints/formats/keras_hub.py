"""KerasHub models of the families with a KerasHub layout: preset folders, `.keras` files, preset names.

Files are read without KerasHub; only downloading and writing presets needs it: `pip install "bert-tf[keras-hub]"`.
Heads that KerasHub lacks are stored in heads.safetensors.
"""

import dataclasses
import logging
import os
from typing import Any

import numpy as np

from bert_tf.checkpoints import formats, keras_files, keras_hub_presets, keras_hub_tokenizers
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import (
    new_folder,
    read_head_file,
    read_safetensors,
    with_masked_lm_head,
    write_head_file,
    write_safetensors,
    write_tokenizer_files,
)
from bert_tf.checkpoints.huggingface_tokenizers import as_long_as_table
from bert_tf.checkpoints.keras_hub_presets import (
    BACKBONE,
    CLASSIFIERS,
    EMBEDDER,
    HEAD_EPSILON,
    KAGGLE,
    LAYOUTS,
    MASKED_LM,
    TASK_WEIGHTS,
    WEIGHTS,
    Preset,
    flat,
    path_here,
)
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.errors import UserError
from bert_tf.families.base.keras_hub import TASK
from bert_tf.heads.base import format_names
from bert_tf.model.weights import BETWEEN, from_canonical_names, to_canonical_names
from bert_tf.runtime import files
from bert_tf.runtime.lazy import module
from bert_tf.runtime.settings import FLAG, one_of, whole

h5py = module("h5py")
HOLDS_ANY_WEIGHT = True
ENCODERS = tuple(LAYOUTS)
HEADS, CONFIG = "heads.safetensors", "bert_config.json"
TOKENS, POSITIONS, SEGMENTS = (f"encoder/embeddings/{name}_table" for name in ("token", "position", "segment"))
POOLER = "encoder/pooler/"
POOLINGS = ("mean", "cls", "max")


def recognizes(path: str) -> bool:
    """Returns whether a path is a KerasHub preset or `.keras` file, or may be the name of a preset."""
    if files.exists(path):
        return keras_hub_presets.is_one(path)
    return path.startswith(KAGGLE) or formats.PRESET.fullmatch(path) is not None


def read(path: str) -> Checkpoint:
    """Reads a preset or a `.keras` file; KerasHub downloads and caches a preset with a name or handle.

    If it has the `bert_config.json` that `write` adds, the model follows that file instead of KerasHub's behavior.
    """
    path = path if files.exists(path) else keras_hub_presets.fetched(path)
    preset = keras_hub_presets.read(path)
    layout, config = LAYOUTS[preset.encoder], keras_hub_presets.config_of(preset)
    arrays = {name: flat(name, array) for name, array in preset.weights.items()}
    weights, used = to_canonical_names(layout.table(config), arrays, _is_transposed)
    weights.update((name, array) for name, array in arrays.items() if name not in used)
    _check_whole(preset, config, weights)
    first = config.encoder_traits.position_offset
    if POSITIONS in weights and first:
        weights[POSITIONS] = np.pad(weights[POSITIONS], ((first, 0), (0, 0)))
    if layout.lacks_segment:
        weights[SEGMENTS] = np.zeros([1, config.embedding_width], np.float32)
    if "masked_lm/output_bias" in weights:
        config = dataclasses.replace(config, masked_lm_act=layout.masked_lm_act, masked_lm_eps=HEAD_EPSILON)
    own, head = {}, dict[str, Any]()
    if files.is_folder(path):
        head = read_head_file(path)
        own_config, own_heads = os.path.join(path, CONFIG), os.path.join(path, HEADS)
        config = _own_config(config, own_config) if files.is_file(own_config) else config
        own = read_safetensors(own_heads) if files.is_file(own_heads) else {}
    if preset.role in CLASSIFIERS:
        found = keras_hub_presets.kind_of_classifier(preset)
        head["kind"] = head.get("kind") or found
    vocabulary, lower_case, special_tokens = keras_hub_tokenizers.read(preset)
    return Checkpoint(
        config=config,
        weights=weights | own,
        vocabulary=as_long_as_table(vocabulary, len(weights[TOKENS])),
        lower_case=lower_case,
        special_tokens=special_tokens,
        **head,
        max_seq_length=_length(preset, config),
        sentence_vectors=_sentence_vectors(preset, config),
        left_out=tuple(_left_out(preset)),
    )


def _own_config(config: BertConfig, path: str) -> BertConfig:
    """The configuration in our bert_config.json, with the backbone's sizes."""
    sizes = {name: getattr(config, name) for name in LAYOUTS[config.encoder].sizes}
    own = dataclasses.replace(BertConfig.from_json_file(path), **sizes)
    if own.encoder != config.encoder:
        raise UserError(f"{path} describes the encoder {own.encoder}, and the preset has {config.encoder}: remove it.")
    return own


def _check_whole(preset: Preset, config: BertConfig, weights: "dict[str, np.ndarray]") -> None:
    """Raises UserError if a weight of the encoder or of its task's head is missing."""
    parts = (POOLER, "classifier/") if preset.role in CLASSIFIERS else ("masked_lm/",) * (preset.role == MASKED_LM)
    table = LAYOUTS[preset.encoder].table(config)
    names = [name for name, theirs in table.items() if not theirs[0].startswith(TASK) or name.startswith(parts)]
    missing = [name for name in names if name not in weights]
    if missing:
        raise UserError(
            f"{preset.path} lacks {len(missing)} of the {len(names)} weights that its configuration describes, such "
            f"as {missing[0]}: fetch it again, with the configuration and the weights of the same model."
        )


def _left_out(preset: Preset) -> list[str]:
    """Messages about the parts of a model that were not read."""
    layout = LAYOUTS[preset.encoder]
    left_out = []
    if preset.task_class and preset.role == BACKBONE:
        left_out.append(f"the head of {preset.task_class} is not supported and was not read")
    if layout.pooler_activation:
        left_out.append(
            f"the pooler was not read because its activation is {layout.pooler_activation} in KerasHub and a different "
            f"one in other models of {layout.classes.upper()}"
        )
    return left_out


def _length(preset: Preset, config: BertConfig) -> int | None:
    """KerasHub's maximum length of texts and pairs in tokens; None if the model has no more positions than that."""
    length = preset.preprocessor.value("sequence_length", whole(1), config.max_position_embeddings)
    truncate = preset.preprocessor.get("truncate", "round_robin")
    if truncate != "round_robin":
        logging.getLogger("bert_tf").warning(
            "%s truncates pairs by %r; here the longer text of a pair is truncated first.", preset.path, truncate
        )
    return length if length < config.max_position_embeddings else None


def _sentence_vectors(preset: Preset, config: BertConfig) -> SentenceVectors | None:
    """The pooling of a text embedder; None for other tasks."""
    if preset.role != EMBEDDER:
        return None
    return SentenceVectors(
        pooling=preset.task.value("pooling_mode", one_of(*POOLINGS), "mean"),
        normalize=preset.task.value("normalize", FLAG, True),
        max_seq_length=preset.preprocessor.value("sequence_length", whole(1), config.max_position_embeddings),
    )


def labels(path: str) -> list[str] | None:
    """The labels from the file that `write` adds; KerasHub has none."""
    found: list[str] | None = read_head_file(path)["labels"] if files.is_folder(path) else None
    return found


def write(checkpoint: Checkpoint, folder: str) -> list[str]:
    """Writes a preset as a new folder: a text classifier, a masked LM, a text embedder, or else a backbone.

    Returns:
        An empty list: weights that KerasHub cannot store are in heads.safetensors.

    Raises:
        UserError: the encoder lacks a weight, is causal, or computes something that KerasHub cannot.
    """
    config, layout = checkpoint.config, LAYOUTS[checkpoint.config.encoder]
    role = _role(checkpoint)
    _check_writable(checkpoint, role)
    if role == MASKED_LM:
        checkpoint = with_masked_lm_head(checkpoint, layout.masked_lm_act, HEAD_EPSILON, "KerasHub")
    table = {ours: theirs for ours, theirs in layout.table(config).items() if _is_in(role, theirs[0], ours)}
    first, weights = config.encoder_traits.position_offset, dict(checkpoint.weights)
    if POSITIONS in weights:
        weights[POSITIONS] = weights[POSITIONS][first:]
    if layout.lacks_segment:
        weights[POSITIONS] = weights[POSITIONS] + weights.pop(SEGMENTS)
    arrays, used = from_canonical_names(table, weights, _is_transposed)
    rest = {name: np.ascontiguousarray(array) for name, array in weights.items() if name not in used}
    with new_folder(folder) as partial:
        tokenizer = _save_untrained(checkpoint, role, partial)
        for name, in_task in ((WEIGHTS, False), (TASK_WEIGHTS, True)):
            _fill(os.path.join(partial, name), arrays, in_task=in_task)
        if tokenizer is None:
            write_tokenizer_files(partial, checkpoint)
        if rest:
            write_safetensors(os.path.join(partial, HEADS), rest, framework="bert_tf")
        config.write(os.path.join(partial, CONFIG))
        write_head_file(partial, checkpoint)
    return []


def holds_vectors(checkpoint: Checkpoint) -> bool:
    """Returns whether the preset that `write` makes produces the checkpoint's text embeddings."""
    return _role(checkpoint) == EMBEDDER


def _role(checkpoint: Checkpoint) -> str:
    """The KerasHub task to write a checkpoint as."""
    config, names, vectors = checkpoint.config, checkpoint.weights.keys(), checkpoint.sentence_vectors
    layout = LAYOUTS[config.encoder]
    own_head = {"classifier/kernel", "classifier/bias", f"{POOLER}kernel"}
    if own_head <= names & layout.names.keys() and _activation(checkpoint) is not None:
        return CLASSIFIERS[0]
    masked_lm = {name for name in layout.names if name.startswith("masked_lm/")}
    if masked_lm and masked_lm <= names:
        return MASKED_LM
    if vectors is None or vectors.pooling not in POOLINGS or not layout.has_embedder:
        return BACKBONE
    plain = SentenceVectors(vectors.pooling, vectors.normalize, max_seq_length=vectors.max_seq_length)
    return EMBEDDER if vectors == plain else BACKBONE


def _activation(checkpoint: Checkpoint) -> str | None:
    """The activation of a KerasHub classifier for a checkpoint's head; None for other heads."""
    kind = checkpoint.kind or format_names.of_size(len(checkpoint.weights["classifier/bias"]))
    if any(name.startswith(BETWEEN) for name in checkpoint.weights):
        return None
    if kind in (format_names.of_size(1), format_names.of_size(2)):
        return "linear"
    known = format_names.FORMATS[kind].activations if kind in format_names.FORMATS else ()
    return next(iter(known), None)


def _is_in(role: str, path: str, name: str) -> bool:
    """Returns whether a model with a role has the weight of that canonical name."""
    parts = {MASKED_LM: ("masked_lm/",), CLASSIFIERS[0]: (POOLER, "classifier/")}
    return not path.startswith(TASK) or name.startswith(parts.get(role, ()))


def _check_writable(checkpoint: Checkpoint, role: str) -> None:
    """Raises UserError for a checkpoint that KerasHub cannot represent; warns if KerasHub computes something else."""
    config, layout = checkpoint.config, LAYOUTS[checkpoint.config.encoder]
    keras_hub_tokenizers.check_writable(checkpoint)
    names = [name for name, theirs in layout.table(config).items() if _is_in(role, theirs[0], name)]
    missing = [name for name in (*names, *[SEGMENTS] * layout.lacks_segment) if name not in checkpoint.weights]
    name = f"KerasHub's {layout.classes}"
    refused = {
        f"KerasHub's {layout.classes} requires {', '.join(missing[:1])}, which the checkpoint lacks": missing,
        f"{name} has one segment, but this model has {config.type_vocab_size}": (
            layout.lacks_segment and config.type_vocab_size != 1
        ),
        f"{name} cannot be causal, but this model is": config.is_causal,
        f"{name} does not support this model's hidden_act {config.hidden_act}": (
            not config.hidden_act.startswith("gelu_")
        ),
        f"{name} cannot have {config.num_hidden_groups} groups of layers for {config.num_hidden_layers} layers": (
            config.num_hidden_layers % config.num_hidden_groups
        ),
        **{f"{name} {reason}": True for reason in layout.refused(config)},
    }
    for reason, is_so in refused.items():
        if is_so:
            raise UserError(f"{reason}: choose another format.")
    if (config.hidden_act, config.layer_norm_eps) != (layout.hidden_act, layout.layer_norm_eps):
        logging.getLogger("bert_tf").warning(
            "KerasHub computes with the %s GELU and epsilon %g, this model with %s and %g: results are close, not "
            "equal.",
            "tanh" if layout.hidden_act == "gelu_tanh" else "exact",
            layout.layer_norm_eps,
            config.hidden_act,
            config.layer_norm_eps,
        )


def _save_untrained(checkpoint: Checkpoint, role: str, folder: str) -> Any:
    """Saves a preset with random weights and returns its tokenizer, or None without a vocabulary."""
    models = keras_hub_presets.keras_hub("The keras_hub format").models
    config, layout = checkpoint.config, LAYOUTS[checkpoint.config.encoder]
    values = {**config.to_dict(), "embedding_size": config.embedding_width}
    arguments = {theirs: values[ours] for ours, theirs in layout.sizes.items()} | layout.arguments(config)
    model = keras_hub_presets.backbone_of(models, layout)(**arguments)
    tokenizer = keras_hub_tokenizers.create(models, checkpoint)
    if role != BACKBONE:
        made, preprocessor = getattr(models, layout.classes + role), None
        if tokenizer:
            vectors = checkpoint.sentence_vectors
            length = vectors.max_seq_length if vectors and role == EMBEDDER else checkpoint.max_seq_length
            create = getattr(models, f"{layout.classes}{role}Preprocessor")
            preprocessor = create(tokenizer, sequence_length=length or config.max_position_embeddings)
        model = made(model, preprocessor=preprocessor, **_arguments_of_task(checkpoint, role))
    try:
        model.save_to_preset(folder)
        if tokenizer:
            tokenizer.save_to_preset(folder)
    except RuntimeError as error:  # how h5py reports a full disk
        raise OSError(str(error)) from None
    return tokenizer


def _arguments_of_task(checkpoint: Checkpoint, role: str) -> dict[str, Any]:
    if role == EMBEDDER:
        vectors = checkpoint.sentence_vectors or SentenceVectors()
        return {"pooling_mode": vectors.pooling, "normalize": vectors.normalize}
    if role not in CLASSIFIERS:
        return {}
    return {"num_classes": len(checkpoint.weights["classifier/bias"]), "activation": _activation(checkpoint)}


def _fill(file: str, arrays: "dict[str, np.ndarray]", *, in_task: bool) -> None:
    """Overwrites the random weights in a KerasHub file with the arrays, or with zeros if the model lacks them."""
    if not files.is_file(file):
        return
    try:
        with h5py.File(file, "r+") as opened:
            found: dict[str, Any] = {}
            opened.visititems(lambda name, each: found.update({name: each} if isinstance(each, h5py.Dataset) else {}))
            for name, dataset in found.items():
                path = path_here(keras_files.path_in_model(name), in_task=in_task)
                if not name.startswith(keras_files.OPTIMIZER):
                    dataset[...] = arrays[path].reshape(dataset.shape) if path in arrays else 0
    except RuntimeError as error:  # how h5py reports a full disk
        raise OSError(str(error)) from None


def _is_transposed(name: str) -> bool:
    """Dense layers are stored [in, out], as here."""
    return False

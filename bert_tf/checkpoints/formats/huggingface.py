"""Hugging Face folders: `config.json` with `model.safetensors`, its shards, or `pytorch_model.bin`."""

import os
import re
from typing import Any

import numpy as np

from bert_tf.checkpoints import huggingface_rules, huggingface_tokenizers, sentence_transformers, torch_pickle
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.checkpoint_files import (
    new_folder,
    read_safetensors,
    read_settings,
    read_special_tokens,
    setting,
    shortened,
    write_safetensors,
)
from bert_tf.checkpoints.huggingface_layouts import BY_TYPE, CLASSES, KINDS, LAYOUTS, Layout
from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError
from bert_tf.model.weights import expand, from_canonical_names, to_canonical_names
from bert_tf.runtime import files
from bert_tf.runtime.atomic_files import write_json
from bert_tf.text.special_tokens import SETTING
from bert_tf.text.vocabulary import special_tokens

NAMES = LAYOUTS["bert"].names  # of BERT; those of its relatives are in `checkpoints.huggingface_layouts`
ENCODERS = tuple(LAYOUTS)
WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
# Copies of tied weights, and a constant.
REDUNDANT = re.compile(
    r"(cls\.|lm_head\.|)(predictions\.)?decoder\.(weight|bias)|(vocab_projector|generator_lm_head)\.weight|embeddings\.position_ids"
)
IS_NO_MATRIX = re.compile(r"LayerNorm|layer_norm|\bln\.|[a-z]_embeddings")
MOST_LABELS = 1_000_000  # that config.json may number without naming them
LABELLED = ("class", "several", "tags")  # kinds of heads whose outputs have names
PROBLEMS = {"class": "single_label_classification", "several": "multi_label_classification", "number": "regression"}


def recognizes(path: str) -> bool:
    """Whether a path is a folder with config.json and weights."""
    return files.is_file(os.path.join(path, "config.json")) and _weight_file(path) is not None


def read(path: str) -> Checkpoint:
    """Reads the folder; "gelu" means the exact error function."""
    config = _read_config(os.path.join(path, "config.json"))
    layout = LAYOUTS[config.encoder]
    arrays = {_without_prefix(name, layout): array for name, array in _read_arrays(path).items()}
    arrays = {name: array for name, array in arrays.items() if not REDUNDANT.fullmatch(name)}
    is_of_texts = bool(layout.of_texts) and arrays.keys() >= set(layout.of_texts.values())
    table = expand({**layout.names, **(layout.of_texts if is_of_texts else {})}, config.layers_with_weights)
    weights, used = to_canonical_names(table, arrays, _is_transposed)
    weights.update((name, array) for name, array in arrays.items() if name not in used)
    vocabulary, lower_case = huggingface_tokenizers.read(path)
    vocabulary, recognized = huggingface_tokenizers.with_added_tokens(path, vocabulary)
    vocabulary = huggingface_tokenizers.as_long_as_table(vocabulary, config.vocab_size)
    if SETTING in read_settings(os.path.join(path, "tokenizer_config.json")):  # written by `write`
        chosen = read_special_tokens(path)
    else:
        chosen = huggingface_rules.found_in_lower_case(path, recognized)
    kind = _kind(path) if "classifier/bias" in weights or "span/bias" in weights else None
    return Checkpoint(
        config=config,
        weights=weights,
        vocabulary=vocabulary,
        lower_case=lower_case,
        special_tokens=chosen,
        added_tokens=tuple(name for name in recognized if name not in special_tokens(vocabulary or ())),
        labels=labels(path) if kind in LABELLED else None,
        kind=kind,
        sentence_vectors=sentence_transformers.read(path),
    )


def labels(path: str) -> list[str] | None:
    """The labels in config.json, in the order of the outputs; LABEL_0, LABEL_1, ... where it has none."""
    if _kind(path) not in LABELLED:
        return None
    file = os.path.join(path, "config.json")
    names = setting(file, "id2label", dict)
    if not names:
        count = setting(file, "num_labels", int) or 2
        if not 0 < count <= MOST_LABELS:
            raise UserError(f"{file}: num_labels is {count}; expected a whole number from 1 to {MOST_LABELS:,}.")
        return [f"LABEL_{i}" for i in range(count)]
    if set(names) != {str(i) for i in range(len(names))}:
        raise UserError(f"{path} has an id2label without the numbers 0, 1, 2, ...: mend its config.json.")
    return [str(names[str(i)]) for i in range(len(names))]


def _kind(path: str) -> str | None:
    """The kind of the head of a fine-tuned model; None where there is none."""
    file = os.path.join(path, "config.json")
    architecture = (setting(file, "architectures", list) or [""])[0]
    if not isinstance(architecture, str):
        raise UserError(f"{file}: architectures holds {shortened(architecture)}; expected names of classes.")
    layout = LAYOUTS[BY_TYPE[setting(file, "model_type", str) or "bert"]]
    task = architecture.removeprefix(layout.classes)
    if task in KINDS:
        return KINDS[task]
    if task != CLASSES["classifier",]:
        return None
    is_number = len(setting(file, "id2label", dict) or (0, 1)) == 1
    kind = {problem: kind for kind, problem in PROBLEMS.items()}.get(setting(file, "problem_type", str) or "")
    return kind or ("number" if is_number else "class")


def write(checkpoint: Checkpoint, folder: str) -> list[str]:
    """Writes `config.json`, `model.safetensors`, `vocab.txt` and `tokenizer*.json` as a new folder.

    `transformers` loads it with the class that config.json names.

    Returns:
        The names of weights that the format cannot hold.
    """
    config, layout = checkpoint.config, LAYOUTS[checkpoint.config.encoder]
    weights = {name: array for name, array in checkpoint.weights.items() if _means_the_same(name, checkpoint)}
    is_of_texts = "classifier/bias" in weights and checkpoint.kind not in ("tags", "choice")
    names = {**layout.names, **(layout.of_texts if is_of_texts else {})}
    arrays, used = from_canonical_names(expand(names, config.layers_with_weights), weights, _is_transposed)
    heads = tuple(sorted({name.split("/")[0] for name in used} - {"encoder", "crf"}))
    prefix = layout.prefix if heads else ""
    arrays = {name if name.startswith(layout.outside) else prefix + name: array for name, array in arrays.items()}
    values = {
        "architectures": [_architecture(heads, config, layout)],
        "model_type": layout.model_type,
        **layout.config_values(config),
        "is_decoder": config.is_causal,
    }
    if heads == ("classifier",):
        values |= _head_values(checkpoint, layout, len(weights["classifier/bias"]))
    with new_folder(folder) as partial:
        write_json(os.path.join(partial, "config.json"), values)
        write_safetensors(os.path.join(partial, "model.safetensors"), arrays, framework="pt")
        length = config.max_position_embeddings
        huggingface_tokenizers.write(partial, checkpoint, model_max_length=length)
        sentence_transformers.write(partial, checkpoint.sentence_vectors, checkpoint.config.hidden_size)
    return sorted(checkpoint.weights.keys() - used)


def _architecture(heads: tuple[str, ...], config: BertConfig, layout: Layout) -> str:
    """The class of transformers that has these heads."""
    is_language_model = config.is_causal and heads == ("masked_lm",)
    return layout.classes + ("LMHeadModel" if is_language_model else CLASSES.get(heads, "ForPreTraining"))


def _means_the_same(name: str, checkpoint: Checkpoint) -> bool:
    """Whether transformers uses a weight as we do: its causal models pool the first token, ours the last one.

    The generator of an ELECTRA is a checkpoint of its own there.
    """
    if name.startswith("masked_lm/") and any(each.startswith("generator/") for each in checkpoint.weights):
        return False
    of_texts = ("encoder/pooler/", "next_sentence/", *(["classifier/"] if checkpoint.kind != "tags" else []))
    return not (checkpoint.config.is_causal and name.startswith(of_texts))


def _head_values(checkpoint: Checkpoint, layout: Layout, size: int) -> dict[str, Any]:
    """The entries of config.json for a head with `size` outputs."""
    if checkpoint.kind == "choice":
        return {"architectures": [f"{layout.classes}ForMultipleChoice"]}
    names = list(checkpoint.labels or ())
    if len(names) != size:  # transformers makes the head as large as this list
        names = [f"LABEL_{i}" for i in range(size)]
    values: dict[str, Any] = {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
    }
    if checkpoint.kind == "tags":
        return values | {"architectures": [f"{layout.classes}ForTokenClassification"]}
    kind = checkpoint.kind or ("number" if size == 1 else "class")
    return values | {"problem_type": PROBLEMS[kind]}


def _weight_file(path: str) -> str | None:
    return next((name for name in WEIGHT_FILES if files.is_file(os.path.join(path, name))), None)


def _read_config(path: str) -> BertConfig:
    values = read_settings(path)
    encoder = BY_TYPE.get(str(values.get("model_type", "bert")))
    if encoder is None:
        raise UserError(
            f"{path} describes a model of type {values['model_type']!r}; expected one of {', '.join(BY_TYPE)}."
        )
    if values.get("position_embedding_type", "absolute") != "absolute":
        raise UserError(f"{path} has {values['position_embedding_type']!r} positions; expected 'absolute'.")
    for name, expected in LAYOUTS[encoder].constants.items():
        if values.get(name, expected) != expected:
            raise UserError(f"{path}: {name} is {shortened(values[name])}; expected {expected!r}.")
    return LAYOUTS[encoder].config(encoder, {**values, "is_causal": values.get("is_decoder", False)})


def _read_arrays(path: str) -> dict[str, np.ndarray]:
    name = _weight_file(path)
    if name is None:
        raise UserError(f"{path} holds none of {', '.join(WEIGHT_FILES)}.")
    if name == "pytorch_model.bin":
        return torch_pickle.read(os.path.join(path, name))
    shards = {name}
    if name.endswith(".index.json"):
        shards = set(_weight_map(os.path.join(path, name)).values())
    arrays: dict[str, np.ndarray] = {}
    for shard in sorted(shards):
        arrays.update(read_safetensors(os.path.join(path, shard)))
    return arrays


def _weight_map(path: str) -> dict[str, str]:
    """{name of a weight: file}; only files in the folder of the index."""
    files = read_settings(path).get("weight_map")
    if not isinstance(files, dict) or any(os.path.basename(str(name)) != name for name in files.values()):
        raise UserError(f"{path} has no weight_map from names to files in its folder: fetch it again.")
    return files


def _without_prefix(name: str, layout: Layout) -> str:
    """The name in newer files; old ones have gamma and beta for weight and bias."""
    name = name.removeprefix(layout.prefix)
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _is_transposed(name: str) -> bool:
    """Linear layers are stored [out, in], embeddings as ours."""
    return name.endswith(".weight") and not IS_NO_MATRIX.search(name)

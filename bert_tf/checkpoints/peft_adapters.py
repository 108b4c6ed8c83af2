"""The files of PEFT's LoRA adapters, `adapter_config.json` and `adapter_model.safetensors`, from and to our names.

Matrices are stored transposed: lora_A [r, in], lora_B [out, r].
"""

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bert_tf import heads
from bert_tf.checkpoints.checkpoint_files import new_folder, read_safetensors, write_safetensors
from bert_tf.checkpoints.huggingface_layouts import LAYOUTS
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import LoraConfig
from bert_tf.errors import UserError
from bert_tf.families.base.huggingface import Layout
from bert_tf.families.base.name_tables import expand
from bert_tf.heads.base import format_names
from bert_tf.model import lora
from bert_tf.model.weights import Weights, from_canonical_names, to_canonical_names
from bert_tf.runtime.atomic_files import write_json
from bert_tf.runtime.settings import TEXT, Settings, number, read_settings, shortened, whole

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
# Entries that change the meaning of the matrices -> the only supported value.
PLAIN: dict[str, Any] = {
    "use_dora": False,
    "use_rslora": False,
    "bias": "none",
    "rank_pattern": {},
    "alpha_pattern": {},
}
# The same for entries that are not written.
ALSO_PLAIN: dict[str, Any] = {
    "lora_bias": False,
    "use_qalora": False,
    "layer_replication": None,
    "trainable_token_indices": None,
    "alora_invocation_tokens": None,
}
INITIAL = (
    None,
    True,
    False,
    "gaussian",
    "orthogonal",
    "eva",
)  # values of init_lora_weights that do not change the base
SAVED = re.compile(r"\.(modules_to_save|default)(?=\.)")  # in names of older versions
MATRIX = re.compile(r"(?P<module>.+)\.lora_(?P<matrix>[AB])\.weight")


class Part(NamedTuple):
    """An adapter's update to a part of a kernel, a b: the dense layer, the part's number and the number of parts."""

    dense: str
    number: int
    parts: int
    a: np.ndarray
    b: np.ndarray


def check_layout(config: BertConfig) -> Layout:
    """Layout of the encoder in transformers; UserError if it has none."""
    if config.encoder not in LAYOUTS:
        raise UserError(f"lora_rank requires {', '.join(LAYOUTS)}; encoder={config.encoder} has no adapters in PEFT.")
    return LAYOUTS[config.encoder]


def write(
    folder: str, weights: Weights, config: BertConfig, adapter: LoraConfig, *, kind: str | None, base: str
) -> None:
    """Writes the adapters among {canonical name: array}, and the pooler and head, as a new folder.

    kind: the kind of head. base: the checkpoint that they belong to, as PEFT will look it up.
    """
    layout = check_layout(config)
    found = {module: _part_of(*place, weights) for module, place in _places(layout, config, kind).items()}
    parts = {module: part for module, part in found.items() if part is not None}
    rank = max(part.a.shape[1] for part in parts.values())
    arrays = dict[str, np.ndarray]()
    for module, part in parts.items():
        missing = rank - part.a.shape[1]  # several matrices of ours may be in one module of theirs, such as Wqkv
        arrays[f"{module}.lora_A.weight"] = np.ascontiguousarray(np.pad(part.a.T, ((0, missing), (0, 0))))
        arrays[f"{module}.lora_B.weight"] = np.ascontiguousarray(np.pad(part.b.T, ((0, 0), (0, missing))))
    trained_heads = ("classifier/", "span/", *(() if kind in heads.kinds("reads_tokens") else ("encoder/pooler/",)))
    trained = {name: array for name, array in weights.items() if name.startswith(trained_heads)}
    saved, _ = from_canonical_names(_table(layout, config, kind), trained, _is_matrix)
    names = {name: name if name.startswith(layout.outside) else layout.prefix + name for name in saved}
    arrays = {f"{layout.prefix}{name}": array for name, array in arrays.items()}
    arrays |= {names[name]: array for name, array in saved.items()}
    settings = {
        "peft_type": "LORA",
        "task_type": (heads.get(kind).format_names().peft_task or None) if kind else None,
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": adapter.lora_alpha * rank / adapter.lora_rank,
        "lora_dropout": 0.0,
        "target_modules": sorted(parts),
        "modules_to_save": sorted({_saved_module(name, layout) for name in saved}),
        "fan_in_fan_out": False,
        "inference_mode": True,
        **PLAIN,
    }
    with new_folder(folder) as partial:
        write_json(os.path.join(partial, CONFIG), settings)
        named = {f"{PREFIX}{name}": array for name, array in arrays.items()}
        write_safetensors(os.path.join(partial, WEIGHTS), named, framework="pt")


def read(folder: str, config: BertConfig) -> tuple[dict[str, Part], Weights, str | None]:
    """The adapters for a model of this configuration by their modules, its head, and the head's kind.

    `fan_in_fan_out` changes nothing because PEFT treats it as false if modules are linear layers, as here.

    Raises UserError for adapters that are not plain LoRA or adapt other layers, and for unknown weights.
    """
    settings, layout = settings_of(folder), check_layout(config)
    if settings.get("init_lora_weights") not in INITIAL:
        initial = shortened(settings["init_lora_weights"])
        raise UserError(f"{folder} has init_lora_weights={initial}, which changes the base model: merge it with PEFT.")
    for name, expected in {**PLAIN, **ALSO_PLAIN}.items():
        if (settings.get(name) or expected) != expected:
            raise UserError(
                f"{folder} has {name}={shortened(settings[name])}; expected {expected!r}: merge it with PEFT."
            )
    kind = format_names.kind_with("peft_task", settings.value("task_type", TEXT, "None"))
    kind = kind if kind and format_names.FORMATS[kind].is_told_by_class else None
    places = _places(layout, config, kind)
    matrices, others = dict[str, dict[str, np.ndarray]](), dict[str, np.ndarray]()
    for name, array in read_safetensors(os.path.join(folder, WEIGHTS)).items():
        name = SAVED.sub("", name.removeprefix(PREFIX)).removeprefix(layout.prefix)
        match = MATRIX.fullmatch(name)
        if match is None:
            others[name] = array
            continue
        if match["module"] not in places:
            raise UserError(f"{folder} adapts {match['module']}, which encoder={config.encoder} does not have.")
        matrices.setdefault(match["module"], {})[match["matrix"]] = np.asarray(array.T, np.float32)
    head, used = to_canonical_names(_table(layout, config, kind), others, _is_matrix)
    if others.keys() - used:
        raise UserError(
            f"{folder} contains {sorted(others.keys() - used)[0]}, which is neither a LoRA matrix nor a head weight "
            f"of encoder={config.encoder}: merge it with PEFT."
        )
    rank, alpha = settings.value("r", whole(1)), settings.value("lora_alpha", number())
    if rank is None or alpha is None:
        raise UserError(f"{settings.source} lacks r or lora_alpha: fetch it again.")
    if not matrices:
        raise UserError(f"{folder} contains no LoRA matrices: fetch it again.")
    for module, both in matrices.items():
        if len(both) < len("AB"):
            raise UserError(f"{folder} has only one of lora_A and lora_B of {module}: fetch it again.")
        if (ranks := (both["A"].shape[-1:], both["B"].shape[:1])) != ((rank,), (rank,)) or both["A"].ndim != 2:
            raise UserError(f"{folder} has matrices of ranks {ranks} for {module}; expected r={rank}: fetch it again.")
    scale = np.float32(alpha / rank)
    return {m: Part(*places[m], both["A"], both["B"] * scale) for m, both in matrices.items()}, head, kind


def merged(parts: Mapping[str, Part], base: Weights, folder: str, base_path: str) -> Weights:
    """{canonical name: array} for a base with adapters in its kernels; UserError if they do not fit."""
    result = dict(base)
    for module, part in parts.items():
        name = f"{part.dense}/kernel"
        if name not in result:
            raise UserError(f"{folder} adapts {module}, which {base_path} does not have: pass the right base.")
        kernel = result[name].copy()
        width = kernel.shape[1] // part.parts
        columns = kernel[:, part.number * width : (part.number + 1) * width]
        found, expected = (len(part.a), part.b.shape[-1]), columns.shape
        if found != expected or part.b.ndim != 2:
            raise UserError(
                f"{folder} has matrices from {found[0]} to {found[1]} dimensions for {module}, but in {base_path} it "
                f"maps {expected[0]} to {expected[1]}: name the adapted base in adapter_config.json."
            )
        columns += part.a @ part.b
        result[name] = kernel
    return result


def settings_of(folder: str) -> Settings:
    """The content of adapter_config.json; UserError if its type is not LORA."""
    settings = read_settings(os.path.join(folder, CONFIG))
    if settings.get("peft_type") != "LORA":
        raise UserError(f"{folder} contains an adapter of type {shortened(settings.get('peft_type'))}; expected LORA.")
    return settings


def _table(layout: Layout, config: BertConfig, kind: str | None) -> dict[str, tuple[str, ...]]:
    """{canonical name: their names}, for a text classifier unless `kind` reads tokens."""
    of_texts = {} if kind in heads.kinds("reads_tokens") else layout.of_texts
    return expand({**layout.names, **of_texts}, config.layers_with_weights)


def _places(layout: Layout, config: BertConfig, kind: str | None) -> dict[str, tuple[str, int, int]]:
    """{their module without the prefix: (our dense layer, the number of its part of the kernel, number of parts)}."""
    return {
        name.removesuffix(".weight"): (ours.removesuffix("/kernel"), number, len(theirs))
        for ours, theirs in _table(layout, config, kind).items()
        if ours.startswith("encoder/layers/") and ours.endswith("/kernel")
        for number, name in enumerate(theirs)
    }


def _part_of(dense: str, number: int, count: int, weights: Weights) -> Part | None:
    """The adapters for one of the `count` parts of a kernel in {canonical name: array}, as one pair of matrices.

    Several of ours may be in one part, such as query, key and value in the Wqkv of a ModernBERT.
    """
    a, b = [], []
    for target, (_, ours, of_ours) in lora.TARGETS.items():
        name = f"{dense}/lora/{target}"
        overlaps = ours * count < (number + 1) * of_ours and (ours + 1) * count > number * of_ours
        if overlaps and f"{name}/a" in weights:
            matrix = weights[f"{name}/b"]
            kernel = np.zeros((len(matrix), of_ours * matrix.shape[1]), np.float32)
            np.split(kernel, of_ours, 1)[ours][:] = matrix
            a.append(weights[f"{name}/a"])
            b.append(np.split(kernel, count, 1)[number])
    return Part(dense, number, count, np.hstack(a), np.vstack(b)) if a else None


def _saved_module(name: str, layout: Layout) -> str:
    """The module of a weight saved as a whole: for a head all of it, under PEFT's own name."""
    return name.split(".")[0] if name.startswith(layout.outside) else name.rpartition(".")[0]


def _is_matrix(name: str) -> bool:
    return name.endswith(".weight")

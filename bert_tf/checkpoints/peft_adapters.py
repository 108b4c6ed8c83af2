"""The files of PEFT's LoRA adapters, `adapter_config.json` and `adapter_model.safetensors`, from and to our names.

Matrices are stored transposed: lora_A [r, in], lora_B [out, r].
"""

import os
import re
from typing import Any

import numpy as np

from bert_tf import heads
from bert_tf.checkpoints.checkpoint_files import new_folder, read_safetensors, write_safetensors
from bert_tf.checkpoints.huggingface_layouts import LAYOUTS, Layout
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import LoraConfig
from bert_tf.errors import UserError
from bert_tf.model import lora
from bert_tf.model.weights import Weights, expand, from_canonical_names, to_canonical_names
from bert_tf.runtime.atomic_files import write_json
from bert_tf.runtime.settings import TEXT, Settings, number, read_settings, shortened, whole

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
# What changes the meaning of the matrices -> the only value that is read.
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
)  # values of init_lora_weights that leave the base as it is
SAVED = re.compile(r"\.(modules_to_save|default)(?=\.)")  # in names of older versions
MATRIX = re.compile(r"(?P<module>.+)\.lora_(?P<matrix>[AB])\.weight")


def check_layout(config: BertConfig) -> Layout:
    """Layout of the encoder in transformers; UserError if it does not have it."""
    if config.encoder not in LAYOUTS:
        raise UserError(f"lora_rank is for {', '.join(LAYOUTS)}; encoder={config.encoder} has no adapters in PEFT.")
    return LAYOUTS[config.encoder]


def write(
    folder: str, weights: Weights, config: BertConfig, adapter: LoraConfig, *, kind: str | None, base: str
) -> None:
    """Writes the adapters among {canonical name: array}, and the pooler and head, as a new folder.

    kind: of the head. base: the checkpoint that they are for, as PEFT is to find it.
    """
    layout, arrays, targets = check_layout(config), dict[str, np.ndarray](), set()
    modules = _modules(layout, config, kind)
    for name, array in weights.items():
        if match := lora.NAME.fullmatch(name):
            module = modules[match["dense"], lora.TARGETS[match["target"]][1]]
            targets.add(module)
            arrays[f"{module}.lora_{match['matrix'].upper()}.weight"] = np.ascontiguousarray(array.T)
    trained_heads = ("classifier/", "span/", *(() if kind in heads.kinds("reads_tokens") else ("encoder/pooler/",)))
    trained = {name: array for name, array in weights.items() if name.startswith(trained_heads)}
    saved, _ = from_canonical_names(_table(layout, config, kind), trained, _is_matrix)
    names = {name: name if name.startswith(layout.outside) else layout.prefix + name for name in saved}
    arrays = {f"{layout.prefix}{name}": array for name, array in arrays.items()}
    arrays |= {names[name]: array for name, array in saved.items()}
    settings = {
        "peft_type": "LORA",
        "task_type": (heads.get(kind).peft_task or None) if kind else None,
        "base_model_name_or_path": base,
        "r": adapter.lora_rank,
        "lora_alpha": adapter.lora_alpha,
        "lora_dropout": 0.0,
        "target_modules": sorted(targets),
        "modules_to_save": sorted({_saved_module(name, layout) for name in saved}),
        "fan_in_fan_out": False,
        "inference_mode": True,
        **PLAIN,
    }
    with new_folder(folder) as partial:
        write_json(os.path.join(partial, CONFIG), settings)
        named = {f"{PREFIX}{name}": array for name, array in arrays.items()}
        write_safetensors(os.path.join(partial, WEIGHTS), named, framework="pt")


def read(folder: str, config: BertConfig) -> tuple[Weights, LoraConfig, str | None]:
    """The adapters for a model of this configuration: canonical weights, how they are scaled, the kind of head.

    Raises UserError for adapters that are not plain LoRA, for those of other layers, and for weights of another use.
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
    kind = heads.kind_with("peft_task", settings.value("task_type", TEXT, "None"))
    kind = kind if kind and heads.get(kind).is_named_alone else None
    modules = {module: place for place, module in _modules(layout, config, kind).items()}
    weights, others = Weights(), dict[str, np.ndarray]()
    for name, array in read_safetensors(os.path.join(folder, WEIGHTS)).items():
        name = SAVED.sub("", name.removeprefix(PREFIX)).removeprefix(layout.prefix)
        match = MATRIX.fullmatch(name)
        if match is None:
            others[name] = array
            continue
        if match["module"] not in modules:
            raise UserError(f"{folder} adapts {match['module']}, which encoder={config.encoder} does not have.")
        dense, part = modules[match["module"]]
        weights[f"{dense}/lora/{_target(dense, part)}/{match['matrix'].lower()}"] = np.asarray(array.T, np.float32)
    head, used = to_canonical_names(_table(layout, config, kind), others, _is_matrix)
    if others.keys() - used:
        raise UserError(
            f"{folder} holds {sorted(others.keys() - used)[0]}, which is neither a matrix of LoRA nor a weight of the "
            f"head of encoder={config.encoder}: merge it with PEFT."
        )
    rank, alpha = settings.value("r", whole(1)), settings.value("lora_alpha", number())
    if rank is None or alpha is None:
        raise UserError(f"{settings.source} lacks r or lora_alpha: fetch it again.")
    if not weights:
        raise UserError(f"{folder} holds no matrices of LoRA: fetch it again.")
    return {**weights, **head}, LoraConfig(lora_rank=rank, lora_alpha=alpha), kind


def check_fits(adapter: Weights, base: Weights, rank: int, folder: str, base_path: str) -> None:
    """Raises UserError unless each kernel that is adapted has both matrices, of the sizes of the base and the rank."""
    for name in adapter:
        match = lora.NAME.fullmatch(name)
        if match is None:
            continue
        place, other = name[:-1], f"{name[:-1]}{'b' if match['matrix'] == 'a' else 'a'}"
        if other not in adapter:
            raise UserError(f"{folder} holds {name} without {other}: fetch it again.")
        kernel = base.get(f"{match['dense']}/kernel")
        if kernel is None:
            raise UserError(f"{folder} adapts {match['dense']}, which {base_path} does not have: pass the right base.")
        size_in, size_out = kernel.shape[0], kernel.shape[1] // lora.TARGETS[match["target"]][2]
        found, expected = (adapter[f"{place}a"].shape, adapter[f"{place}b"].shape), ((size_in, rank), (rank, size_out))
        if found != expected:
            raise UserError(
                f"{folder} has {found[0]} and {found[1]} for {match['target']} of {match['dense']}; expected "
                f"{expected[0]} and {expected[1]}, from the kernel of {base_path} and r={rank}: name the base that was "
                "adapted in adapter_config.json."
            )


def settings_of(folder: str) -> Settings:
    """The content of adapter_config.json; UserError if it is not LoRA."""
    settings = read_settings(os.path.join(folder, CONFIG))
    if settings.get("peft_type") != "LORA":
        raise UserError(f"{folder} holds an adapter of the type {shortened(settings.get('peft_type'))}; expected LORA.")
    return settings


def _table(layout: Layout, config: BertConfig, kind: str | None) -> dict[str, tuple[str, ...]]:
    """{canonical name: their names}, of a classifier of texts unless `kind` says otherwise."""
    of_texts = {} if kind in heads.kinds("reads_tokens") else layout.of_texts
    return expand({**layout.names, **of_texts}, config.layers_with_weights)


def _modules(layout: Layout, config: BertConfig, kind: str | None) -> dict[tuple[str, int], str]:
    """{(our dense layer, the number of a matrix in its kernel): their module without the prefix}."""
    return {
        (ours.removesuffix("/kernel"), number): name.removesuffix(".weight")
        for ours, theirs in _table(layout, config, kind).items()
        if ours.startswith("encoder/layers/") and ours.endswith("/kernel")
        for number, name in enumerate(theirs)
    }


def _target(dense: str, number: int) -> str:
    """The name in `lora.TARGETS` of a matrix in a dense layer."""
    layers = {(layer, place): target for target, (layer, place, _) in lora.TARGETS.items()}
    return layers[re.sub(r"encoder/layers/\d+/", "", dense), number]


def _saved_module(name: str, layout: Layout) -> str:
    """The module of a weight that is saved whole: of a head all of it, as PEFT names it by itself."""
    return name.split(".")[0] if name.startswith(layout.outside) else name.rpartition(".")[0]


def _is_matrix(name: str) -> bool:
    return name.endswith(".weight")

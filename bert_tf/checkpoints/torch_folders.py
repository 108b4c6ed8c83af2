"""Folders of transformers: the file with the weights, shards, and prefixes that training scripts add to names.

The weights come from PyTorch or TensorFlow, and get PyTorch's names.
"""

import fnmatch
import logging
import os
import re
from collections.abc import Callable, Collection, Mapping

import numpy as np

from bert_tf.checkpoints import tensorflow_weights, torch_pickle
from bert_tf.checkpoints.checkpoint_files import read_safetensors
from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.settings import Settings, read_settings

CONFIGS = ("config.json", "bert_config.json")  # the second is in older folders
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "tf_model.h5.index.json",
)
INDEX = ".index.json"
H5, VARIABLES = ".h5", ".index"  # Keras' file, and the index of a TensorFlow checkpoint
SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", H5)
# SavedModels, as written by Keras and by `save_pretrained`.
SAVED_MODELS = ("", os.path.join("saved_model", "1"))
# Files with these suffixes that do not contain model weights.
OTHER_FILES = (
    "training_args.bin",
    "optimizer.*",
    "scheduler.*",
    "scaler.*",
    "rng_state*",
    "adapter_model.*",
    "heads.*",
)
# PyTorch modules that wrap others: parallel, compiled, sharded and checkpointed ones.
AROUND = re.compile(r"(?<![^.])(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
TOKENS = "embeddings.word_embeddings.weight"  # in most architectures
MAX_SHOWN = 3  # names in an error


def config_file(folder: str) -> str | None:
    """The path of the configuration, which may be in the metadata of a SavedModel; None if there is none."""
    paths = (os.path.join(folder, name) for name in CONFIGS)
    found = next((path for path in paths if files.is_file(path)), None)
    metadata = tensorflow_weights.metadata(folder) if found is None else {}
    return str(metadata.source) if isinstance(metadata, Settings) and _is_of_transformers(metadata) else found


def settings(folder: str) -> Settings:
    """The entries of the configuration; empty if there is none."""
    path = config_file(folder) or os.path.join(folder, CONFIGS[0])
    if os.path.basename(path) != tensorflow_weights.METADATA:
        return read_settings(path)
    metadata = tensorflow_weights.metadata(folder)
    return Settings({**metadata["config"], "architectures": [str(metadata["class_name"]).removeprefix("TF")]}, path)


def _is_of_transformers(metadata: Settings) -> bool:
    config = metadata.get("config")
    return isinstance(config, dict) and "model_type" in config and "class_name" in metadata


def split(path: str) -> tuple[str, str | None]:
    """The folder, and the name of the file in it if the path is one: Keras weights, or a TensorFlow checkpoint."""
    folder, name = os.path.split(files.absolute(path))
    if name.endswith(H5) and files.is_file(path):
        return folder, name
    prefix = path.removesuffix(VARIABLES)
    if files.is_file(prefix + VARIABLES) and tensorflow_weights.is_of_objects(prefix):
        return folder, name.removesuffix(VARIABLES) + VARIABLES
    return path, None


def is_model(path: str) -> bool:
    """Returns whether a folder, or a file's folder, has a configuration and weights of transformers.

    bert_config.json with model.safetensors has the format native, with a TensorFlow checkpoint google_tf.
    """
    folder, name = split(path)
    config, candidates = config_file(folder), [name] if name else _candidates(folder)
    if config is None or not candidates:
        return False
    if os.path.basename(config) == CONFIGS[1]:
        return not candidates[0].endswith((".safetensors", VARIABLES))
    return "registered_name" not in settings(folder)  # which a KerasHub preset has


def has_weights(folder: str) -> bool:
    """Returns whether a folder has files that may contain PyTorch weights."""
    return bool(_candidates(folder))


def lacks_shards(folder: str) -> bool:
    """Returns whether a folder has an index of shards but not all of the shards."""
    indexes = [name for name in _candidates(folder) if name.endswith(INDEX)]
    return any(not files.is_file(os.path.join(folder, shard)) for name in indexes for shard in _shards(folder, name))


def _candidates(folder: str) -> list[str]:
    """The names of the files that may contain the weights; only the first of WEIGHT_FILES if there is one."""
    names = files.names(folder) if files.is_folder(folder) else []
    for known in WEIGHT_FILES:
        if known in names:
            return [known]
    found = sorted(
        name
        for name in names
        if name.endswith(SUFFIXES) and not any(fnmatch.fnmatch(name, pattern) for pattern in OTHER_FILES)
    )
    if not found:
        inside = [os.path.join(place, tensorflow_weights.VARIABLES) for place in SAVED_MODELS]
        prefixes = [*(name.removesuffix(VARIABLES) for name in sorted(names) if name.endswith(VARIABLES)), *inside]
        found = [name + VARIABLES for name in prefixes if tensorflow_weights.is_of_objects(os.path.join(folder, name))]
    return found


def read(folder: str, name: str | None = None) -> dict[str, np.ndarray]:
    """{name in PyTorch: array} for the weights in a folder, or in one file of it.

    Raises:
        UserError: there are no weights or several files of them, a shard is missing, or a file is damaged.
    """
    candidates = [name] if name else _candidates(folder)
    if len(candidates) != 1:
        found = f"several files with weights ({', '.join(candidates)})" if candidates else "no transformers weights"
        raise UserError(f"{folder} contains {found}; expected one of {', '.join(WEIGHT_FILES)}: rename the right one.")
    (name,) = candidates
    arrays = _read_shards(folder, name) if name.endswith(INDEX) else _read_file(os.path.join(folder, name))
    if tensorflow_weights.is_named_by_tensorflow(arrays):
        arrays = tensorflow_weights.torch_names(arrays, os.path.join(folder, name))
    _report_others(folder, name, arrays)
    return arrays


def _read_shards(folder: str, name: str) -> dict[str, np.ndarray]:
    index, shards = os.path.join(folder, name), _shards(folder, name)
    places = _weight_map(index)
    missing = [shard for shard in shards if not files.is_file(os.path.join(folder, shard))]
    if missing:
        raise UserError(
            f"{folder} lacks {_shown(missing)}, {len(missing)} of the {len(shards)} files that {name} names: fetch the "
            "folder again."
        )
    arrays: dict[str, np.ndarray] = {}
    for shard in shards:
        arrays.update(_read_file(os.path.join(folder, shard)))
    # In the index of TensorFlow's shards, the class precedes the names.
    absent = sorted(each for each in places if each not in arrays and each.partition("/")[2] not in arrays)
    if absent:
        raise UserError(
            f"The files of {index} lack {len(absent)} of its {len(places)} weights, such as {absent[0]}: fetch the "
            "folder again."
        )
    return arrays


def _report_others(folder: str, name: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Warns about a tf_model.h5 next to the file in use if its vectors, which are fast to read, differ."""
    path = os.path.join(folder, f"tf_model{H5}")
    if name.startswith("tf_model") or not files.is_file(path):
        return
    try:
        vectors = tensorflow_weights.read_h5(path, lambda dataset: dataset.ndim == 1)
        others = tensorflow_weights.torch_names(vectors, path)
    except UserError as error:
        logging.getLogger("bert_tf").warning("%s is read; %s", os.path.join(folder, name), error)
        return
    # Their names equal the other file's, or do so without the class at the beginning.
    same = {each.partition(".")[2] if each not in arrays else each: array for each, array in others.items()}
    common = [each for each in same if each in arrays]
    if any(not np.array_equal(same[each], arrays[each]) for each in common):
        logging.getLogger("bert_tf").warning(
            "%s has %s and %s with different weights: %s is read. Remove it to read the other.",
            folder,
            name,
            os.path.basename(path),
            name,
        )


def _shards(folder: str, index: str) -> list[str]:
    return sorted(set(_weight_map(os.path.join(folder, index)).values()))


def _read_file(path: str) -> dict[str, np.ndarray]:
    if path.endswith(H5):
        return tensorflow_weights.read_h5(path)
    if path.endswith(VARIABLES):
        return tensorflow_weights.read_objects(path.removesuffix(VARIABLES))
    return read_safetensors(path) if path.endswith(".safetensors") else torch_pickle.read(path)


def _weight_map(path: str) -> dict[str, str]:
    """{name of a weight: file}; only files in the index's folder."""
    places = read_settings(path).get("weight_map")
    if not isinstance(places, dict) or any(os.path.basename(str(name)) != name for name in places.values()):
        raise UserError(f"{path} has no weight_map from names to files in its folder: fetch it again.")
    return places


def without_prefixes(
    arrays: Mapping[str, np.ndarray], prefix: str, other_prefixes: Collection[str], path: str, tokens: str = TOKENS
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The arrays of a model by their names in its encoder, such as `embeddings.word_embeddings.weight`; and all others.

    Files may put `prefix`, the encoder's in a model with a head, before these names, and before that the names of
    modules that a training script put around the model ("model.", "0.auto_model."). Old names in LayerNorm, gamma and
    beta, become weight and bias.

    Args:
        arrays: {name in the file: array}.
        prefix: the encoder's prefix in a model with a head, such as "bert.".
        other_prefixes: the prefixes of other architectures.
        path: the file, for messages.
        tokens: the name of the token table.

    Raises:
        UserError: there is no encoder, there are several, or it has a different architecture.
    """
    arrays = _renamed(arrays, lambda name: _newer(AROUND.sub("", name)), path)
    places = sorted(name.removesuffix(tokens) for name in arrays if name == tokens or name.endswith(f".{tokens}"))
    own = [place for place in (prefix, "") if place in places][:1] or places
    if not own:
        raise UserError(
            f"{path} contains no BERT weights: {tokens} is missing among {_shown(sorted(arrays))}; pass the weights "
            "of a complete model."
        )
    if len(own) > 1:
        raise UserError(
            f"{path} contains {len(own)} encoders, which begin with {_shown(own)}: save just the one you want."
        )
    (place,) = own
    others = [other for other in other_prefixes if other != prefix and f".{place}".endswith(f".{other}")]
    if others:
        raise UserError(
            f"The weights in {path} begin with {place}, but its configuration describes a model whose weights begin "
            f"with {prefix}: pass the config.json that belongs to them."
        )
    around = place.removesuffix(prefix) if f".{place}".endswith(f".{prefix}") else place
    inside = {name: array for name, array in arrays.items() if name.startswith(around)}
    beside = {name: array for name, array in arrays.items() if name not in inside}
    return _renamed(inside, lambda name: name.removeprefix(around).removeprefix(prefix), path), beside


def _renamed(arrays: Mapping[str, np.ndarray], new: Callable[[str], str], path: str) -> dict[str, np.ndarray]:
    """The arrays under new names; UserError if two get the same name."""
    old: dict[str, str] = {}
    for name in arrays:
        if old.setdefault(new(name), name) != name:
            raise UserError(f"{path} contains both {old[new(name)]} and {name}: save just the one you want.")
    return {name: arrays[earlier] for name, earlier in old.items()}


def _newer(name: str) -> str:
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return ", ".join(names[:MAX_SHOWN]) + more or "no tensors"

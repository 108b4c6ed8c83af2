"""Keras 3 files, `.keras` archives and `.weights.h5`, read without Keras. Nothing described in them is created.

Weights are named by their path in the model, such as "layers/dense/vars/0", without leading underscores of attribute
names because these differ between versions of Keras.
"""

import dataclasses
import io
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.checkpoints import tensorflow_weights
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import files, machine
from bert_tf.runtime.json_files import parse
from bert_tf.runtime.settings import TEXT, Settings, read_settings

END, CONFIG, WEIGHTS, ASSETS = ".keras", "config.json", "model.weights.h5", "assets/"
OPTIMIZER = "optimizer/"
DEFLATE = 1032  # the most bytes that one compressed byte can stand for
OLDER_LAYERS = "_layer_checkpoint_dependencies"  # "layers" in files from Keras 2.13


@dataclasses.dataclass(frozen=True, kw_only=True)
class KerasFile:
    """The content of a `.keras` file.

    Attributes:
        config: the outermost object in config.json: class_name, registered_name, config.
        weights: {path: array}, without the optimizer's.
        assets: {path of a file without "assets/": its content}.
    """

    config: Settings
    weights: "dict[str, np.ndarray]"
    assets: Mapping[str, bytes]


def is_one(path: str) -> bool:
    """Returns whether a path is a `.keras` file."""
    return path.endswith(END) and files.is_file(path)


def class_of(path: str) -> str:
    """The class of the model in a `.keras` file, such as "keras_hub>BertTextClassifier"; UserError if damaged."""
    return class_in(config_of(path))


def class_in(config: Settings) -> str:
    """The class of an object that Keras described: its registered name, or else its name."""
    return config.value("registered_name", TEXT, "") or config.value("class_name", TEXT, "")


def config_of(path: str) -> Settings:
    """The outermost object in a `.keras` file; UserError if it is damaged."""
    return _config(path, _read_entries(path, (CONFIG,)))


def read(path: str) -> KerasFile:
    """Reads a `.keras` file; UserError if it is damaged or has no weights in HDF5."""
    entries = _read_entries(path, (CONFIG, WEIGHTS, ASSETS))
    if WEIGHTS not in entries:
        raise UserError(f"{path} has no {WEIGHTS}: save the model again with `model.save` of Keras 3.")
    assets = {name.removeprefix(ASSETS): data for name, data in entries.items() if name.startswith(ASSETS)}
    return KerasFile(config=_config(path, entries), weights=_weights(path, io.BytesIO(entries[WEIGHTS])), assets=assets)


def read_weights(path: str) -> dict[str, np.ndarray]:
    """{path in the model: array} from a `.weights.h5`, without the optimizer's weights; {} if there is none.

    Raises UserError if it is damaged or lacks one of its shards.
    """
    arrays: dict[str, np.ndarray] = {}
    for shard in [path] if files.is_file(path) else _shards(path):
        with files.local_copy(shard) as local:
            arrays |= _weights(shard, local)
    return arrays


def _shards(path: str) -> list[str]:
    """The shards of a `.weights.h5` that Keras has split, as named in its index; [] without one."""
    index = f"{path.removesuffix('.h5')}.json"
    places = read_settings(index).inside("weight_map")
    names = [name for each in places.values() for name in (each if isinstance(each, list) else [each])]
    if any(not isinstance(name, str) or os.path.basename(name) != name for name in names):
        raise UserError(f"{index} has no weight_map from names to files in its folder: fetch the folder again.")
    shards = [os.path.join(os.path.dirname(path), name) for name in sorted(set(names))]
    missing = [shard for shard in shards if not files.is_file(shard)]
    if missing:
        raise UserError(f"{index} names {len(shards)} files, and {missing[0]} is missing: fetch the folder again.")
    return shards


def _weights(path: str, source: Any) -> dict[str, np.ndarray]:
    found = tensorflow_weights.read_datasets(source, path, lambda dataset: True)
    return {path_in_model(name): array for name, array in found.items() if not name.startswith(OPTIMIZER)}


def path_in_model(name: str) -> str:
    """The path of a weight in this module's convention, from its name in HDF5."""
    parts = ("layers" if part == OLDER_LAYERS else part.lstrip("_") for part in name.split("/"))
    return "/".join(parts)


def _config(path: str, entries: Mapping[str, bytes]) -> Settings:
    try:
        content: Any = parse(entries[CONFIG].decode())
    except (KeyError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise UserError(f"{path} has no readable {CONFIG}: it is damaged or not a Keras file; fetch it again.")
    return Settings(content, f"{CONFIG} in {path}")


def _read_entries(path: str, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """The files in an archive with these prefixes; UserError if it is damaged or they need too much memory."""
    try:
        with files.open_binary(path) as file, zipfile.ZipFile(file) as archive:
            chosen = [each for each in archive.infolist() if each.filename.startswith(wanted) and not each.is_dir()]
            length = file.seek(0, os.SEEK_END)
            if any(each.compress_size > length or each.file_size > DEFLATE * each.compress_size for each in chosen):
                raise ValueError("the sizes of its entries do not fit its bytes")
            size, (total, _) = sum(each.file_size for each in chosen), machine.memory()
            if size > total:
                raise UserError(
                    f"{path} describes {size:,} bytes, and this machine has {total:,} bytes of memory: it is damaged, "
                    "or needs a larger machine."
                )
            return {each.filename: archive.read(each) for each in chosen}
    except UserError:
        raise
    except Exception as error:  # zipfile raises anything from BadZipFile to zlib.error and NotImplementedError
        raise UserError(
            f"{path} cannot be read as a Keras file ({reason_of(error)}): it is cut short or damaged; fetch it again."
        ) from None

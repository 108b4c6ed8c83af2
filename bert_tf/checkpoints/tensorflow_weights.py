"""Weights that other programs wrote with TensorFlow, by the names of their variables. None of their code runs.

An h5 file of Keras 2 has these names. An object-based checkpoint (`tf.train.Checkpoint`, `save_weights`, the variables
of a SavedModel) has them in its object graph.
"""

import functools
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from bert_tf.checkpoints import tf_index
from bert_tf.checkpoints.checkpoint_files import read_tensors
from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.json_files import parse
from bert_tf.runtime.lazy import module, tf
from bert_tf.runtime.proto_messages import FIELD, message_class
from bert_tf.runtime.settings import Settings

h5py = module("h5py")
saved_metadata_pb2 = module("tensorflow.python.keras.protobuf.saved_metadata_pb2")
trackable_object_graph_pb2 = module("tensorflow.core.protobuf.trackable_object_graph_pb2")
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
SAVED_MODEL, VARIABLES, METADATA = "saved_model.pb", os.path.join("variables", "variables"), "keras_metadata.pb"
# Keys for the state of optimizers and metrics, and for counters.
STATE = re.compile(r"(optimizer|keras_api|save_counter|global_step|train_step)\b|.*/\.OPTIMIZER_SLOT/")
NEWER_KERAS = re.compile(r"(.*/)?vars/\d+")  # names in files of Keras 3, which are numbers
DUPLICATED = re.compile(r"(^|/)[^/]*___([^/]*)/")  # transformers: "mlm___cls" is a second layer "cls"
DEBERTA = {"pos_proj": "pos_key_proj", "pos_q_proj": "pos_query_proj"}  # names that differ in its PyTorch class
STRING = 7  # DT_STRING of TensorFlow's DataType
_MESSAGES: Any = {
    "SavedModel": {"meta_graphs": (2, ["MetaGraph"])},
    "MetaGraph": {"signatures": (5, ["SignatureEntry"])},
    "SignatureEntry": {"value": (2, "Signature")},
    "Signature": {"inputs": (1, ["TensorEntry"])},
    "TensorEntry": {"value": (2, "Tensor")},
    "Tensor": {"type": (2, FIELD.TYPE_INT32)},
}
ENDS = {"kernel": "weight", "embeddings": "weight", "gamma": "weight", "beta": "bias"}


def read_h5(path: str, is_selected: Callable[[Any], bool] = lambda dataset: True) -> dict[str, np.ndarray]:
    """{name of a variable: array} from a file of `save_pretrained` or `save_weights`, only for selected datasets.

    Raises:
        UserError: the file is damaged, or has no such names.
    """
    with files.local_copy(path) as local:
        arrays = read_datasets(local, path, is_selected)
    if any(map(NEWER_KERAS.fullmatch, arrays)):
        raise UserError(
            f"{path} has numbers instead of weight names, like files that Keras writes as .weights.h5: write it again "
            "with `save_pretrained`, or with `save_weights` as model.h5."
        )
    return arrays


def read_datasets(source: Any, path: str, is_selected: Callable[[Any], bool]) -> dict[str, np.ndarray]:
    """{name: array} for the selected datasets in an HDF5 file.

    source: the file, or its local path. path: the path in errors. Raises UserError if the file is damaged.
    """
    try:
        with h5py.File(source, "r") as file:
            return _read_datasets(file, file.id.get_filesize(), is_selected)
    except Exception as error:  # h5py raises anything from OSError to RuntimeError and KeyError
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path} cannot be read as HDF5 ({reason}): it may be cut short; fetch it again.") from None


def _read_datasets(file: Any, size: int, is_selected: Callable[[Any], bool]) -> dict[str, np.ndarray]:
    """The numbers in an open file; ValueError for data beyond its end. Links are not followed."""
    found: dict[str, Any] = {}
    file.visititems(lambda name, each: found.update({name: each} if isinstance(each, h5py.Dataset) else {}))
    arrays: dict[str, np.ndarray] = {}
    total = 0
    for path, dataset in found.items():
        group, _, rest = path.partition("/")
        # The group of a layer lists the names of its weights. In shards, the names begin at the top.
        name = rest if rest and "weight_names" in file[group].attrs else path
        is_bfloat16 = dataset.dtype.itemsize == 2 and dataset.attrs.get("dtype") == "bfloat16"  # from Keras 3
        if not (is_bfloat16 or dataset.dtype.kind in "fiub") or not is_selected(dataset):
            continue
        total += dataset.nbytes
        if dataset.is_virtual or dataset.external or dataset.nbytes != dataset.id.get_storage_size() or total > size:
            raise ValueError(f"the shape of {path} does not fit its bytes")
        array = dataset[()].view(tf.bfloat16.as_numpy_dtype) if is_bfloat16 else dataset[()]
        if name in arrays and not np.array_equal(array, arrays[name], equal_nan=True):
            raise ValueError(f"it has two different values of {name}")
        arrays[name] = array
    return arrays


def is_of_objects(prefix: str) -> bool:
    """Returns whether a TensorFlow checkpoint is object-based, and not from a run of this package."""
    try:
        keys = set(tf_index.keys(prefix))
    except (OSError, ValueError):
        return False
    return GRAPH.encode() in keys and not any(key.startswith(b"weights/") for key in keys)


def read_objects(prefix: str) -> dict[str, np.ndarray]:
    """{name of a variable: array} from an object-based checkpoint, without the state of optimizers and metrics.

    Raises:
        UserError: a file is missing or damaged, or two variables have the same name.
    """
    keys: dict[str, str] = {}
    for key, name in _variables(prefix):
        if "/" in name and keys.setdefault(name, key) != key:  # others are counters
            raise UserError(f"{prefix} has two variables {name}: save the model you want without the other.")
    arrays = read_tensors(prefix, set(keys.values()).__contains__)
    missing = [name for name, key in keys.items() if key not in arrays]
    if missing:
        raise UserError(
            f"{prefix} lacks {len(missing)} of its {len(keys)} variables, such as {missing[0]}: fetch it again."
        )
    return {name: arrays[key] for name, key in keys.items()}


def names(prefix: str) -> list[str]:
    """The names of the variables in an object-based checkpoint."""
    return [name for _, name in _variables(prefix)]


def read_flag(prefix: str, key: str) -> bool | None:
    """A boolean variable at the top of an object-based checkpoint; None if there is none."""
    found = read_tensors(prefix, f"{key}/.ATTRIBUTES/VARIABLE_VALUE".__eq__)
    values = [bool(value) for value in found.values() if np.ndim(value) == 0]
    return values[0] if values else None


def has_object(prefix: str, name: str) -> bool:
    """Returns whether an object in an object-based checkpoint has an attribute of that name."""
    return any(child.local_name == name for node in _nodes(prefix) for child in node.children)


def _variables(prefix: str) -> list[tuple[str, str]]:
    """(key, name) for the variables of models."""
    attributes = [attribute for node in _nodes(prefix) for attribute in node.attributes]
    return [(each.checkpoint_key, each.full_name) for each in attributes if not STATE.match(each.checkpoint_key)]


def _nodes(prefix: str) -> Any:
    found = read_tensors(prefix, GRAPH.__eq__)
    try:
        return trackable_object_graph_pb2.TrackableObjectGraph.FromString(found[GRAPH]).nodes
    except Exception as error:  # DecodeError, or no such tensor, or one of numbers
        raise UserError(f"{prefix} has no readable object graph ({type(error).__name__}): fetch it again.") from None


def torch_names(arrays: Mapping[str, np.ndarray], path: str) -> dict[str, np.ndarray]:
    """The weights of a TensorFlow class in transformers with the names and shapes of the PyTorch class.

    Raises UserError if two get the same name.
    """
    renamed: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        *parts, end = DUPLICATED.sub(r"\1\2/", name.removesuffix(":0")).replace("_._", "/").split("/")
        new = ".".join([*(DEBERTA.get(part, part) for part in parts), ENDS.get(end, end)])
        if new in renamed:
            raise UserError(f"{path} has {new} twice, also as {name}: save the model you want without the other.")
        renamed[new] = np.ascontiguousarray(array.T) if end == "kernel" else array
    # ALBERT in TensorFlow has two biases and adds the second.
    for name in [name for name in renamed if name.endswith("predictions.decoder.bias")]:
        renamed[name.replace(".decoder.", ".")] = renamed.pop(name)
    return renamed


def is_encoder(folder: str) -> bool:
    """Returns whether a SavedModel has a third-party encoder whose signatures take token ids, not texts."""
    path = os.path.join(folder, SAVED_MODEL)
    is_ours = files.is_folder(os.path.join(folder, "assets.extra"))
    return not is_ours and files.is_file(path) and _takes_ids(path, files.size(path))


@functools.lru_cache(maxsize=16)
def _takes_ids(path: str, size: int) -> bool:
    """See `is_encoder`; size: the file's size, so that a new file is read again."""
    try:
        with files.open_binary(path) as file:
            content = file.read()
        if b"word_embeddings" not in content:
            return False
        graphs = message_class("SavedModel", _MESSAGES).FromString(content).meta_graphs
    except (OSError, DecodeError):
        return False
    inputs = [each for graph in graphs for entry in graph.signatures for each in entry.value.inputs]
    return all(each.value.type != STRING for each in inputs)


def is_named_by_tensorflow(arrays: Mapping[str, Any]) -> bool:
    """Returns whether names belong to TensorFlow variables; PyTorch names have no slash."""
    return any("/" in name for name in arrays)


def metadata(folder: str) -> Settings:
    """`class_name` and `config` of the outermost layer in a SavedModel of Keras 2; empty if they cannot be read."""
    path = os.path.join(folder, METADATA)
    try:
        with files.open_binary(path) as file:
            nodes = saved_metadata_pb2.SavedMetadata.FromString(file.read()).nodes
        return Settings(parse(next(node.metadata for node in nodes if node.node_path == "root")), path)
    except Exception:  # from a missing file, protobuf, or JSON
        return Settings({}, path)

"""The modules of sentence-transformers after the pooling: Dense, LayerNorm, Normalize; Dropout does nothing."""

import os
from collections.abc import Mapping

import numpy as np

from bert_tf.checkpoints import torch_pickle
from bert_tf.checkpoints.checkpoint_files import read_safetensors, write_safetensors
from bert_tf.config.sentence_vectors import NORMALIZE, VectorLayer
from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.atomic_files import write_json
from bert_tf.runtime.settings import FLAG, Settings, check, read_settings, shortened, whole

KIND_OF = {"dense": "Dense", "layer_norm": "LayerNorm", "normalize": "Normalize"}
KINDS = (*KIND_OF.values(), "Dropout", "Pooling")
VECTOR = "sentence_embedding"  # read and written by the modules
ACTIVATIONS = {  # activations of Dense without arguments
    "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.activation.SiLU": "silu",
}
WEIGHTS = "model.safetensors"


class Unsupported(Exception):
    """Missing features, as a part of a sentence."""


def read(kind: str, folder: str) -> VectorLayer | None:
    """The layer of a module; None for one that changes nothing.

    Raises Unsupported for an unsupported module or setting, UserError if a file is damaged.
    """
    values = read_settings(os.path.join(folder, "config.json"))
    if kind == "Dropout":
        return None
    if kind == "Pooling" or kind not in KINDS:
        raise Unsupported(f"the module {kind}" if kind != "Pooling" else "two modules Pooling")
    for name in ("module_input_name", "module_output_name"):
        if values.get(name) not in (None, VECTOR):
            raise Unsupported(f"{name} {shortened(values[name])} of the module {kind}")
    if kind == "Normalize":
        return NORMALIZE
    arrays = _arrays(folder)
    if kind == "LayerNorm":
        (width,) = _sizes(values, "dimension")
        shapes: dict[str, tuple[int, ...]] = {"norm.weight": (width,), "norm.bias": (width,)}
        found = _expected(arrays, shapes, folder)
        return VectorLayer("layer_norm", arrays={"gamma": found["norm.weight"], "beta": found["norm.bias"]})
    activation = values.get("activation_function", "torch.nn.modules.activation.Tanh")
    # Names as written by torch, or as in `torch.nn`.
    short = {f"torch.nn.{name.split('.')[-1]}": ours for name, ours in ACTIVATIONS.items()}
    if not isinstance(activation, str) or activation not in {**ACTIVATIONS, **short}:
        raise Unsupported(f"the activation_function {shortened(activation)} of the module Dense")
    before, after = _sizes(values, "in_features", "out_features")
    is_residual = values.value("use_residual", FLAG) is True
    shapes = {"linear.weight": (after, before)}
    if values.value("bias", FLAG) is not False:
        shapes["linear.bias"] = (after,)
    if is_residual and before != after:
        shapes["residual.weight"] = (after, before)
    found = _expected(arrays, shapes, folder)
    names = {"linear.weight": "kernel", "linear.bias": "bias", "residual.weight": "residual"}
    return VectorLayer(
        "dense",
        activation={**ACTIVATIONS, **short}[activation],
        is_residual=is_residual,
        arrays={names[name]: array.T if array.ndim == 2 else array for name, array in found.items()},
    )


def _sizes(values: Settings, *names: str) -> list[int]:
    return [check(values.source, name, values.get(name), whole(1)) for name in names]


def _arrays(folder: str) -> dict[str, np.ndarray]:
    path = os.path.join(folder, WEIGHTS)
    if files.is_file(path):
        return read_safetensors(path)
    older = os.path.join(folder, "pytorch_model.bin")
    if not files.is_file(older):
        raise UserError(f"{folder} has no {WEIGHTS}: fetch it again.")
    return torch_pickle.read(older)


def _expected(
    arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], folder: str
) -> dict[str, np.ndarray]:
    """The arrays with these names, float32; UserError unless they are complete, have these shapes, and are finite."""
    actual = {name: array.shape for name, array in arrays.items()}
    if actual != dict(shapes):
        raise UserError(f"{folder} has weights of shapes {actual}; expected {dict(shapes)}: fetch it again.")
    found = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    if not all(np.isfinite(array).all() for array in found.values()):
        raise UserError(f"{folder} contains NaN or infinite weights: fetch it again.")
    return found


def write(layer: VectorLayer, folder: str) -> None:
    """Writes the files of a module into its existing folder."""
    if layer.kind == "normalize":
        return
    arrays = layer.arrays
    if layer.kind == "layer_norm":
        write_json(os.path.join(folder, "config.json"), {"dimension": len(arrays["gamma"])})
        named = {"norm.weight": arrays["gamma"], "norm.bias": arrays["beta"]}
    else:
        before, after = arrays["kernel"].shape
        values = {
            "in_features": before,
            "out_features": after,
            "bias": "bias" in arrays,
            "activation_function": next(name for name, ours in ACTIVATIONS.items() if ours == layer.activation),
        }
        write_json(os.path.join(folder, "config.json"), values | ({"use_residual": True} if layer.is_residual else {}))
        names = {"kernel": "linear.weight", "bias": "linear.bias", "residual": "residual.weight"}
        named = {names[name]: array.T if array.ndim == 2 else array for name, array in arrays.items()}
    contiguous = {name: np.ascontiguousarray(array) for name, array in named.items()}
    write_safetensors(os.path.join(folder, WEIGHTS), contiguous, framework="pt")

"""LoRA (Hu et al. 2021, arXiv:2106.09685): low-rank matrices, trained instead of the kernels they are added to.

D_in, D_out: sizes of a kernel, or of one matrix in a fused kernel; r rank; N tokens.
"""

import bert_tf.model.started  # noqa: F401  # isort: skip

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config.train_config import LoraConfig
from bert_tf.errors import UserError, leave_out
from bert_tf.model import weights
from bert_tf.model.layers import Dense

# {target: (dense layer within an encoder layer, index of the matrix in its kernel, number of matrices)}
TARGETS = {
    "query": ("attention/query_key_value", 0, 3),
    "key": ("attention/query_key_value", 1, 3),
    "value": ("attention/query_key_value", 2, 3),
    "project_out": ("attention/project_out", 0, 1),
    "expand": ("feed_forward/expand", 0, 1),
    "contract": ("feed_forward/contract", 0, 1),
}
# The canonical names of an adapter's weights.
NAME = re.compile(r"(?P<dense>encoder/layers/\d+/[^/]+/[^/]+)/lora/(?P<target>\w+)/(?P<matrix>[ab])")


class LowRank(keras.layers.Layer):
    """x a b: [N, D_in] -> [N, D_out]; b starts at zero, so that nothing changes at first."""

    def __init__(self, size_in: int, size_out: int, rank: int, **options: Any):
        super().__init__(**options)
        limit = 1 / math.sqrt(size_in)  # as in Microsoft's code and in PEFT; a normal distribution in the paper
        uniform = keras.initializers.RandomUniform(-limit, limit)
        self.a = self.add_weight(name="a", shape=(size_in, rank), initializer=uniform)
        self.b = self.add_weight(name="b", shape=(rank, size_out), initializer="zeros")
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [N, D_in] to [N, D_out]."""
        return tf.matmul(tf.matmul(x, self.a.value), self.b.value)


class Lora(keras.layers.Layer):
    """Adapter added to a dense layer's output: alpha / r * x a b for each target in its kernel."""

    def __init__(self, kernel_shape: tuple[int, int], config: LoraConfig, targets: tuple[str, ...], **options: Any):
        super().__init__(**options)
        self.scale, self.count = config.scale, TARGETS[targets[0]][2]
        size_in, size_out = kernel_shape[0], kernel_shape[1] // self.count
        for target in targets:
            setattr(self, target, LowRank(size_in, size_out, config.lora_rank, dtype=self.dtype_policy))
        self.targets, self.size_out = targets, size_out
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Maps [N, D_in] to [N, kernel columns]; 0 for matrices that are not a target."""
        parts = [tf.zeros([tf.shape(x)[0], self.size_out], x.dtype)] * self.count
        for target in self.targets:
            parts[TARGETS[target][1]] = self.scale * getattr(self, target)(x)
        return tf.concat(parts, -1) if self.count > 1 else parts[0]


def attach(model: keras.Model, config: LoraConfig) -> None:
    """Adds adapters to a model; UserError for an unknown target, or an encoder without such layers."""
    targets = parse_targets(config.lora_targets)
    dense: dict[str, tuple[str, ...]] = {}
    for target in targets:
        dense[TARGETS[target][0]] = (*dense.get(TARGETS[target][0], ()), target)
    found = False
    for path, layer in weights.layers_by_name(model).items():
        place = re.fullmatch(r"encoder/layers/\d+/(.+)", path)
        if place and place[1] in dense:
            shape = tuple(layer.kernel.shape)
            layer.lora = Lora(shape, config, dense[place[1]], dtype=layer.dtype_policy)
            found = True
    model.lora = config
    if not found:
        raise leave_out(f"lora_rank requires BERT's layers, and encoder={model.config.encoder} has none")


def parse_targets(text: str) -> tuple[str, ...]:
    """The names in --lora_targets; UserError for unknown ones."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names or not set(names) <= set(TARGETS):
        raise UserError(f"lora_targets is {text!r}; expected some of {', '.join(TARGETS)}, separated by commas.")
    return names


def merge(model: keras.Model) -> None:
    """Merges a model's adapters into its kernels and removes them: the same outputs, up to rounding."""
    for layer in weights.layers_by_name(model).values():
        adapter = layer.lora if isinstance(layer, Dense) else None
        if adapter is None:
            continue
        for target in adapter.targets:
            part = getattr(adapter, target)
            delta = _placed(target, part.a.numpy() @ part.b.numpy() * adapter.scale)
            layer.kernel.assign(layer.kernel.numpy() + delta)
            part.b.assign(tf.zeros_like(part.b))  # graphs traced before still use it
        layer.lora = None


def merged(arrays: Mapping[str, np.ndarray], config: LoraConfig) -> weights.Weights:
    """Returns {canonical name: array} without adapters, which are merged into the kernels."""
    result = {name: array for name, array in arrays.items() if not NAME.fullmatch(name)}
    for name, array in arrays.items():
        match = NAME.fullmatch(name)
        if match and match["matrix"] == "a":
            kernel = f"{match['dense']}/kernel"
            delta = array @ arrays[f"{name[:-1]}b"] * dataclasses.replace(config, lora_rank=array.shape[1]).scale
            result[kernel] = (result[kernel] + _placed(match["target"], delta)).astype(np.float32)
    return result


def _placed(target: str, delta: np.ndarray) -> np.ndarray:
    """Expands a target's change [D_in, D_out] to its whole kernel, with zeros for other matrices."""
    _, number, count = TARGETS[target]
    parts = [np.zeros_like(delta)] * count
    parts[number] = delta
    return np.concatenate(parts, -1)

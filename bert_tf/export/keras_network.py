"""The network of a live model, with the model's current weights, and its function for an export."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_tf.export.tensorflow_network import MASKS, TensorFlowNetwork, Tensors
from bert_tf.heads.vectors import features
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model.base_encoder import Pass
from bert_tf.model.heads import BertModel
from bert_tf.model.packing import TABLES, PackingSpec, local_costs
from bert_tf.runtime import backend


class KerasNetwork(TensorFlowNetwork):
    """A Network of a Keras model.

    Args:
        model: the model.
        source, settings, jit_compile: see TensorFlowNetwork.
        choice: the vectors to return; None for its head's numbers.
    """

    def __init__(
        self,
        model: BertModel,
        source: str,
        settings: dict[str, Any],
        jit_compile: str = "false",
        choice: VectorChoice | None = None,
    ) -> None:
        self._arguments = model, source, settings, jit_compile
        settings = {**settings, "stages": "vectors"} if choice else settings
        compute = backend.only_values()(_function_of(model, settings, PackingSpec(local_costs()), choice))
        takes_tables = model.encoder.takes_row_tables
        super().__init__(compute, source, settings, jit_compile, takes_tables=takes_tables)
        if not self.is_static:
            self._function = _traced(compute, _specs(settings, takes_tables=takes_tables))

    def of_vectors(self, choice: VectorChoice) -> KerasNetwork:
        """See `Network`."""
        model, source, settings, jit_compile = self._arguments
        return KerasNetwork(model, source, {**settings, "max_positions": choice.max_seq_length}, jit_compile, choice)


def saved_functions(model: BertModel, settings: dict[str, Any], choice: VectorChoice | None = None) -> dict[str, Any]:
    """The tf.function on rows for an export: "planned" if the model takes tables of rows, else "packed".

    settings, choice: see KerasNetwork.
    """
    takes_tables = model.encoder.takes_row_tables
    compute = backend.only_values()(_function_of(model, settings, PackingSpec(), choice))
    specs = _specs(settings, takes_tables=takes_tables)
    return {"planned" if takes_tables else "packed": tf.function(compute, input_signature=[specs], autograph=False)}


def _specs(settings: dict[str, Any], *, takes_tables: bool) -> dict[str, tf.TensorSpec]:
    """The specs of rows."""
    names = ("token_ids", "segment_ids", *([MASKS] if settings["stages"] == "masks" else []))
    names += TABLES if takes_tables else ()
    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}
    return {**specs, "lengths": tf.TensorSpec([None], tf.int32, "lengths")}


def _function_of(
    model: BertModel, settings: dict[str, Any], packing: PackingSpec, choice: VectorChoice | None
) -> Callable[[Tensors], Tensors]:
    """Rows [R, T] -> numbers [R, ...], float32. packing: for encoders that take no tables but pack rows themselves."""
    how = Pass(None, packing, None)
    if choice is not None:
        return lambda rows: features.of_rows(model, model.complete(rows), choice, packing)
    if settings["stages"] != "texts":
        return lambda rows: _float32(model(rows, packing=packing))
    if (settings.get("windows") or {}).get("pooling") == "max":  # over vectors, before the last layer
        return lambda rows: _float32({"pooled": model.vectors(model.complete(rows), how)})
    return lambda rows: _float32({"logits": model.logits(model.complete(rows), how)})


def _traced(compute: Callable[[Tensors], Tensors], specs: dict[str, tf.TensorSpec]) -> Callable[[Tensors], Tensors]:
    """Returns the function; its concrete function is traced at the first call.

    TensorFlow warns about retracing if the tf.functions of several models are called.
    """
    traced = functools.cache(tf.function(compute, input_signature=[specs], autograph=False).get_concrete_function)
    return lambda rows: traced()(rows)


def _float32(outputs: Tensors) -> Tensors:
    return {name: tf.cast(x, tf.float32) for name, x in outputs.items()}

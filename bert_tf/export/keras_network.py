"""The network of a live model, with the model's current weights, and its functions for an export."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_tf.export import tensorflow_network
from bert_tf.export.tensorflow_network import RowFunctions, TensorFlowNetwork, Tensors
from bert_tf.heads.vectors import features
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model.base_encoder import Pass
from bert_tf.model.heads import BertModel
from bert_tf.model.sequence_packing import TABLES, PackingSpec, local_costs
from bert_tf.runtime import backend


class KerasNetwork(TensorFlowNetwork):
    """A `predictor.Network` for a Keras model.

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
        specs = tensorflow_network.specs_of(has_masks=settings["stages"] == "masks")
        packed, alone = (
            backend.only_values()(_function_of(model, settings, how, choice))
            for how in (PackingSpec.dynamic(local_costs()), None)
        )
        functions = RowFunctions(_traced(packed, specs), _traced(alone, specs), _planned(model, settings, packed))
        super().__init__(functions, source, settings, jit_compile)

    def of_vectors(self, choice: VectorChoice) -> KerasNetwork:
        """See `predictor.Network`."""
        model, source, settings, jit_compile = self._arguments
        return KerasNetwork(model, source, {**settings, "max_positions": choice.max_seq_length}, jit_compile, choice)


def saved_functions(model: BertModel, settings: dict[str, Any], choice: VectorChoice | None = None) -> dict[str, Any]:
    """The tf.functions on rows for an export: "packed", and "planned" if the model takes tables of rows.

    settings, choice: see KerasNetwork.
    """
    specs = tensorflow_network.specs_of(has_masks=settings["stages"] == "masks")
    compute = backend.only_values()(_function_of(model, settings, PackingSpec.dynamic(), choice))
    if not _planned(model, settings, compute):
        return {"packed": tf.function(compute, input_signature=[specs], autograph=False)}
    tables = {name: tf.TensorSpec([None, None], tf.int32, name) for name in TABLES}
    planned = tf.function(compute, input_signature=[{**specs, **tables}], autograph=False)

    def packed(rows: Tensors) -> Tensors:
        return planned(PackingSpec.dynamic().plan(rows))

    return {"packed": tf.function(packed, input_signature=[specs], autograph=False), "planned": planned}


def _planned(
    model: BertModel, settings: dict[str, Any], compute: Callable[[Tensors], Tensors]
) -> Callable[[Tensors], Tensors] | None:
    return compute if model.encoder.takes_row_tables and settings["stages"] != "masks" else None


def _function_of(
    model: BertModel, settings: dict[str, Any], packing: PackingSpec | None, choice: VectorChoice | None
) -> Callable[[Tensors], Tensors]:
    """Rows [R, T] -> numbers [R, ...], float32."""
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

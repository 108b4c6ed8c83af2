"""Adds models for other engines to an export, compared with the live model and with the SavedModel's answers."""

import functools
import os
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf import heads
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import NoEngine, UserError, reason_of
from bert_tf.export import engine_network, engines, host, host_settings, opening, tf_examples
from bert_tf.export.engine_network import FOLDER, SETTINGS, EngineNetwork, sample
from bert_tf.export.host import Row
from bert_tf.export.network import SHARES_ROWS, inputs_of
from bert_tf.heads.vectors import Vectors
from bert_tf.model import functional_bert, packing, weights
from bert_tf.model.weights import BETWEEN
from bert_tf.runtime import files
from bert_tf.runtime.atomic_files import write_json

NETWORK = "network"  # the folder of a SavedModel while an engine converts it
TIMED_TOKENS, TIMED_CALLS = 64, 5
TIMED_TEXTS, TIMED_LENGTHS = 24, (5, 60)  # for the choice between padded and shared rows


def write(
    folder: str,
    names: Sequence[str],
    *,
    task: Any,
    model: Any,
    about: Mapping[str, Any],
    precision: str,
    texts: Sequence[Sequence[str]],
    calibration: Sequence[Sequence[str]] = (),
    by_default: bool = False,
) -> dict[str, dict[str, np.ndarray]]:
    """Adds models for these engines to the export in a folder that is not in use yet.

    Args:
        folder: an export whose SavedModel, about.json, host.json and tokenizer are written.
        names: engines, with "_int8" for 8-bit weights.
        task: the task of the export.
        model: the Keras model of the export.
        about: the content of about.json.
        precision: precision of the export, which an engine need not exceed.
        texts: texts of the examples to compare on.
        calibration: texts of examples for finding the ranges of 8-bit numbers.
        by_default: whether the engines were chosen automatically: for an export with other signatures, which engines
            do not have, the server then uses TensorFlow.

    Returns:
        {engine: outputs for the texts}, to be compared with the SavedModel's.

    Raises:
        UserError: a package is missing, the model cannot be converted, or its outputs differ.
    """
    settings = host_settings.read(folder)
    choice = task.vector_choice(model.config)
    if settings is None or not (choice is None or choice.is_of_last_layer):
        raise NoEngine(f"{task.name} needs TensorFlow")
    tokenizer = opening.tokenizer_of(folder)
    stages = host.stages(settings, dict(about), tokenizer)
    arrays = {
        name: np.asarray(variable.value.numpy(), np.float32)
        for name, variable in weights.variables_by_name(model).items()
    }
    checkpoint, kind = Checkpoint(config=model.config, weights=arrays), about.get("kind")
    form = form_of(kind, arrays, settings)
    live = functional_bert.CheckpointModel(checkpoint, functional_bert.sharing_rows(form))
    rows, signatures = _rows(stages, texts), _signature_defs(folder)
    settings = {
        **settings,
        "precision": precision,
        "token_outputs": list(live.head.token_outputs),
        "has_masks": "masked_lm_positions" in live.head.inputs,
        SHARES_ROWS: [],
        "seconds": {},
        "signature_def": signatures["serving_default"],
        "other_signatures": sorted(signatures.keys() - {"serving_default", tf_examples.NAME}) if by_default else [],
        "check": {"rows": [], "numbers": {}},
    }
    checked = sorted(rows, key=lambda row: len(row.ids))[-engine_network.CHECKED :]
    settings["check"] = _checked(live, checked, settings)
    path = os.path.join(folder, FOLDER)
    files.make_folder(path)
    write_json(os.path.join(path, SETTINGS), settings)
    samples = [inputs_of([row], settings) for row in _rows(stages, calibration)] if calibration else []
    outputs = {}
    for name in names:
        engine, _, quantize = name.partition("_")
        files.make_folder(os.path.join(path, name))
        module = engines.engine_of(engine, quantize or None)
        convert(module, live, os.path.join(path, name), quantize=quantize or None, samples=samples)
        outputs[name] = opening.predictor_of(folder, name, exact=True).outputs(texts)
        network = EngineNetwork(folder, name)
        settings["seconds"][name] = _seconds(network, rows)
        if _is_faster_shared(network, checked[-1], settings["max_positions"]):
            settings[SHARES_ROWS].append(name)
        write_json(os.path.join(path, SETTINGS), settings)
    return outputs


def functional_form(kind: str | None, weights: Collection[str]) -> functional_bert.Head:
    """The form of the head of a checkpoint with these weight names; kind: as recorded in it.

    Raises UserError for a head that other engines do not support.
    """
    head = heads.of_checkpoint(kind, weights)
    if head is None and any(name.startswith(BETWEEN) for name in weights):
        raise UserError("Other engines do not support layers between encoder and head, which this model has.")
    form: functional_bert.Head = getattr(functional_bert, (head or Vectors).format_names().form)
    return form


def form_of(kind: str | None, names: Collection[str], settings: Mapping[str, Any]) -> functional_bert.Head:
    """The form in which engines compute a model with these row and answer settings; names: its weight names.

    Raises NoEngine for a model that fills masks with its own generator, and UserError like `functional_form`.
    """
    form = functional_form(kind, names)
    if settings["stages"] == "masks" and form is not functional_bert.MASKS:
        raise NoEngine("Other engines do not have the generator that fills the masks of this model")
    if (settings.get("windows") or {}).get("pooling") == "max":  # pools vectors, before the last layer
        return functional_bert.VECTORS
    return form


def name_of(engine: ModuleType) -> str:
    """The name of an engine by its module."""
    return engine.__name__.rpartition(".")[2]


def convert(
    engine: ModuleType,
    live: functional_bert.CheckpointModel,
    folder: str,
    *,
    quantize: str | None,
    samples: list[dict[str, np.ndarray]],
) -> None:
    """Writes only the files of an engine into an existing folder. samples: inputs for int8 calibration."""
    network = os.path.join(folder, NETWORK)
    try:
        live.save(network)
        engine.write(network, folder, quantize=quantize, samples=samples)
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:  # converters raise many types
        raise UserError(f"{name_of(engine)} cannot convert this model ({reason_of(error)}).") from error
    files.remove(network)


def _signature_defs(folder: str) -> dict[str, dict[str, Any]]:
    """The SignatureDefs of a SavedModel as JSON, with all fields, without TensorFlow's own."""
    with files.open_binary(os.path.join(folder, "saved_model.pb")) as file:
        (graph,) = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs
    options = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    defs = graph.signature_def.items()
    return {name: json_format.MessageToDict(each, **options) for name, each in defs if not name.startswith("__")}


def _rows(stages: Any, texts: Iterable[Sequence[str]]) -> list[Row]:
    rows: list[Row] = stages.read(list(texts))[0]
    return rows


def _checked(live: functional_bert.CheckpointModel, rows: Sequence[Row], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Content of host.json about some rows and TensorFlow's outputs for them."""
    numbers: dict[str, list[list[float]]] = {}
    for row in rows:
        for name, values in live(inputs_of([row], settings)).items():
            numbers.setdefault(name, []).append([float(f"{x:.6g}") for x in sample(values[0])])
    return {"rows": [row._asdict() for row in rows], "numbers": numbers}


def _seconds(network: EngineNetwork, rows: Sequence[Row]) -> float:
    """The median time for a row of TIMED_TOKENS, or as many as in the longest row."""
    longest = max(rows, key=lambda row: len(row.ids))
    row = Row(longest.ids[:TIMED_TOKENS], longest.segments[:TIMED_TOKENS], [0])
    return round(statistics.median(_call_seconds(lambda: network.numbers([row])) for _ in range(TIMED_CALLS)), 6)


def _is_faster_shared(network: EngineNetwork, row: Row, longest: int) -> bool:
    """Returns whether short texts that share rows take less time than padded ones. row: provides the tokens."""
    lengths = np.random.default_rng(0).integers(*TIMED_LENGTHS, TIMED_TEXTS).clip(max=longest).tolist()
    rows = [Row((row.ids * length)[:length], [0] * length, [0]) for length in lengths]
    plans = [planner.plan(lengths) for planner in (packing.PADDED, packing.SHARED)]
    times = [
        [_call_seconds(functools.partial(network.compute, rows, calls)) for calls in plans] for _ in range(TIMED_CALLS)
    ]
    padded, shared = np.min(times[1:], 0)  # the first call for a shape takes longer
    return bool(shared < padded)


def _call_seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start

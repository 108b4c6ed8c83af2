"""The network of an export computed by OpenVINO or ONNX Runtime, without importing TensorFlow.

R rows.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from bert_tf.errors import UserError, reason_of
from bert_tf.export import engines, host_settings
from bert_tf.export.host import Row
from bert_tf.export.network import SHARES_ROWS, Arrays, Network
from bert_tf.heads.vectors.vector_choice import VectorChoice
from bert_tf.model import packing
from bert_tf.model.packing import Placement
from bert_tf.runtime import files, head_records, json_files, run_files
from bert_tf.runtime.settings import (
    FLAG,
    LIST,
    OBJECT,
    TEXTS,
    Kind,
    Settings,
    list_of,
    map_of,
    number,
    one_of,
    optional,
    whole,
)

FOLDER, SETTINGS = "engines", "host.json"
INT8 = "_int8"  # suffix of the names of models with 8-bit weights
CHECKED = 2  # rows whose outputs are stored with a model, and compared when it is loaded
FAR = {"float32": 1e-3, "bfloat16": 0.2, "float16": 0.2, "int8": 0.5}  # how far they may differ on another machine
NUMBERS = list_of(whole(0), "whole numbers, 0 or more")
ROW: Kind[dict[str, Any]] = Kind(
    "a row with ids, segments and positions",
    lambda value: isinstance(value, dict) and all(NUMBERS.holds(value.get(name)) for name in Row._fields),
)
KINDS: run_files.Kinds = {  # values added in this folder's host.json
    "precision": one_of("float32", "bfloat16", "float16"),
    "token_outputs": TEXTS,
    "has_masks": FLAG,
    SHARES_ROWS: optional(TEXTS),  # missing in older exports
    "seconds": map_of(number(0), "numbers"),
    "signature_def": OBJECT,
    "other_signatures": optional(TEXTS),
    "check": {"rows": list_of(ROW, "rows"), "numbers": map_of(LIST, "lists")},
}


class EngineNetwork(Network):
    """The engine's model of an export; its settings are the content of host.json."""

    def __init__(self, folder: str, engine: str, *, exact: bool = False) -> None:
        """Loads the model.

        exact: compute in float32 even if the export has a lower precision. Raises UserError if there is no such model,
        the engine is not installed, or a file is damaged.
        """
        self.name, self._folder = engine, folder
        if engine not in available(folder):
            raise UserError(
                f"{folder} has no model for {engine}: `bert-tf export RUN --engine={engine} --overwrite` writes it."
            )
        self.settings = settings_of(folder)
        shares_rows = engine in (self.settings.get(SHARES_ROWS) or ())
        self.planner = packing.SHARED if shares_rows else packing.PADDED
        self._lock = threading.Lock()
        self._function = _load(folder, engine, exact=exact or self.settings["precision"] == "float32")

    def computes(self, choice: VectorChoice) -> bool:
        """Returns whether the model computes these vectors."""
        return bool(self.settings["stages"] == "vectors" and choice.is_of_last_layer)

    def of_vectors(self, choice: VectorChoice) -> Self:
        """See `Network`."""
        if self.settings["stages"] != "vectors":
            raise UserError(f"{self._folder} produces no embeddings with {self.name}: load it without engine.")
        if not choice.is_of_last_layer:
            raise UserError(f"{self.name} has only the last layer: remove layers, or use --engine=tensorflow.")
        return self

    def _outputs(self, inputs: Iterator[Arrays]) -> Iterator[Arrays]:
        for each in inputs:
            try:
                with self._lock:
                    outputs = self._function(each)
            except (UserError, MemoryError):
                raise
            except Exception as error:  # engines raise many types
                raise UserError(f"{self.name} cannot compute {self._folder} ({reason_of(error)}).") from None
            yield outputs

    def check(self, stages: Any, labels: Sequence[str]) -> None:
        """Raises UserError unless the outputs for some rows are as stored, with these labels."""
        stages.read([[""] * sum(count or 1 for count in stages.inputs.values())])  # raises for damaged settings
        stored = self.settings["check"]
        rows = [Row(**row) for row in stored["rows"]]
        lengths = [len(row.ids) for row in rows]
        call = (Placement.in_one_row if SHARES_ROWS in self.settings else Placement.padded)(lengths)
        numbers = self.compute(rows, [call])
        host_settings.check_labels(self._folder, stages, numbers, labels)
        for name, expected in stored["numbers"].items():
            far = difference(np.hstack([[], *expected]), np.hstack([[], *map(sample, numbers[name])]))
            if not far <= FAR["int8" if self.name.endswith(INT8) else self.settings["precision"]]:
                raise UserError(
                    f"On this machine, outputs of {self.name} for {self._folder} differ from TensorFlow's: {name} "
                    f"differs by {far:.2g} of the largest value; use --engine=tensorflow, or export it here."
                )


def available(folder: str) -> list[str]:
    """The engines that an export has models for."""
    path = os.path.join(folder, FOLDER)
    has_settings = files.is_file(os.path.join(path, SETTINGS))
    return [name for name in files.names(path) if name != SETTINGS] if has_settings else []


def settings_of(folder: str) -> dict[str, Any]:
    """The content of host.json; UserError if it is damaged."""
    path = os.path.join(folder, FOLDER, SETTINGS)
    values = Settings(json_files.require_json(path, "the engine settings of an export"), path)
    missing = [name for name in ("stages", "precision", "seconds", "signature_def", "check") if name not in values]
    if missing:
        raise UserError(f"{path} lacks {missing[0]}: export it again with --engine.")
    host_settings.check(values)
    head_records.check_present(values, KINDS)
    return values


def sample(values: Any) -> np.ndarray:
    """Some of a row's numbers, which represent all."""
    flat = np.asarray(values, np.float64).reshape(-1)
    return flat[:: -(-flat.size // 64) or 1]


def difference(expected: np.ndarray, actual: np.ndarray) -> float:
    """The largest difference, relative to the largest expected value; infinite if shapes differ."""
    if expected.shape != actual.shape or not np.isfinite(actual).all():
        return np.inf
    return float(np.abs(expected - actual).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-30))


def _load(folder: str, engine: str, *, exact: bool) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    path = os.path.join(folder, FOLDER, engine)
    module = engines.engine_of(engine.partition("_")[0], runs_only=True)
    try:
        function: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = module.load(path, exact=exact)
    except UserError:
        raise
    except Exception as error:  # engines raise many types
        raise UserError(
            f"The model in {path} cannot be loaded ({reason_of(error)}): one of its files is damaged or missing; "
            "export it again."
        ) from None
    return function

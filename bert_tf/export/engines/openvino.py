"""OpenVINO: `model.xml` and `model.bin`; int8 weights, and with texts for calibration int8 activations too."""

import contextlib
import functools
import io
import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bert_tf.runtime.lazy import module

openvino, nncf = module("openvino"), module("nncf")
PACKAGES = {None: ("openvino",), "int8": ("openvino", "nncf")}
CALIBRATES = True  # int8 learns the ranges of numbers from samples
RUNTIME = "openvino"
FILES = ("model.xml", "model.bin")


@functools.cache
def _core() -> Any:
    """OpenVINO's core, one per process, which is never freed.

    With AMX the core gives the main thread a signal stack and, when freed, restores the previous one. After two cores
    that can be the stack of the one freed first: the next signal ends the process with a segmentation fault.
    """
    return openvino.Core()


def write(saved_model: str, folder: str, *, quantize: str | None, samples: list[dict[str, np.ndarray]]) -> None:
    """Converts the SavedModel; int8 applies to weights, and with samples also to the inputs of matrix products."""
    model = _core().read_model(saved_model)  # convert_model does the same and sends telemetry
    if quantize:
        model = _quantized(model, samples)
    openvino.save_model(model, os.path.join(folder, FILES[0]), compress_to_fp16=False)


def _quantized(model: Any, samples: list[dict[str, np.ndarray]]) -> Any:
    nncf.set_log_level(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()):  # tables and bars
        if not samples:
            return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
        kind = nncf.ModelType.TRANSFORMER
        return nncf.quantize(model, nncf.Dataset(samples), model_type=kind, subset_size=len(samples))


def may_round() -> bool:
    """Returns whether this CPU has bfloat16, which OpenVINO then uses."""
    return "BF16" in _core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def _cause(error: RuntimeError) -> str:
    """The message of an error without the lines about locations in OpenVINO's code."""
    lines = [line.strip() for line in str(error).splitlines()]
    return " ".join(line for line in lines if line and not line.startswith("Exception from ")) or str(error)


def load(folder: str, *, exact: bool) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Compiles the model for this CPU, for one request at a time."""
    properties = {"PERFORMANCE_HINT": "LATENCY"} | ({"INFERENCE_PRECISION_HINT": "f32"} if exact else {})
    try:
        compiled = _core().compile_model(os.path.join(folder, FILES[0]), "CPU", properties)
    except RuntimeError as error:
        raise RuntimeError(_cause(error)) from None
    outputs = [output.any_name for output in compiled.outputs]

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = compiled(inputs)
        return {name: values[number].copy() for number, name in enumerate(outputs)}

    return run

"""LiteRT, formerly TensorFlow Lite: `model.tflite`; int8 weights with dynamic quantization of activations."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bert_tf.runtime.lazy import module, tf

interpreter = module("ai_edge_litert.interpreter")
PACKAGES = {None: ("ai_edge_litert",), "int8": ("ai_edge_litert",)}
CALIBRATES = False
RUNTIME = "ai_edge_litert"
FILES = ("model.tflite",)


def write(saved_model: str, folder: str, *, quantize: str | None, samples: list[dict[str, np.ndarray]]) -> None:
    """Converts the SavedModel; a concrete function by itself would silently lose its weights."""
    converter = tf.lite.TFLiteConverter.from_saved_model(saved_model)
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    model = converter.convert()
    with open(os.path.join(folder, FILES[0]), "wb") as file:
        file.write(model)


def may_round() -> bool:
    """LiteRT computes in float32."""
    return False


def load(folder: str, *, exact: bool) -> Callable[[dict[str, np.ndarray]], Any]:
    """Creates an interpreter on all cores, for one thread at a time."""
    path = os.path.join(folder, FILES[0])
    runner = interpreter.Interpreter(model_path=path, num_threads=os.cpu_count()).get_signature_runner()
    names = list(runner.get_input_details())
    return lambda inputs: runner(**{name: inputs[name] for name in names})

"""ONNX Runtime: `model.onnx`; int8 weights with dynamic quantization of activations."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.runtime.lazy import module, tf

onnx, tf2onnx, onnxruntime = module("onnx"), module("tf2onnx"), module("onnxruntime")
quantization = module("onnxruntime.quantization")
PACKAGES = {None: ("tf2onnx", "onnx", "onnxruntime"), "int8": ("tf2onnx", "onnx", "onnxruntime")}
CALIBRATES = False
RUNTIME = "onnxruntime"
FILES = ("model.onnx",)
OPSET = 18  # with an older one tf2onnx turns means into average pools, and ONNX Runtime finds no LayerNorm in these
ROOT = "square_root_of_2"


def write(saved_model: str, folder: str, *, quantize: str | None, samples: list[dict[str, np.ndarray]]) -> None:
    """Converts the SavedModel. int8 uses 7 bits of each weight because 8 overflow on processors without VNNI.

    Products with fewer outputs than inputs stay in float32; quantizing them changes logits most (docs/performance.md).
    """
    logging.getLogger("tf2onnx").setLevel(logging.ERROR)  # it reports its progress
    loaded = tf.saved_model.load(saved_model)  # a function alone loses its variables
    function = loaded.of_params  # with weights as constants, BERT-base would take 22 GB
    model, _ = tf2onnx.convert.from_function(function, input_signature=function.input_signature, opset=OPSET)
    _fill(model.graph, [tensor.op.name for tensor in function.get_concrete_function().inputs], loaded.params)
    _divide_before_erf(model.graph)
    target = os.path.join(folder, FILES[0])
    if not quantize:
        onnx.save(model, target)
        return
    logging.disable(logging.WARNING)  # it recommends a step for images
    try:
        narrowing = [node.name for node in model.graph.node if _narrows(node, model.graph)]
        quantization.quantize_dynamic(model, target, per_channel=True, reduce_range=True, nodes_to_exclude=narrowing)
    finally:
        logging.disable(logging.NOTSET)


def _fill(graph: Any, inputs: Sequence[str], params: Mapping[str, Any]) -> None:
    """Turns the first inputs of a graph, its weights in the order of their names, into constants."""
    for name, param in zip(inputs, sorted(params), strict=False):
        graph.initializer.append(onnx.numpy_helper.from_array(params[param].numpy(), name))
    remaining = [value for value in graph.input if value.name not in inputs[: len(params)]]
    del graph.input[:]
    graph.input.extend(remaining)


def _narrows(node: Any, graph: Any) -> bool:
    kernels = (x.dims for x in graph.initializer if node.op_type == "MatMul" and x.name == node.input[1])
    return any(len(shape) == 2 and shape[0] > shape[1] for shape in kernels)


def _divide_before_erf(graph: Any) -> None:
    """Replaces x * 0.7071 with x / 1.4142, the GELU that ONNX Runtime recognizes; TensorFlow's optimizer changed it."""
    factors = {entry.name for entry in graph.initializer if onnx.numpy_helper.to_array(entry).size == 1}
    makers = {output: node for node in graph.node for output in node.output}
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(np.sqrt(2), np.float32), ROOT))
    for product in [makers[node.input[0]] for node in graph.node if node.op_type == "Erf"]:
        if product.op_type == "Mul" and product.input[1] in factors:
            product.op_type, product.input[1] = "Div", ROOT
    used = {name for node in graph.node for name in node.input}
    for entry in [entry for entry in graph.initializer if entry.name not in used]:
        graph.initializer.remove(entry)


def may_round() -> bool:
    """ONNX Runtime computes in the precision of the file."""
    return False


def load(folder: str, *, exact: bool) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Opens a session on the CPU."""
    session = onnxruntime.InferenceSession(os.path.join(folder, FILES[0]), providers=["CPUExecutionProvider"])
    input_names = [entry.name for entry in session.get_inputs()]
    output_names = [entry.name for entry in session.get_outputs()]

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = session.run(output_names, {name: inputs[name] for name in input_names})
        return dict(zip(output_names, outputs, strict=True))

    return run

"""ONNX Runtime: `model.onnx`; int8 of weights, and of activations as they come."""

import logging
import os

PACKAGES = {None: ("tf2onnx", "onnx", "onnxruntime"), "int8": ("tf2onnx", "onnx", "onnxruntime")}
FILES = ("model.onnx",)
OPSET = 18  # below, tf2onnx makes an average pool of every mean, and ONNX Runtime finds no LayerNorm
ROOT = "square_root_of_2"


def write(saved_model, folder, *, quantize, samples):
    """Converts. int8: 7 bits of each weight, as processors without VNNI run over with 8."""
    import onnx
    import tensorflow as tf
    import tf2onnx

    logging.getLogger("tf2onnx").setLevel(logging.ERROR)  # it tells how it goes
    loaded = tf.saved_model.load(saved_model)  # kept: a function alone loses its variables
    signature = loaded.function.input_signature
    made, _ = tf2onnx.convert.from_function(loaded.function, input_signature=signature, opset=OPSET)
    _divide_before_erf(made.graph)
    target = os.path.join(folder, FILES[0])
    if not quantize:
        onnx.save(made, target)
        return
    from onnxruntime import quantization

    logging.disable(logging.WARNING)  # it advises a step that images need
    try:
        quantization.quantize_dynamic(made, target, per_channel=True, reduce_range=True)
    finally:
        logging.disable(logging.NOTSET)


def _divide_before_erf(graph):
    """X * 0.7071 to x / 1.4142, as ONNX Runtime knows a GELU by; it was that, before TensorFlow's own optimizer."""
    import numpy as np
    from onnx import numpy_helper

    factors = {entry.name for entry in graph.initializer if numpy_helper.to_array(entry).size == 1}
    makers = {output: node for node in graph.node for output in node.output}
    graph.initializer.append(numpy_helper.from_array(np.float32(np.sqrt(2)), ROOT))
    for product in [makers[node.input[0]] for node in graph.node if node.op_type == "Erf"]:
        if product.op_type == "Mul" and product.input[1] in factors:
            product.op_type, product.input[1] = "Div", ROOT
    used = {name for node in graph.node for name in node.input}
    for entry in [entry for entry in graph.initializer if entry.name not in used]:
        graph.initializer.remove(entry)


def may_round():
    return False


def load(folder, *, exact):
    """Opens a session on the CPU; ONNX Runtime computes as the file says, whatever the processor has."""
    import onnxruntime

    session = onnxruntime.InferenceSession(os.path.join(folder, FILES[0]), providers=["CPUExecutionProvider"])
    inputs = [entry.name for entry in session.get_inputs()]
    outputs = [entry.name for entry in session.get_outputs()]

    def answer(given):
        return dict(zip(outputs, session.run(outputs, {name: given[name] for name in inputs}), strict=True))

    return answer

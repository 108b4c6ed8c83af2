"""OpenVINO: `model.xml` and `model.bin`; int8 of weights alone, or with texts to calibrate on of activations too."""

import contextlib
import io
import logging
import os

PACKAGES = {None: ("openvino",), "int8": ("openvino", "nncf")}
FILES = ("model.xml", "model.bin")


def write(saved_model, folder, *, quantize, samples):
    """Converts; the weights stay float32. int8: 8 bits of each weight, of each product's inputs too with samples."""
    import openvino

    model = openvino.Core().read_model(saved_model)  # convert_model makes the same, and tells Intel that it did
    if quantize:
        model = _quantized(model, samples)
    openvino.save_model(model, os.path.join(folder, FILES[0]), compress_to_fp16=False)


def _quantized(model, samples):
    import nncf

    nncf.set_log_level(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()):  # tables and bars
        if not samples:
            return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
        kind = nncf.ModelType.TRANSFORMER
        return nncf.quantize(model, nncf.Dataset(samples), model_type=kind, subset_size=len(samples))


def may_round():
    """Whether this CPU has bfloat16, which OpenVINO then computes in."""
    import openvino

    return "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def load(folder, *, exact):
    """Compiles the model for this CPU, for one request at a time."""
    import openvino

    wished = {"PERFORMANCE_HINT": "LATENCY"} | ({"INFERENCE_PRECISION_HINT": "f32"} if exact else {})
    compiled = openvino.Core().compile_model(os.path.join(folder, FILES[0]), "CPU", wished)
    outputs = [output.any_name for output in compiled.outputs]

    def answer(inputs):
        answers = compiled(inputs)
        return {name: answers[number].copy() for number, name in enumerate(outputs)}

    return answer

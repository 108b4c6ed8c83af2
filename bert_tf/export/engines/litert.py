"""LiteRT, once called TensorFlow Lite: `model.tflite`; int8 of weights, and of activations as they come."""

import os

PACKAGES = {None: ("ai_edge_litert",), "int8": ("ai_edge_litert",)}
FILES = ("model.tflite",)


def write(saved_model, folder, *, quantize, samples):
    """Converts the SavedModel: a function without one would lose its weights, and say nothing."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(saved_model)
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    made = converter.convert()
    with open(os.path.join(folder, FILES[0]), "wb") as file:
        file.write(made)


def may_round():
    return False


def load(folder, *, exact):
    """An interpreter on all cores; it is not for several threads at once."""
    from ai_edge_litert.interpreter import Interpreter

    path = os.path.join(folder, FILES[0])
    runner = Interpreter(model_path=path, num_threads=os.cpu_count()).get_signature_runner()
    names = list(runner.get_input_details())
    return lambda inputs: runner(**{name: inputs[name] for name in names})

"""Runs a SavedModel without Python: compiles serve_in_c.c against the installed TensorFlow and reads what it prints."""

import functools
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np


def run_in_c(saved_model_folder, signature_inputs, outputs, *, signature="serving_default"):
    """Feeds strings to a signature in a process of its own and returns what it answers.

    signature_inputs: {name: strings as a list, or lists of them, or an array}; outputs: names. Returns {name: nested
    lists of str, float, int or bool}.
    Raises RuntimeError with the program's own words if it does not load or run, KeyError for an unknown name.
    """
    definition = read_signature(saved_model_folder, signature)
    texts = {name: np.array(values, object) for name, values in signature_inputs.items()}
    command = [
        compiled(),
        os.fspath(saved_model_folder),
        ",".join(definition.inputs[name].name for name in _known(texts, definition.inputs)),
        ",".join(definition.outputs[name].name for name in _known(outputs, definition.outputs)),
        *op_libraries(),
    ]
    content = b"".join(map(_serialize, texts.values()))
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, input=content, capture_output=True, env=os.environ | quiet, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip() or f"ended with {done.returncode}")
    answers = [json.loads(line) for line in done.stdout.decode("utf-8", "surrogateescape").split("\n") if line]
    arrays = [np.array(answer["values"], object).reshape(answer["shape"]) for answer in answers]
    return {name: array.tolist() for name, array in zip(outputs, arrays, strict=True)}


def _serialize(array):
    """An array of strings as the program reads it: dimensions, then each string behind its length."""
    strings = [text.encode() if isinstance(text, str) else text for text in array.ravel()]
    head = " ".join(map(str, [array.ndim, *array.shape])).encode()
    return head + b"\n" + b"".join(b"%d\n%s" % (len(string), string) for string in strings)


def read_signature(saved_model_folder, signature):
    """The SignatureDef of that name: what the tensors behind each input and output are called."""
    from tensorflow.core.protobuf import saved_model_pb2

    content = pathlib.Path(saved_model_folder, "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    return graph.signature_def[_known([signature], graph.signature_def)[0]]


def _known(names, definitions):
    """The names as a list; reading a missing key of a protocol buffer's map would make it."""
    for name in names:
        if name not in definitions:
            raise KeyError(f"{name!r} is not among {sorted(definitions)}")
    return list(names)


@functools.cache
def compiled():
    """The path of the program, compiled once in each process that asks."""
    folder, tensorflow = tempfile.mkdtemp(prefix="serve_in_c_"), _folder_of("tensorflow")
    program, source = os.path.join(folder, "serve_in_c"), pathlib.Path(__file__).with_name("serve_in_c.c")
    libraries = ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", f"-L{tensorflow}"]
    if shutil.which("ld.gold"):
        libraries.append("-fuse-ld=gold")  # five times as fast with libraries of this size
    command = ["gcc", "-O1", "-Wall", str(source), "-o", program, f"-I{tensorflow}/include", *libraries]
    done = subprocess.run([*command, f"-Wl,-rpath,{tensorflow}", "-lm"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"serve_in_c.c does not compile:\n{done.stderr}")
    return program


def op_libraries():
    """The libraries with tensorflow-text's operations."""
    return sorted(str(path) for path in pathlib.Path(_folder_of("tensorflow_text"), "python", "ops").glob("_*.so"))


def _folder_of(package):
    return importlib.util.find_spec(package).submodule_search_locations[0]

"""Runs a SavedModel by TensorFlow's C library alone, in a process that does not import TensorFlow."""

import os
import pathlib
import pickle
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = """
import pickle, sys
import numpy as np
from bert_tf.export import loaded_model
from bert_tf.runtime import tensorflow_c

folder, name, texts, outputs = pickle.load(sys.stdin.buffer)
session = tensorflow_c.Session(tensorflow_c.library_path(), folder, loaded_model.text_operations())
signature = session.signatures[name]
as_bytes = np.vectorize(lambda text: text if isinstance(text, bytes) else text.encode(), otypes=[object])
feeds = {signature.inputs[each]: as_bytes(np.array(values, object)).tolist() for each, values in texts.items()}
arrays = session.run(feeds, [signature.outputs[each] for each in outputs])
as_text = np.vectorize(lambda text: text.decode("utf-8", "surrogateescape"), otypes=[object])
assert "tensorflow" not in sys.modules
found = {each: (as_text(x) if x.dtype == object else x).tolist() for each, x in zip(outputs, arrays)}
pickle.dump(found, sys.stdout.buffer)
"""


def run_in_c(saved_model_folder, signature_inputs, outputs, *, signature="serving_default"):
    """Feeds strings to a signature and returns what it answers, {name: nested lists}.

    signature_inputs: {name: strings as a list, or lists of them, or an array}; outputs: names.
    """
    if sys.platform != "linux":
        pytest.skip("the C library is used on Linux alone")
    given = pickle.dumps((os.fspath(saved_model_folder), signature, signature_inputs, outputs))
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, input=given, capture_output=True, env=os.environ | quiet, cwd=ROOT, check=False)
    assert not done.returncode, done.stderr.decode(errors="replace")
    return pickle.loads(done.stdout)


def read_signature(saved_model_folder, signature):
    """The SignatureDef of that name: what the tensors behind each input and output are called."""
    from tensorflow.core.protobuf import saved_model_pb2

    content = pathlib.Path(saved_model_folder, "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    return graph.signature_def[signature]

"""Runs a SavedModel by TensorFlow's C library alone, in a process that does not import TensorFlow."""

import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export import loaded_model

PROGRAM = pathlib.Path(__file__).with_name("c_session.py")


def run_in_c(saved_model_folder, signature_inputs, outputs, *, signature="serving_default"):
    """Feeds strings to a signature and returns what it answers, {name: nested lists}.

    signature_inputs: {name: strings as a list, or lists of them, or an array}; outputs: names.
    """
    if sys.platform != "linux":
        pytest.skip("the C library is used on Linux alone")
    as_bytes = np.vectorize(lambda text: text if isinstance(text, bytes) else text.encode(), otypes=[object])
    as_text = np.vectorize(lambda text: text.decode("utf-8", "surrogateescape"), otypes=[object])
    definition = read_signature(saved_model_folder, signature)
    feeds = {
        definition.inputs[name].name: as_bytes(np.array(values, object)).tolist()
        for name, values in signature_inputs.items()
    }
    fetches = [definition.outputs[name].name for name in outputs]
    (library,) = pathlib.Path(tf.__file__).parent.glob("libtensorflow_cc.so.*")
    given = str(library), loaded_model.text_operations(), os.fspath(saved_model_folder), feeds, fetches
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, PROGRAM]
    done = subprocess.run(command, input=pickle.dumps(given), capture_output=True, env=os.environ | quiet, check=False)
    assert not done.returncode, done.stderr.decode(errors="replace")
    arrays = zip(outputs, pickle.loads(done.stdout), strict=True)
    return {name: (as_text(x) if x.dtype == object else x).tolist() for name, x in arrays}


def read_signature(saved_model_folder, signature):
    """The SignatureDef of that name: what the tensors behind each input and output are called."""
    from tensorflow.core.protobuf import saved_model_pb2

    content = pathlib.Path(saved_model_folder, "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    return graph.signature_def[signature]

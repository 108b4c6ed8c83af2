"""An export that is served: its signatures, what they take, and answers to batches.

B instances of a batch.
"""

import dataclasses
import os

import numpy as np

from bert_tf import exported
from bert_tf.errors import UserError

VERSION = "1"  # TensorFlow Serving counts versions; an export has one
ROOM = 1.3  # memory that a loaded model takes, as a share of its file of weights


@dataclasses.dataclass(frozen=True)
class Signature:
    """One signature: {name: ("string" or a NumPy dtype, shape)} of what it takes and of what it gives."""

    function: object
    inputs: dict
    outputs: dict

    def __call__(self, arrays):
        """{name: array [B, ...]} -> the same of its outputs; runs in the calling thread."""
        import tensorflow as tf

        kinds = {name: tf.string if kind == "string" else kind for name, (kind, _) in self.inputs.items()}
        given = {name: tf.constant(array.tolist(), kinds[name], array.shape) for name, array in arrays.items()}
        return {name: tensor.numpy() for name, tensor in self.function(**given).items()}

    def only_own(self, outputs):
        """The answers without what only the padding of other requests in the batch made of their widths."""
        return {name: _unpadded(array, self.outputs[name][1]) for name, array in outputs.items()}


def _unpadded(array, shape):
    """Cuts off the last columns of dimensions of free size if they are empty in every row: "", 0 or False."""
    for axis in range(1, array.ndim):
        if (shape is None or shape[axis] is None) and array.size:
            others = tuple(i for i in range(array.ndim) if i != axis)
            filled = np.flatnonzero((array.astype(bool)).any(others))
            array = np.take(array, range(filled[-1] + 1 if len(filled) else 0), axis)
    return array


class Served:
    """A loaded export. `kind` says what a page can do with it."""

    def __init__(self, name, path):
        """Loads it; UserError where it is no export, or more than the memory that is free."""
        self.name, self.folder = name, exported.find(path)
        _expect_room(self.folder)
        self.signatures = {
            key: Signature(
                function, _specs(function.structured_input_signature[1]), _specs(function.structured_outputs)
            )
            for key, function in exported.signatures(self.folder).items()
        }
        if "serving_default" not in self.signatures:
            raise UserError(f"The export {self.folder} has no signature serving_default: export it again.")
        about = exported.about(self.folder)
        self.labels, self.task = list(about.get("labels") or ()), str(about.get("task") or "")

    @property
    def kind(self):
        """What it does: fill_mask, classify, compare, choose, question, entities, vectors, number, or other."""
        default = self.signatures["serving_default"]
        takes, gives = set(default.inputs), set(default.outputs)
        for kind, needs_in, needs_out in KINDS:
            if takes == needs_in and needs_out <= gives:
                return kind
        return "other"

    def metadata(self):
        """What TensorFlow Serving tells of a model."""
        signatures = {name: _described(name, signature) for name, signature in self.signatures.items()}
        return {
            "model_spec": {"name": self.name, "signature_name": "", "version": VERSION},
            "metadata": {"signature_def": {"signature_def": signatures}},
        }


KINDS = (
    ("fill_mask", {"text"}, {"pieces", "scores"}),
    ("entities", {"text"}, {"texts", "labels", "starts", "ends"}),
    ("vectors", {"text"}, {"vectors"}),
    ("question", {"question", "context"}, {"answer", "start", "end"}),
    ("compare", {"text_a", "text_b"}, {"label"}),
    ("compare", {"text_a", "text_b"}, {"values"}),
    ("choose", {"text_a", "choices"}, {"label"}),
    ("classify", {"text_a"}, {"label"}),
    ("number", {"text_a"}, {"values"}),
)


def _specs(structure):
    return {
        name: ("string" if spec.dtype.name == "string" else spec.dtype.as_numpy_dtype, _shape(spec))
        for name, spec in structure.items()
    }


def _shape(spec):
    """With None for what is free; None for a tensor of which not even the rank is known."""
    return None if spec.shape.rank is None else tuple(spec.shape.as_list())


def _described(name, signature):
    def told(prefix, specs):
        return {
            key: {
                "dtype": f"DT_{'STRING' if kind == 'string' else _type_name(kind)}",
                "tensor_shape": {
                    "dim": [{"size": str(-1 if size is None else size), "name": ""} for size in shape or ()],
                    "unknown_rank": shape is None,
                },
                "name": f"{prefix}_{key}:0",
            }
            for key, (kind, shape) in specs.items()
        }

    inputs, outputs = told(name, signature.inputs), told("StatefulPartitionedCall", signature.outputs)
    return {"inputs": inputs, "outputs": outputs, "method_name": "tensorflow/serving/predict"}


def _type_name(kind):
    return {"float32": "FLOAT", "float64": "DOUBLE", "bool": "BOOL"}.get(
        np.dtype(kind).name, np.dtype(kind).name.upper()
    )


def _expect_room(folder):
    """Raises UserError if the weights are more than the memory that is free."""
    import psutil

    weights = os.path.join(folder, "variables")
    needed = ROOM * sum(entry.stat().st_size for entry in os.scandir(weights)) if os.path.isdir(weights) else 0
    free = psutil.virtual_memory().available
    if needed > free:
        raise UserError(
            f"{folder} needs about {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free: "
            "serve it on a machine with more, or serve fewer at once."
        )

"""An export that is served: its signatures, what they take, and answers to batches.

B instances of a batch.
"""

import collections
import contextlib
import dataclasses
import os

import numpy as np

from bert_tf.errors import UserError
from bert_tf.export import loaded_model
from bert_tf.runtime import memory_estimate

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

    @property
    def has_tables(self):
        """Whether an output has so many dimensions that the answer to one instance is large."""
        return any(shape is not None and len(shape) > 3 for _, shape in self.outputs.values())

    @property
    def has_rows(self):
        """Whether every output has a row for each instance, as far as is known before one has seen it."""
        return all(shape is None or shape[:1] == (None,) for _, shape in self.outputs.values())

    def only_own(self, outputs, given):
        """The answers to one request of a batch, without the columns that are there for longer ones alone.

        given: what was asked; what is as wide as that has no filler. Else strings tell how wide a row is: behind the
        last that is not empty all outputs are cut off that were as wide, if their numbers are 0 or -1 there. What is
        not known to be filler stays.
        """
        own = dict(outputs)
        asked = {size for array in given.values() for size in array.shape[1:]}
        for size, axes in self._free(outputs).items():
            texts = [(outputs[name], axis) for name, axis in axes if outputs[name].dtype == object]
            width = max((_told(*each) for each in texts), default=size)
            behind = [_columns(outputs[name], axis, slice(width, None)) for name, axis in axes]
            is_filler = all(array.dtype == object or ((array == 0) | (array == -1)).all() for array in behind)
            for name, axis in axes if is_filler and size not in asked else ():
                own[name] = _columns(own[name], axis, slice(width))
        return own

    def _free(self, outputs):
        """{size: [(name, axis)]} of the dimensions of free size, but for that of the rows."""
        found = collections.defaultdict(list)
        for name, array in outputs.items():
            shape = self.outputs[name][1]
            for axis in range(1, array.ndim):
                if shape is None or shape[axis] is None:
                    found[array.shape[axis]].append((name, axis))
        return found


def _columns(array, axis, columns):
    return array[(slice(None),) * axis + (columns,)]


def _told(texts, axis):
    """How many columns there are up to the last with a string that is not empty."""
    filled = np.flatnonzero((texts != b"").any(tuple(i for i in range(texts.ndim) if i != axis)))
    return int(filled[-1]) + 1 if len(filled) else 0


class Served:
    """A loaded export. `kind` says what a page can do with it."""

    def __init__(self, name, path):
        """Loads it; UserError where it is no export, or more than the memory that is free."""
        self.name, self.folder = name, loaded_model.find(path)
        _expect_room(self.folder)
        self.signatures = {
            key: Signature(
                function, _specs(function.structured_input_signature[1]), _specs(function.structured_outputs)
            )
            for key, function in loaded_model.signatures(self.folder).items()
        }
        if "serving_default" not in self.signatures:
            raise UserError(f"The export {self.folder} has no signature serving_default: export it again.")
        self._warm_up()
        about = loaded_model.about(self.folder)
        self._described = _described(self.folder)
        self.labels, self.task = list(about.get("labels") or ()), str(about.get("task") or "")

    def _warm_up(self):
        """Answers something, so that the first client does not wait for what TensorFlow does once."""
        default = self.signatures["serving_default"]
        shapes = {name: [size or 1 for size in shape] for name, (_, shape) in default.inputs.items() if shape}
        with contextlib.suppress(Exception):  # what it cannot answer it need not
            default({name: np.full(shape, b"a", object) for name, shape in shapes.items()})

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
        """What TensorFlow Serving tells of a model: a GetModelMetadataResponse."""
        return {
            "model_spec": {"name": self.name, "signature_name": "", "version": VERSION},
            "metadata": {"signature_def": {"signature_def": self._described}},
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


def _described(folder):
    """The SignatureDefs of an export as JSON has them, every field of them."""
    from google.protobuf import json_format
    from tensorflow.core.protobuf import saved_model_pb2

    with open(os.path.join(folder, loaded_model.SAVED_MODEL), "rb") as file:
        (graph,) = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs
    options = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    return {name: json_format.MessageToDict(each, **options) for name, each in sorted(graph.signature_def.items())}


def _expect_room(folder):
    """Raises UserError if the weights are more than the memory that is free."""
    weights = os.path.join(folder, "variables")
    needed = ROOM * sum(entry.stat().st_size for entry in os.scandir(weights)) if os.path.isdir(weights) else 0
    _, free = memory_estimate.machine_memory()
    if needed > free:
        raise UserError(
            f"{folder} needs about {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free: "
            "serve it on a machine with more, or serve fewer at once."
        )

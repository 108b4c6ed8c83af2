"""A served export: its signatures, with their inputs and outputs, called on batches.

B instances per batch.
"""

import collections
import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
from google.protobuf import json_format
from starlette.requests import Request
from starlette.responses import Response

from bert_tf.errors import UserError
from bert_tf.export import host_settings, loaded_model, opening, text_function, trained_model, whole_texts
from bert_tf.export.opening import TENSORFLOW
from bert_tf.export.predictor import Predictor
from bert_tf.export.tensorflow_network import TensorFlowNetwork
from bert_tf.export.text_function import DEFAULT
from bert_tf.heads.base.answering import answer_of
from bert_tf.runtime import files, machine
from bert_tf.runtime.lazy import module, tf
from bert_tf.runtime.progress import progress
from bert_tf.serving import run_results
from bert_tf.serving.versions import VERSION

meta_graph_pb2 = module("tensorflow.core.protobuf.meta_graph_pb2")
saved_model_pb2 = module("tensorflow.core.protobuf.saved_model_pb2")
PREDICT_METHOD = "tensorflow/serving/predict"  # its name in SavedModels
MEMORY_FACTOR = 1.3  # memory of a loaded model relative to its weights

Arrays = dict[str, np.ndarray]
Spec = tuple[Any, tuple[int | None, ...] | None]  # ("string" or a NumPy dtype, shape; None if the rank is unknown)


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature of a SavedModel, with the specs of its inputs and outputs."""

    function: Callable[..., Mapping[str, Any]]
    inputs: Mapping[str, Spec]
    outputs: Mapping[str, Spec]

    @classmethod
    def of(cls, function: Any, declared: Sequence[str]) -> Self:
        """Wraps one of `loaded_model.signatures`; inputs and outputs are in the same order in every process.

        declared: inputs in the order recorded in an export; a SavedModel itself has no order.
        """
        inputs, outputs = _specs(_inputs_of(function)), _specs(function.structured_outputs)
        order, _ = text_function.inputs_in_order({name: shape or () for name, (_, shape) in inputs.items()}, declared)
        return cls(function, {name: inputs[name] for name in order}, dict(sorted(outputs.items())))

    def __call__(self, arrays: Arrays) -> Arrays:
        """Computes the outputs {name: array [B, ...]} of the inputs; runs in the calling thread."""
        kinds = {name: tf.string if kind == "string" else kind for name, (kind, _) in self.inputs.items()}
        tensors = {name: tf.constant(array.tolist(), kinds[name], array.shape) for name, array in arrays.items()}
        return {name: tensor.numpy() for name, tensor in self.function(**tensors).items()}

    @property
    def has_large_outputs(self) -> bool:
        """Returns whether the response to one instance is large, judging by output dimensions, or slow."""
        return "attributions" in self.outputs or any(
            shape is not None and len(shape) > 3 for _, shape in self.outputs.values()
        )

    @property
    def has_rows(self) -> bool:
        """Returns whether every output has one row per instance according to its spec."""
        return all(shape is None or shape[:1] == (None,) for _, shape in self.outputs.values())

    def trim_padding(self, outputs: Arrays, inputs: Arrays) -> Arrays:
        """The outputs for one request of a batch, without columns that only pad to the longest request.

        Dimensions as long as one of the request's inputs are not padded. Otherwise strings determine the length:
        columns after the last non-empty string are dropped from all outputs of that length if all numbers there are 0
        or -1.
        """
        trimmed = dict(outputs)
        input_sizes = {size for array in inputs.values() for size in array.shape[1:]}
        for size, axes in self._free_axes(outputs).items():
            texts = [(outputs[name], axis) for name, axis in axes if outputs[name].dtype == object]
            width = max((_text_width(*each) for each in texts), default=size)
            rest = [_columns(outputs[name], axis, slice(width, None)) for name, axis in axes]
            is_padding = all(array.dtype == object or ((array == 0) | (array == -1)).all() for array in rest)
            for name, axis in axes if is_padding and size not in input_sizes else ():
                trimmed[name] = _columns(trimmed[name], axis, slice(width))
        return trimmed

    def _free_axes(self, outputs: Arrays) -> dict[int, list[tuple[str, int]]]:
        """{size: [(name, axis)]} for the dimensions of unknown size, except the first."""
        axes = collections.defaultdict(list)
        for name, array in outputs.items():
            shape = self.outputs[name][1]
            for axis in range(1, array.ndim):
                if shape is None or shape[axis] is None:
                    axes[array.shape[axis]].append((name, axis))
        return axes


def _columns(array: np.ndarray, axis: int, columns: slice) -> np.ndarray:
    return array[(slice(None),) * axis + (columns,)]


def _text_width(texts: np.ndarray, axis: int) -> int:
    """The number of columns up to the last one with a non-empty string."""
    filled = np.flatnonzero((texts != b"").any(tuple(i for i in range(texts.ndim) if i != axis)))
    return int(filled[-1]) + 1 if len(filled) else 0


class HostSignature(Signature):
    """A signature computed on the host."""

    def __call__(self, arrays: Arrays) -> Arrays:
        """See Signature."""
        return dict(self.function(**arrays))


class PredictorSignature(Signature):
    """The default signature, computed by a Predictor."""

    def __call__(self, arrays: Arrays) -> Arrays:
        """See Signature; texts are bytes."""
        outputs = self.function(**{name: array.tolist() for name, array in arrays.items()})
        return {name: _as_bytes(x) if x.dtype == object else x for name, x in outputs.items()}


class Served:
    """A loaded export: the `kind` of its head, its `form` on the web page, and the `results` of its run."""

    def __init__(
        self,
        name: str,
        path: str,
        *,
        version: str = VERSION,
        jit_compile: str = "auto",
        texts: int | None = None,
        predictor: Predictor | None = None,
    ) -> None:
        """Loads it; raises UserError if it is neither an export nor a checkpoint, or does not fit into free memory.

        version: its number as shown to clients.
        jit_compile, texts: see `opening.open_model`; static shapes are compiled here.
        predictor: the export on an engine, which has only the default signature; None for TensorFlow.
        """
        self.name, self.version, self.folder = name, version, loaded_model.find(path)
        is_export = loaded_model.is_export(self.folder)
        self.signatures: dict[str, Signature]
        if predictor:
            stored = predictor.signature_def or {}
            inputs_and_outputs = (_specs_of_def(stored[side]) for side in ("inputs", "outputs"))
            self.signatures = {DEFAULT: PredictorSignature(predictor.compute, *inputs_and_outputs)}
            self._signature_defs: Mapping[str, Any] = {DEFAULT: stored}
        else:
            if is_export:
                _check_memory(self.folder)
            has_rows = not is_export or host_settings.of_own_head(self.folder) is not None
            options: dict[str, Any] = {"jit_compile": jit_compile, "texts": texts}
            model: Any = opening.open_model(self.folder, TENSORFLOW, **options) if has_rows else None
            self._read_signatures(model, is_export=is_export, texts=texts)
            if isinstance(model, Predictor):
                predictor, own = model, self._default
                self.signatures[DEFAULT] = PredictorSignature(model.compute, own.inputs, own.outputs)
        self._warm_up(predictor)
        about = loaded_model.about(self.folder)
        self._head = head = loaded_model.head_of(self.folder, self._default.outputs, self._default.inputs)
        self.kind, self.form = (head.kind, head.wording().form) if head else ("other", "")
        self.labels, self.task = list(about.get("labels") or ()), str(about.get("task") or "")
        inputs = {
            name: shape[1] if shape and len(shape) > 1 else None for name, (_, shape) in self._default.inputs.items()
        }
        self.results = run_results.read(self.folder, inputs)
        self._cuts: dict[str | None, whole_texts.Cuts | None] = {}

    def _read_signatures(self, model: Any, *, is_export: bool, texts: int | None) -> None:
        """Reads the signatures of the folder, and their SignatureDefs. model: the loaded model, if any."""
        if not is_export:
            functions = trained_model.signatures(self.folder, texts)
        else:
            functions = model.network.signatures if model else loaded_model.signatures(self.folder)
        declared = list(loaded_model.about(self.folder).get("inputs") or ())
        self.signatures = {key: Signature.of(function, declared) for key, function in functions.items()}
        if DEFAULT not in self.signatures:
            raise UserError(f"The export {self.folder} has no signature {DEFAULT}: export it again.")
        self._signature_defs = _signature_defs(_stored_defs(self.folder) if is_export else self._live_defs())

    def _warm_up(self, predictor: Predictor | None) -> None:
        """Compiles all static shapes and runs once, so that no client waits for one-time work."""
        network = predictor.network if predictor else None
        if predictor and isinstance(network, TensorFlowNetwork) and network.is_static:
            (row, *_), _ = predictor.stages.read([["a"] * sum(count or 1 for count in predictor.inputs.values())])
            with progress(f"compiling {self.name}, shapes", len(network.planner.shapes())) as report:
                for number, _ in enumerate(network.compile_all(row), 1):
                    report(number)
        shapes = {name: [size or 1 for size in shape] for name, (_, shape) in self._default.inputs.items() if shape}
        with contextlib.suppress(Exception):  # this is only a warm-up
            self._default({name: np.full(shape, b"a", object) for name, shape in shapes.items()})

    @property
    def _default(self) -> Signature:
        return self.signatures[DEFAULT]

    def _live_defs(self) -> dict[str, Any]:
        """The SignatureDefs that the signatures of a checkpoint would have in an export."""

        def info(specs: Mapping[str, Any]) -> dict[str, Any]:
            return {
                name: meta_graph_pb2.TensorInfo(
                    name=name, dtype=spec.dtype.as_datatype_enum, tensor_shape=spec.shape.as_proto()
                )
                for name, spec in specs.items()
            }

        return {
            key: meta_graph_pb2.SignatureDef(
                inputs=info(_inputs_of(each.function)),
                outputs=info(each.function.structured_outputs),  # type: ignore[attr-defined]
                method_name=PREDICT_METHOD,
            )
            for key, each in self.signatures.items()
        }

    @property
    def input_names(self) -> list[str]:
        """The inputs of the default signature."""
        return list(self._default.inputs)

    def cuts(self, prompt: str | None = None) -> whole_texts.Cuts | None:
        """A function that returns whether texts are truncated; see `whole_texts.of`."""
        if prompt not in self._cuts:
            self._cuts[prompt] = None
            with contextlib.suppress(UserError):  # a damaged file
                self._cuts[prompt] = whole_texts.of(self.folder, prompt)
        return self._cuts[prompt]

    def answers(self, outputs: Arrays) -> list[dict[str, Any]]:
        """The outputs of the default signature, {name: array [B, ...]}, formatted as by `bert-tf predict`."""
        rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
        return [answer_of(row, self._head, self.labels).fields() for row in rows]

    def metadata(self) -> dict[str, Any]:
        """TensorFlow Serving's GetModelMetadataResponse."""
        return {
            "model_spec": {"name": self.name, "signature_name": "", "version": self.version},
            "metadata": {"signature_def": {"signature_def": self._signature_defs}},
        }


class Searchable(Protocol):
    """The interface of a served index, in place of a `Served`; implemented in `bert_tf.extras`."""

    name: str
    version: str
    kind: str
    form: str
    input_names: Sequence[str]
    labels: Sequence[str]
    task: str
    signatures: dict[str, Signature]
    results: dict[str, Any]

    async def answer(self, server: Any, request: Request, body: Any) -> Response:
        """The texts nearest to the queries in `body`, the content of the request."""

    def describe(self, post: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        """The route of `answer` in the server's description; post: see `openapi`."""

    def metadata(self) -> dict[str, Any]:
        """The content of a metadata response."""


def _specs(structure: Mapping[str, Any]) -> dict[str, Spec]:
    return {
        name: ("string" if spec.dtype.name == "string" else spec.dtype.as_numpy_dtype, _shape(spec))
        for name, spec in structure.items()
    }


def _as_bytes(texts: np.ndarray) -> np.ndarray:
    return np.array([text.encode() for text in texts.reshape(-1)], object).reshape(texts.shape)


def _specs_of_def(infos: Mapping[str, Any]) -> dict[str, Spec]:
    """The specs of the inputs or outputs of a SignatureDef as JSON."""
    specs: dict[str, Spec] = {}
    for name, info in infos.items():
        kind = info["dtype"].removeprefix("DT_").lower()
        sizes = [int(dim["size"]) for dim in info["tensor_shape"]["dim"]]
        shape = None if info["tensor_shape"]["unknown_rank"] else tuple(None if size < 0 else size for size in sizes)
        specs[name] = "string" if kind == "string" else np.dtype({"float": "float32"}.get(kind, kind)).type, shape
    return specs


def _shape(spec: Any) -> tuple[int | None, ...] | None:
    """The shape with None for unknown sizes; None if the rank is unknown."""
    return None if spec.shape.rank is None else tuple(spec.shape.as_list())


def _inputs_of(function: Any) -> dict[str, Any]:
    """{name: spec} for the inputs of a signature; live functions have positional inputs."""
    positional, named = function.structured_input_signature
    return {**{spec.name: spec for spec in positional}, **named}


def _stored_defs(folder: str) -> Mapping[str, Any]:
    """The SignatureDefs in an export."""
    with files.open_binary(os.path.join(folder, loaded_model.SAVED_MODEL)) as file:
        (graph,) = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs
    return graph.signature_def


def _signature_defs(defs: Mapping[str, Any]) -> dict[str, Any]:
    """SignatureDefs as JSON, with all fields."""
    options = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    return {name: json_format.MessageToDict(each, **options) for name, each in sorted(defs.items())}


def _check_memory(folder: str) -> None:
    """Raises UserError if the weights need more than the free memory."""
    weights = os.path.join(folder, "variables")
    needed = MEMORY_FACTOR * sum(map(files.size, files.walk(weights) if files.is_folder(weights) else ()))
    _, free = machine.memory()
    if needed > free:
        raise UserError(
            f"{folder} needs about {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free: "
            "use a machine with more memory, or serve fewer models."
        )

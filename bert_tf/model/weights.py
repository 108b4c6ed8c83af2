"""Canonical weight names, their translation from and to other formats, and assignment of arrays to a model.

A canonical name is the attribute path to a variable: "encoder/layers/0/attention/query_key_value/kernel".
Kernels are [in, out]; `query_key_value` contains the columns of query, then key, then value.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from bert_tf.errors import UserError
from bert_tf.runtime.lazy import keras, tf

# A mismatched shape here means a different model, not a different task.
PRE_TRAINED = ("encoder/", "masked_lm/", "next_sentence/", "replaced_token/", "generator/")
BETWEEN = ("lstm/", "mix/")  # prefixes of weights between encoder and head, see extras.paper.bilstm_tagger
HEADS = ("classifier/", "span/", *BETWEEN)  # prefixes of task heads
TEACHER_PROJECTION = "teacher_projection/"  # prefix of weights that distillation trains in addition to the model
Weights = dict[str, np.ndarray]  # {canonical name: array}
LAYER_NAME = re.compile(r"(.*\blayers/)(\d+)(/.*)")


def variables_by_name(model: keras.layers.Layer) -> dict[str, keras.Variable]:
    """Returns {canonical name: variable} of a layer or model, in creation order of the attributes."""
    variables: dict[str, keras.Variable] = {}
    for path, part in _walk(model):
        if isinstance(part, keras.Variable):
            variables.setdefault(path, part)
    return variables


def variables(model: keras.layers.Layer) -> dict[str, tf.Variable]:
    """Returns {canonical name: tf.Variable} of the trainable variables."""
    return {name: variable.value for name, variable in variables_by_name(model).items() if variable.trainable}


def layers_by_name(model: keras.layers.Layer) -> dict[str, keras.layers.Layer]:
    """Returns {path of attributes: layer} of a model, "" for the model itself."""
    return {path: part for path, part in _walk(model) if isinstance(part, keras.layers.Layer)}


def _walk(attribute: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yields a layer's variables and layers with their paths."""
    if isinstance(attribute, keras.Variable | keras.layers.Layer):
        yield path, attribute
    if isinstance(attribute, list):
        for index, child in enumerate(attribute):
            yield from _walk(child, f"{path}/{index}")
    elif isinstance(attribute, keras.layers.Layer):
        for name, child in vars(attribute).items():
            if not name.startswith("_"):
                yield from _walk(child, f"{path}/{name}" if path else name)


def holds_floats(array: np.ndarray) -> bool:
    """Returns whether an array contains floating-point numbers."""
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"  # from ml_dtypes, with the kind of bytes


def to_canonical_names(
    table: Mapping[str, tuple[str, ...]], arrays: Mapping[str, np.ndarray], is_transposed: Callable[[str], bool]
) -> tuple[Weights, set[str]]:
    """Translates {their name: array} to {canonical name: array}, with a table made by `expand`.

    If one of our names has several of theirs, their arrays are concatenated along the last axis.
    `is_transposed(their name)`: whether a matrix is stored [out, in]. Returns the weights and their names used.
    Raises UserError for arrays that cannot be concatenated, and for values that are not floating-point numbers, such as
    quantized weights.
    """
    weights: Weights = {}
    used: set[str] = set()
    for ours, theirs in table.items():
        if not all(name in arrays for name in theirs):
            continue
        parts = [np.asarray(arrays[name]) for name in theirs]
        parts = [part.T if is_transposed(name) else part for name, part in zip(theirs, parts, strict=True)]
        joined = None
        with contextlib.suppress(TypeError, ValueError):  # scalars, and incompatible shapes
            joined = np.concatenate(parts, -1)
        if joined is None or not all(map(holds_floats, parts)):
            kinds = ", ".join(f"{part.dtype}{list(part.shape)}" for part in parts)
            raise UserError(
                f"{', '.join(theirs)} of the checkpoint cannot be {ours} ({kinds}); expected floating-point numbers "
                "of equal shapes: fetch the checkpoint again, or one without quantization."
            )
        weights[ours] = np.ascontiguousarray(joined, np.float32)
        used.update(theirs)
    return weights, used


def from_canonical_names(
    table: Mapping[str, tuple[str, ...]], weights: Mapping[str, np.ndarray], is_transposed: Callable[[str], bool]
) -> tuple[dict[str, np.ndarray], set[str]]:
    """The inverse of `to_canonical_names`: {canonical name: array} to {their name: float32 array}.

    Returns the arrays and the canonical names found in the table.
    """
    arrays: dict[str, np.ndarray] = {}
    used: set[str] = set()
    for ours, theirs in table.items():
        if ours not in weights:
            continue
        parts = np.split(np.asarray(weights[ours], np.float32), len(theirs), -1)
        for name, part in zip(theirs, parts, strict=True):
            arrays[name] = np.ascontiguousarray(part.T if is_transposed(name) else part)
        used.add(ours)
    return arrays, used


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """The weights a model takes from a checkpoint.

    Names in both (loaded), only in the model (newly_initialized) or only in the checkpoint (unused), and (name, shape
    in the checkpoint, shape in the model) for differing shapes (shape_mismatch).
    """

    loaded: list[str]
    newly_initialized: list[str]
    unused: list[str]
    shape_mismatch: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{len(self.loaded)} weights loaded, {len(self.newly_initialized)} newly initialized, "
            f"{len(self.unused)} unused, {len(self.shape_mismatch)} mismatched"
        ]
        lines += [f"  newly initialized  {name}" for name in self.newly_initialized]
        lines += [f"  unused             {name}" for name in self.unused]
        lines += [
            f"  mismatched         {name}: {actual} in the checkpoint, {expected} in the model"
            for name, actual, expected in self.shape_mismatch
        ]
        return "\n".join(lines)


def compared(model: keras.layers.Layer, arrays: Mapping[str, np.ndarray]) -> LoadReport:
    """Returns the LoadReport of {canonical name: array} and a model, without assigning anything.

    A task head is loaded completely or not at all.
    """
    variables = variables_by_name(model)
    shapes = {
        name: (tuple(array.shape), tuple(variables[name].shape)) for name, array in arrays.items() if name in variables
    }
    fitting = [name for name in variables if name in shapes and shapes[name][0] == shapes[name][1]]
    ours, fit = ({name for name in names if name.startswith(HEADS)} for names in (variables, fitting))
    is_on_other_layers = any(name.startswith(BETWEEN) for name in arrays.keys() - variables.keys())
    left_out = set() if ours == fit and not is_on_other_layers else fit
    return LoadReport(
        loaded=[name for name in fitting if name not in left_out],
        newly_initialized=[name for name in variables if name not in arrays or name in left_out],
        unused=[name for name in arrays if name not in variables],
        shape_mismatch=[(name, actual, expected) for name, (actual, expected) in shapes.items() if actual != expected],
    )


def assign(model: keras.layers.Layer, arrays: Mapping[str, np.ndarray]) -> LoadReport:
    """Assigns {canonical name: array} to the model and returns a LoadReport.

    Raises UserError, before anything is assigned, if a shape of the encoder or of a pre-training head differs. A task
    head that does not fit (a different number of labels, other layers) stays newly initialized as a whole, with its
    shapes in the report.
    """
    report = compared(model, arrays)
    check_same_shapes(report)
    if not report.loaded:
        raise UserError(f"None of the {len(arrays)} weights in the checkpoint belongs to this model.")
    variables = variables_by_name(model)
    for name in report.loaded:
        variables[name].assign(arrays[name])
    return report


def check_same_shapes(report: LoadReport) -> None:
    """Raises UserError, with both shapes, for a mismatched weight of the encoder or of a pre-training head."""
    for name, actual, expected in report.shape_mismatch:
        if not name.startswith(PRE_TRAINED):
            continue
        if name.endswith(("token_table", "output_bias")) and actual[0] != expected[0]:
            raise UserError(
                f"The checkpoint has a vocabulary of {actual[0]} tokens and the model one of {expected[0]} ({name}): "
                "use the vocab.txt and the configuration that belong to the checkpoint."
            )
        raise UserError(
            f"{name} has the shape {actual} in the checkpoint and {expected} in the model: "
            "use the configuration that belongs to the checkpoint."
        )


def layer_map(text: str, student: int, teacher: int) -> list[int]:
    """Maps each of `student` layers to a layer of a model with `teacher` layers.

    text: such as "2,4,6"; "" for every n-th, including the last. Raises UserError for invalid numbers.
    """
    if not text:
        return [round(number * teacher / student) for number in range(1, student + 1)]
    try:
        layers = [int(part) for part in text.split(",")]
    except ValueError:
        layers = []
    if len(layers) != student or not all(1 <= number <= teacher for number in layers):
        raise UserError(
            f"layer_map is {text!r}; expected {student} numbers from 1 to {teacher}, one for each layer, such as "
            f"{','.join(map(str, layer_map('', student, teacher)))}."
        )
    return layers


def select_layers(weights: Mapping[str, np.ndarray], layers: Sequence[int]) -> dict[str, np.ndarray]:
    """The weights of a model with these layers, and all weights outside of layers."""
    places: dict[int, list[int]] = {}
    for new, old in enumerate(layers):
        places.setdefault(old - 1, []).append(new)
    selected: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        match = LAYER_NAME.fullmatch(name)
        if not match:
            selected[name] = array
            continue
        for new in places.get(int(match[2]), []):
            selected[f"{match[1]}{new}{match[3]}"] = array
    return selected

"""Canonical weight names; from the names of another format to them; arrays into a model, and what did not fit.

A canonical name is the path of attributes to a variable: "encoder/layers/0/attention/query_key_value/kernel".
Kernels are [in, out]; `query_key_value` holds the columns of query, then key, then value.
"""

import dataclasses

import keras
import numpy as np

from bert_tf.config.bert_config import BETWEEN
from bert_tf.errors import UserError

PRE_TRAINED = ("encoder/", "masked_lm/", "next_sentence/")  # where another shape means another model, not another task
HEADS = ("classifier/", "span/", *BETWEEN)  # of tasks


def named(model):
    """{canonical name: keras.Variable} of a layer or model, in the order in which attributes were made."""
    found = {}
    _walk(model, "", found)
    return found


def variables(model):
    """{canonical name: tf.Variable} of what training changes."""
    return {name: variable.value for name, variable in named(model).items() if variable.trainable}


def _walk(thing, path, found):
    if isinstance(thing, keras.Variable):
        found.setdefault(path, thing)
    elif isinstance(thing, list):
        for number, child in enumerate(thing):
            _walk(child, f"{path}/{number}", found)
    elif isinstance(thing, keras.layers.Layer):
        for name, child in vars(thing).items():
            if not name.startswith("_"):
                _walk(child, f"{path}/{name}" if path else name, found)


def expand(names, num_hidden_layers):
    """Writes a name table out: {ours: theirs} with "{i}" for a layer becomes {ours: (theirs, ...)} for every layer."""
    table = {}
    for ours, theirs in names.items():
        theirs = (theirs,) if isinstance(theirs, str) else theirs
        for i in range(num_hidden_layers) if "{i}" in ours else [None]:
            table[ours.format(i=i)] = tuple(name.format(i=i) for name in theirs)
    return table


def translated(table, arrays, is_transposed):
    """Reads {their name: array} as {canonical name: array}; `table` as `expand` makes it.

    Several of their names for one of ours are laid side by side, in the last dimension. `is_transposed(their name)`
    says that a matrix is stored [out, in]. Returns the weights and the set of their names that were used.
    """
    weights, used = {}, set()
    for ours, theirs in table.items():
        if not all(name in arrays for name in theirs):
            continue
        parts = [np.asarray(arrays[name]) for name in theirs]
        parts = [part.T if is_transposed(name) else part for name, part in zip(theirs, parts, strict=True)]
        weights[ours] = np.ascontiguousarray(np.concatenate(parts, -1), np.float32)
        used.update(theirs)
    return weights, used


def translated_back(table, weights, is_transposed):
    """The reverse of `translated`: {canonical name: array} as {their name: float32 array}.

    Returns the arrays and the set of our names that have a place in the table.
    """
    arrays, used = {}, set()
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
    """Which weights of a checkpoint a model takes.

    Names that are loaded, that only the model has (newly_initialized), that only the checkpoint has (unused), and
    (name, shape in the checkpoint, shape in the model) where the shapes differ (shape_mismatch).
    """

    loaded: list
    newly_initialized: list
    unused: list
    shape_mismatch: list = dataclasses.field(default_factory=list)

    def __str__(self):
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


def compared(model, arrays):
    """The LoadReport of {canonical name: array} and a model, without assigning anything."""
    variables = named(model)
    shapes = {
        name: (tuple(array.shape), tuple(variables[name].shape)) for name, array in arrays.items() if name in variables
    }
    fitting = [name for name in variables if name in shapes and shapes[name][0] == shapes[name][1]]
    ours, fit = ({name for name in names if name.startswith(HEADS)} for names in (variables, fitting))
    is_on_other_layers = any(name.startswith(BETWEEN) for name in arrays.keys() - variables.keys())
    left = set() if ours == fit and not is_on_other_layers else fit  # else it would begin with what it knew of others
    return LoadReport(
        loaded=[name for name in fitting if name not in left],
        newly_initialized=[name for name in variables if name not in arrays or name in left],
        unused=[name for name in arrays if name not in variables],
        shape_mismatch=[(name, actual, expected) for name, (actual, expected) in shapes.items() if actual != expected],
    )


def assign(model, arrays):
    """Puts {canonical name: array} into the model and returns a LoadReport.

    Raises UserError, before anything is assigned, where a shape of the encoder or of a pre-training head does not fit.
    A head of a task that does not fit (another number of labels, other layers) stays newly initialized as a whole,
    with its shapes in the report.
    """
    report = compared(model, arrays)
    expect_same_shapes(report)
    if not report.loaded:
        raise UserError(f"None of the {len(arrays)} weights of the checkpoint belongs to this model.")
    variables = named(model)
    for name in report.loaded:
        variables[name].assign(arrays[name])
    return report


def expect_same_shapes(report):
    """Raises UserError, with both shapes, for a mismatched weight of the encoder or of a pre-training head."""
    for name, actual, expected in report.shape_mismatch:
        if name.startswith(PRE_TRAINED):
            _raise_shape_mismatch(name, expected, actual)


def _raise_shape_mismatch(name, expected, given):
    if name.endswith(("token_table", "output_bias")):
        raise UserError(
            f"The checkpoint has a vocabulary of {given[0]} pieces and the model one of {expected[0]} ({name}): "
            "use the vocab.txt and the configuration that belong to the checkpoint."
        )
    raise UserError(
        f"{name} has the shape {given} in the checkpoint and {expected} in the model: "
        "use the configuration that belongs to the checkpoint."
    )

"""Canonical weight names; from the names of another format to them; arrays into a model, and what did not fit.

A canonical name is the path of attributes to a variable: "encoder/layers/0/attention/query_key_value/kernel".
Kernels are [in, out]; `query_key_value` holds the columns of query, then key, then value.
"""

import dataclasses

import keras
import numpy as np

from bert_tf.errors import UserError


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


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What became of every weight: names that were loaded, that the model has and the file has not, and the reverse."""

    loaded: list
    fresh: list
    unused: list

    def __str__(self):
        lines = [f"{len(self.loaded)} weights loaded, {len(self.fresh)} fresh, {len(self.unused)} unused"]
        lines += [f"  fresh   {name}" for name in self.fresh] + [f"  unused  {name}" for name in self.unused]
        return "\n".join(lines)


def assign(model, arrays):
    """Puts {canonical name: array} into the model and returns a LoadReport.

    Raises UserError, before anything is assigned, where a shape does not fit.
    """
    variables = named(model)
    for name in variables.keys() & arrays.keys():
        _expect_shape(name, tuple(variables[name].shape), tuple(arrays[name].shape))
    for name in variables.keys() & arrays.keys():
        variables[name].assign(arrays[name])
    report = LoadReport(
        loaded=[name for name in variables if name in arrays],
        fresh=[name for name in variables if name not in arrays],
        unused=[name for name in arrays if name not in variables],
    )
    if not report.loaded:
        raise UserError(f"None of the {len(arrays)} weights of the checkpoint belongs to this model.")
    return report


def _expect_shape(name, expected, given):
    if expected == given:
        return
    if name.endswith(("token_table", "output_bias")):
        raise UserError(
            f"The checkpoint has a vocabulary of {given[0]} pieces and the model one of {expected[0]} ({name}): "
            "use the vocab.txt and the configuration that belong to the checkpoint."
        )
    raise UserError(
        f"{name} has the shape {given} in the checkpoint and {expected} in the model: "
        "use the configuration that belongs to the checkpoint."
    )

"""Name tables of formats: {canonical name: their name, or the names whose arrays are concatenated to ours}."""

import itertools
from collections.abc import Container, Mapping, Sequence

Names = dict[str, str | tuple[str, ...]]

# Suffixes of a format for the matrix and bias of a module, or for the scale and shift of a LayerNorm.
TORCH = {"kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias"}
TENSORFLOW = {part: f"/{part}" for part in TORCH}
KERAS_FILE = {"kernel": "/vars/0", "bias": "/vars/1", "gamma": "/vars/0", "beta": "/vars/1"}


def module(ours: str, *theirs: str, endings: Mapping[str, str] = TORCH) -> Names:
    """The names of the weight and bias of a dense layer, or of a LayerNorm if our name ends in "norm".

    theirs: the path of the module; several if their weights are concatenated to ours.
    """
    names: Names = {}
    for part in ("gamma", "beta") if ours.endswith("norm") else ("kernel", "bias"):
        found = tuple(path + endings[part] for path in theirs)
        names[f"{ours}/{part}"] = found if len(found) > 1 else found[0]
    return names


def layers(layer: str, endings: Mapping[str, str] = TORCH, /, **parts: str) -> Names:
    """The names of the weights of a layer that consists of modules with a weight and a bias.

    layer: its path, with "{i}" for its number. parts: the paths in it of query, key, value, project_out,
    attention_norm, expand, contract and feed_forward_norm.
    """
    theirs = {part: f"{layer}{endings['kernel'][0]}{path}" for part, path in parts.items()}
    modules = {
        "attention/query_key_value": ("query", "key", "value"),
        "attention/project_out": ("project_out",),
        "attention_norm": ("attention_norm",),
        "feed_forward/expand": ("expand",),
        "feed_forward/contract": ("contract",),
        "feed_forward_norm": ("feed_forward_norm",),
    }
    names: Names = {}
    for ours, wanted in modules.items():
        names |= module(f"encoder/layers/{{i}}/{ours}", *(theirs[part] for part in wanted), endings=endings)
    return names


def expand(names: Mapping[str, Sequence[str]], num_hidden_layers: int) -> dict[str, tuple[str, ...]]:
    """Expands a name table: {ours: theirs} with "{i}" for the layer becomes {ours: (theirs, ...)} for every layer.

    names: theirs is a name, or several whose arrays are concatenated to ours.
    """
    table = {}
    for ours, theirs in names.items():
        parts = (theirs,) if isinstance(theirs, str) else theirs
        for i in range(num_hidden_layers) if "{i}" in ours else [None]:
            table[ours.format(i=i)] = tuple(name.format(i=i) for name in parts)
    return table


def number_of_layers(name: str, arrays: Container[str]) -> int:
    """The number of layers with an array of that name, with "{i}" for the layer."""
    return next(number for number in itertools.count() if name.format(i=number) not in arrays)

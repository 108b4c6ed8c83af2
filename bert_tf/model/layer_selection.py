"""Students initialized from some layers of a larger model.

Layers are counted from 1.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.errors import UserError

LAYER = re.compile(r"(.*\blayers/)(\d+)(/.*)")


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


def select(weights: Mapping[str, np.ndarray], layers: Sequence[int]) -> dict[str, np.ndarray]:
    """The weights of a model with these layers, and all weights outside of layers."""
    places: dict[int, list[int]] = {}
    for new, old in enumerate(layers):
        places.setdefault(old - 1, []).append(new)
    selected: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        match = LAYER.fullmatch(name)
        if not match:
            selected[name] = array
            continue
        for new in places.get(int(match[2]), []):
            selected[f"{match[1]}{new}{match[3]}"] = array
    return selected

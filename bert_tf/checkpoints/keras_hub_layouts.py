"""The classes of KerasHub for the encoders here, and the paths of their weights."""

import re
from collections.abc import Mapping

import numpy as np

from bert_tf import families
from bert_tf.families.base.keras_hub import TASK, Layout

BACKBONE = "Backbone"
CLASSIFIERS = ("TextClassifier", "Classifier")  # the second is that of older presets
MASKED_LM, EMBEDDER = "MaskedLM", "TextEmbedder"
ROLES = (BACKBONE, *CLASSIFIERS, MASKED_LM, EMBEDDER)
HEAD_EPSILON = 1e-5  # of the LayerNorm in every head for masked LM
FIRST_LAYER = re.compile(r"(layers/\w+_encoder)(?=/)")  # has no number, and the second 1
ATTENTION = re.compile(r".*/self_attention_layer/(\w+)_dense/vars/(\d)")
FROM_TASK = re.compile(r"layers/\w+_backbone/(?=layers/)")  # what a backbone's paths have before them in a `.keras`
LAYOUTS: Mapping[str, Layout] = families.having("KERAS_HUB")
CLASS = re.compile(rf"keras_(?:hub|nlp)>({'|'.join(layout.classes for layout in LAYOUTS.values())})({'|'.join(ROLES)})")


def class_of(name: str) -> tuple[str, str] | None:
    """The encoder and the role, one of ROLES, of a registered class; None for others."""
    found = CLASS.fullmatch(name)
    if found is None:
        return None
    return next(encoder for encoder, layout in LAYOUTS.items() if layout.classes == found[1]), found[2]


def path_here(path: str, *, in_task: bool) -> str:
    """The path of `keras_files` as the tables here have it. in_task: whether it is in the file of a task."""
    inside = FROM_TASK.sub("", path)
    return TASK * (in_task and inside == path) + FIRST_LAYER.sub(r"\1_0", inside)


def flat(name: str, array: np.ndarray) -> np.ndarray:
    """Joins the heads of attention: kernels [D, H, K] and [H, K, D] -> [D, D], biases [H, K] -> [D]."""
    found = ATTENTION.fullmatch(name)
    if found is None:
        return array
    if found[2] == "1":
        return array.reshape(-1)
    return array.reshape(-1, array.shape[-1]) if found[1] == "output" else array.reshape(len(array), -1)

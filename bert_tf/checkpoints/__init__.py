"""Checkpoint formats, one file each: `recognises(path)`, `read(path)`. A new file here is a new format."""

import dataclasses
import importlib
import pkgutil

from bert_tf.config import BertConfig
from bert_tf.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What any format holds, in our terms: `weights` is {canonical name: float32 array}; None where it says nothing."""

    config: BertConfig
    weights: dict
    vocabulary: list | None = None
    lower_case: bool | None = None


def formats():
    """{name: module} of every format in this folder."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


def read(path):
    """Reads a checkpoint in whatever format it is.

    Raises UserError where no format recognises the path or the files in it are damaged.
    """
    known = formats()
    for module in known.values():
        if module.recognises(path):
            return module.read(path)
    raise UserError(f"No checkpoint format recognises {path}. Known: {', '.join(known)}.")

"""Models for other inference engines, plugins: OpenVINO, ONNX Runtime, LiteRT.

A module has PACKAGES, {quantize: the packages that `write` imports}; RUNTIME, the package that `load` imports;
CALIBRATES, whether int8 learns from samples; FILES, the names of the files that it writes; and

  write(saved_model, folder, *, quantize, samples)
      converts the SavedModel of a `functional_bert.FunctionalModel`; samples: inputs for calibration, maybe none
  load(folder, *, exact)
      returns a function {input: int32 array} -> {output: float32 array}; exact: in float32 even if the engine would
      use lower precision
  may_round()
      whether the engine would use lower precision on this machine
"""

import importlib.util
import os
from collections.abc import Callable
from types import ModuleType

import numpy as np

from bert_tf.errors import UserError
from bert_tf.runtime import plugins
from bert_tf.runtime.atomic_files import StrPath
from bert_tf.runtime.settings import read_settings

Function = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]

ABOUT = "about.json"  # of a folder that `engine_folders.write` wrote
QUANTIZED = ("int8",)


def names() -> list[str]:
    """The names of the engines of this package, without importing them."""
    return plugins.names(__name__)


def is_engine(name: str) -> bool:
    """Returns whether a name is an engine rather than a format: one of `names()`, or a module with PACKAGES."""
    if "." not in name:
        return name in names()
    return hasattr(plugins.load(__name__, name, kind="format or engine"), "PACKAGES")


def is_installed(name: str) -> bool:
    """Returns whether this machine can run models for an engine of this package, including "_int8" ones."""
    engine = name.partition("_")[0]
    return engine in names() and importlib.util.find_spec(plugins.load(__name__, engine).RUNTIME) is not None


def engine_of(name: str, quantize: str | None = None, *, runs_only: bool = False) -> ModuleType:
    """Imports an engine: one of `names()`, or a module outside of this package by its dotted name.

    runs_only: whether models are only run, not written.

    Raises:
        UserError: the engine is unknown, cannot quantize, or needs a package that is not installed.
    """
    module = plugins.load(__name__, name, kind="engine")
    if quantize not in module.PACKAGES:
        raise UserError(f"{name} has no quantization {quantize}: remove the flag.")
    for package in (module.RUNTIME,) if runs_only else module.PACKAGES[quantize]:
        if importlib.util.find_spec(package) is None:
            extra = f'"bert-tf[{name}]"' if name in names() else package
            raise UserError(f"{package} is missing: pip install {extra}.")
    return module


def load(folder: StrPath, *, exact: bool = False, engine: str | None = None) -> Function:
    """Loads a folder of `engine_folders.write`.

    Args:
        folder: the folder.
        exact: whether to compute in float32 even if the engine would use lower precision.
        engine: the dotted name of an engine outside of this package; by default the one named in the folder.

    Returns:
        A function {input: int32 array} -> {output: float32 array}.
    """
    name = engine or read_settings(os.path.join(folder, ABOUT)).get("engine")
    if engine is None and name not in names():  # data does not choose code outside of this package
        raise UserError(f"{folder} contains no model for {', '.join(names())}: `bert-tf convert` writes one.")
    function: Function = engine_of(str(name)).load(folder, exact=exact)
    return function

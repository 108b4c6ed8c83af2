"""Packages imported on first use, so that processes that do not need them start fast."""

import importlib
from typing import TYPE_CHECKING, Any

from bert_tf.errors import UserError, missing_package, reason_of

OF_TENSORFLOW = ("tensorflow", "tensorflow_text", "keras")  # packages that load TensorFlow


class _Module:
    """A placeholder for a module until one of its attributes is read; starts TensorFlow for OF_TENSORFLOW."""

    def __init__(self, name: str, missing: str = "") -> None:
        self._name, self._missing = name, missing
        self._needs_tensorflow = name.partition(".")[0] in OF_TENSORFLOW

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "__wrapped__":  # requested from every object by doctest and inspect
            raise AttributeError(attribute)
        if self._needs_tensorflow:
            importlib.import_module("bert_tf.runtime.tensorflow_startup").ensure_started()
            self._needs_tensorflow = False
        try:
            loaded = importlib.import_module(self._name)
        except ImportError as error:
            message = self._missing.format(reason=reason_of(error)) or missing_package(error)
            if message is None:
                raise
            raise UserError(message) from None
        return getattr(loaded, attribute)


def module(name: str, missing: str = "") -> Any:
    """The module of this name, imported when one of its attributes is first read.

    missing: the UserError message if it cannot be imported, with a placeholder {reason}; "": the error of
    `missing_package`, or ImportError for other packages.

    Example:
        >>> module("math").floor(2.5)
        2
    """
    return _Module(name, missing)


if TYPE_CHECKING:
    import keras
    import tensorflow as tf
else:
    keras, tf = _Module("keras"), _Module("tensorflow")

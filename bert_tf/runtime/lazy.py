"""Packages that are imported when something of them is first used, so that processes without them start at once."""

import importlib
from typing import TYPE_CHECKING, Any

from bert_tf.errors import UserError, missing_package, reason_of


class _Module:
    """Stands for a module until an attribute of it is read."""

    def __init__(self, name: str, missing: str = "") -> None:
        self._name, self._missing = name, missing

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "__wrapped__":  # which doctest and inspect ask every object for
            raise AttributeError(attribute)
        try:
            loaded = importlib.import_module(self._name)
        except ImportError as error:
            message = self._missing.format(reason=reason_of(error)) or missing_package(error)
            if message is None:
                raise
            raise UserError(message) from None
        return getattr(loaded, attribute)


def module(name: str, missing: str = "") -> Any:
    """The module of that name, which is imported when an attribute of it is first read.

    missing: the UserError if it cannot be imported, with {reason} for why; "": that of `missing_package`, or the
    ImportError for other packages.

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

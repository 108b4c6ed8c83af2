"""`tf` and `keras`, imported when something of them is first used, for modules that processes without them import."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

__all__ = ["keras", "tf"]


class _Module:
    """Stands for a module until an attribute of it is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(sys.modules.get(self._name) or importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    import keras
    import tensorflow as tf
else:
    keras, tf = _Module("keras"), _Module("tensorflow")

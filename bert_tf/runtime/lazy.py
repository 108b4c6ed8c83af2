"""`tf`: TensorFlow, imported when something of it is first used, for modules that also processes without it import."""

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["tf"]


class _Module:
    """Stands for a module until an attribute of it is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = _Module("tensorflow")

"""Lets Keras load files with layers and models of this package after just `import bert_tf`.

Keras knows a class once its module is imported. Until then, a placeholder class imports it on demand.
"""

import contextlib
import importlib
import pathlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from bert_tf.runtime import keras_import

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = ("model", "families", "api", "extras/paper")
REGISTERED = re.compile(r'^@keras\.saving\.register_keras_serializable\("bert_tf"\)\nclass (\w+)', re.MULTILINE)


def register() -> None:
    """Registers the classes with Keras, now or when it is imported."""
    if hasattr(sys.modules.get("keras"), "saving"):
        _register(sys.modules["keras"])
    else:
        keras_import.within(_registering)


@contextlib.contextmanager
def _registering(keras: ModuleType) -> Iterator[None]:
    yield
    _register(keras)


def _register(keras: Any) -> None:
    for module, name in classes():
        keras.saving.get_custom_objects().setdefault(f"bert_tf>{name}", _stand_in(module, name))


def classes() -> Iterator[tuple[str, str]]:
    """Yields (module, class) of all registered classes, from the source files."""
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        module = ".".join(("bert_tf", *path.relative_to(ROOT).with_suffix("").parts))
        for name in REGISTERED.findall(path.read_text(encoding="utf-8")):
            yield module, name


def load(name: str) -> type | None:
    """Imports the class with this name; None if it is not registered."""
    found = next((module for module, each in classes() if each == name), None)
    return None if found is None else getattr(importlib.import_module(found), name)


def _stand_in(module: str, name: str) -> type:
    def from_config(config: dict[str, Any]) -> Any:
        """Imports the class, which replaces this one, and creates an instance from the configuration."""
        return getattr(importlib.import_module(module), name).from_config(config)

    return type(name, (), {"from_config": staticmethod(from_config)})

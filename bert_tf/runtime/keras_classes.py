"""Lets Keras find the layers and models of this package in its files where `bert_tf` is imported, and nothing of it.

Keras knows a class once its module has been imported. Until then a class that imports it stands for each.
"""

import importlib
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = ("model", "tasks/embeddings")
REGISTERED = re.compile(r'^@keras\.saving\.register_keras_serializable\("bert_tf"\)\nclass (\w+)', re.MULTILINE)


def register() -> None:
    """Registers the classes with Keras, now or when it is imported."""
    if hasattr(sys.modules.get("keras"), "saving"):
        _register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _KerasFinder())  # type: ignore[arg-type]


def _register(keras: Any) -> None:
    for module, name in classes():
        keras.saving.get_custom_objects().setdefault(f"bert_tf>{name}", _stand_in(module, name))


def classes() -> Iterator[tuple[str, str]]:
    """(module, class) of all that are registered, from the sources."""
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        module = ".".join(("bert_tf", *path.relative_to(ROOT).with_suffix("").parts))
        for name in REGISTERED.findall(path.read_text(encoding="utf-8")):
            yield module, name


def _stand_in(module: str, name: str) -> type:
    def from_config(config: dict[str, Any]) -> Any:
        """Imports the class, which then takes the place of this one, and makes what the configuration says."""
        return getattr(importlib.import_module(module), name).from_config(config)

    return type(name, (), {"from_config": staticmethod(from_config)})


class _KerasFinder:
    """Finds Keras as the finders after it do, and registers the classes when it has been imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "keras":
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path[sys.meta_path.index(self) + 1 :])
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)  # type: ignore[arg-type]
                    _register(module)

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec

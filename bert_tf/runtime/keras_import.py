"""The first import of Keras in a process, whoever imports it: it runs inside contexts, and registers classes.

Keras can load files with layers and models of this package after just `import bert_tf`: it knows a class once its
module is imported, and until then a placeholder class imports it on demand.
"""

import contextlib
import importlib
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Context = Callable[[ModuleType], contextlib.AbstractContextManager[None]]
ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = ("model", "families", "api", "extras/paper")
REGISTERED = re.compile(r'^@keras\.saving\.register_keras_serializable\("bert_tf"\)\nclass (\w+)', re.MULTILINE)


def within(context: Context) -> None:
    """Makes the first import of Keras run inside `context(module)`, also after a failed attempt."""
    sys.meta_path.insert(0, Finder(context))  # type: ignore[arg-type]


class Finder:
    """Finds Keras through the finders after it, and executes it inside a context the first time."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of Keras; None for other modules."""
        if name != "keras":
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path[sys.meta_path.index(self) + 1 :])
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_once(module: ModuleType) -> None:
                if self not in sys.meta_path:
                    execute(module)
                    return
                with self._context(module):
                    execute(module)
                sys.meta_path.remove(self)  # type: ignore[arg-type]

            spec.loader.exec_module = execute_once  # type: ignore[method-assign]
        return spec


def register_classes() -> None:
    """Registers the classes with Keras, now or when it is imported."""
    if hasattr(sys.modules.get("keras"), "saving"):
        _register_with(sys.modules["keras"])
    else:
        within(_registering)


@contextlib.contextmanager
def _registering(keras: ModuleType) -> Iterator[None]:
    yield
    _register_with(keras)


def _register_with(keras: Any) -> None:
    for module, name in classes():
        keras.saving.get_custom_objects().setdefault(f"bert_tf>{name}", _stand_in(module, name))


def classes() -> Iterator[tuple[str, str]]:
    """Yields (module, class) of all registered classes, from the source files."""
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        module = ".".join(("bert_tf", *path.relative_to(ROOT).with_suffix("").parts))
        for name in REGISTERED.findall(path.read_text(encoding="utf-8")):
            yield module, name


def class_named(name: str) -> type | None:
    """Imports the class with this name; None if it is not registered."""
    found = next((module for module, each in classes() if each == name), None)
    return None if found is None else getattr(importlib.import_module(found), name)


def _stand_in(module: str, name: str) -> type:
    def from_config(config: dict[str, Any]) -> Any:
        """Imports the class, which replaces this one, and creates an instance from the configuration."""
        return getattr(importlib.import_module(module), name).from_config(config)

    return type(name, (), {"from_config": staticmethod(from_config)})

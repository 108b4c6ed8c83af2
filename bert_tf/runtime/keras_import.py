"""Runs the first import of Keras in a process inside a context, whoever imports it."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.machinery import ModuleSpec
from types import ModuleType

Context = Callable[[ModuleType], AbstractContextManager[None]]


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

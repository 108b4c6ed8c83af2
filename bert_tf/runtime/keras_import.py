"""The first import of Keras in a process, whoever imports it, within a context of ours."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.machinery import ModuleSpec
from types import ModuleType

Context = Callable[[ModuleType], AbstractContextManager[None]]


def within(context: Context) -> None:
    """Imports Keras within `context(module)`, whenever that is; a failed import stays to be done."""
    sys.meta_path.insert(0, Finder(context))  # type: ignore[arg-type]


class Finder:
    """Finds Keras as the finders after it do, and executes it within a context the first time."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module to import; None for others than Keras."""
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

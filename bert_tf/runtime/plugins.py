"""Sets of modules: the modules in a folder; open sets also accept outside modules by dotted name.

Flags and arguments may name outside modules; files may not, unless the call names them too, or trusts files.
"""

import contextlib
import contextvars
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

from bert_tf.errors import UserError, meant
from bert_tf.runtime import tensorflow_startup

_trusted: contextvars.ContextVar[frozenset[str] | None] = contextvars.ContextVar("trusted", default=frozenset())


@contextlib.contextmanager
def trusting(names: Iterable[str] = (), *, everything: bool = False) -> Iterator[None]:
    """Lets `check_trusted` accept the modules named in a call (not in files), or every module."""
    before = _trusted.get()
    token = _trusted.set(None if everything or before is None else before.union(map(_module_of, names)))
    try:
        yield
    finally:
        _trusted.reset(token)


def check_trusted(name: str, source: str) -> None:
    """Raises UserError if a name read from a file refers to an outside module, unless it is trusted.

    Call it for any member, task or score name read from a file, before looking for the module. source: the file.
    """
    module, trusted = _module_of(name), _trusted.get()
    if ("." in module or ":" in name) and trusted is not None and module not in trusted:
        raise UserError(
            f"{source} names code outside of this package, the module {module}: pass trust_code (--trust_code, in "
            "Python trust_code=True) to run it, if you trust who wrote it."
        )


def _module_of(name: str) -> str:
    """The module in the name of a member "my_lab.lion", task "my_lab.tasks/a" or score "my_lab.scores:b"."""
    return name.partition("/")[0].partition(":")[0]


def _is_module_name(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))  # importlib would take others as relative, or paths


def names(package: str) -> list[str]:
    """Lists the members in a package's folder, sorted, without imports: all except _names and the folder base."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"{package} is not a package", name=package)
    modules = pkgutil.iter_modules(spec.submodule_search_locations)
    return sorted(module.name for module in modules if module.name != "base" and not module.name.startswith("_"))


def load(package: str, name: str, *, kind: str = "module") -> ModuleType:
    """Imports a member of a package, or an outside module if the name has a dot: "my_lab.my_module".

    kind: the word for a member in the error, such as "task".
    Raises UserError for an unknown name; errors raised by the member's import pass through.
    """
    outside = import_outside(name) if "." in name else None
    return outside or member(package, name, kind=kind)


def member(package: str, name: str, *, kind: str) -> ModuleType:
    """Like `load`, for a closed set: without outside modules."""
    known = names(package)
    if name not in known:
        raise UserError(f"There is no {kind} {name!r}.{meant(name, known)} Known: {', '.join(known)}.")
    return importlib.import_module(f"{package}.{name}")


def import_outside(name: str) -> ModuleType | None:
    """Imports a module by its full name; None if it does not exist; errors raised inside pass through."""
    if not _is_module_name(name):
        return None
    try:
        with tensorflow_startup.no_messages_if_silenced():  # it may import TensorFlow
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            return None
        raise  # a missing import inside the module


def find_outside(name: str) -> ModuleSpec | None:
    """Finds a module by its full name without importing it (only its parent packages); None if it does not exist."""
    if not _is_module_name(name):
        return None
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


class Choices(list[str]):
    """Names for argparse's `choices`, which also accept the dotted name of an outside module."""

    def __contains__(self, name: object) -> bool:
        return "." in str(name) or super().__contains__(name)

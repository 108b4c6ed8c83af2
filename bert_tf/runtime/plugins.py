"""Sets of modules: the modules in a folder; open sets also accept outside modules by dotted name.

The folder of the same name in bert_tf/extras, if there is one, has more members: extras/commands those of cli/commands.
Flags and arguments may name a module from outside; a file may not, unless the call names it too, or trusts files.
"""

import ast
import contextlib
import contextvars
import importlib
import importlib.util
import pathlib
import pkgutil
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

from bert_tf.errors import UserError, meant
from bert_tf.runtime import tensorflow_startup

EXTRAS = "bert_tf.extras"
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
    """Lists the members of a set by its package, sorted, without importing them: all but _names and the module base."""
    return sorted(_members(package))


def _members(package: str) -> dict[str, str]:
    """{name of a member: full name of its module}."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"{package} is not a package", name=package)
    more = importlib.util.find_spec(f"{EXTRAS}.{package.rpartition('.')[2]}")
    return {
        module.name: f"{folder.name}.{module.name}"
        for folder in (spec, more)
        if folder is not None
        for module in pkgutil.iter_modules(folder.submodule_search_locations)
        if module.name != "base" and not module.name.startswith("_")
    }


def docstring(package: str, name: str) -> str:
    """The docstring of a member, with which its file begins, read without importing it."""
    spec = importlib.util.find_spec(_members(package)[name])
    text = pathlib.Path(str(spec and spec.origin)).read_text(encoding="utf-8")
    return ast.literal_eval(text[: text.index('"""', 3) + 3])


def load(package: str, name: str, *, kind: str = "module") -> ModuleType:
    """Imports a member of a package, or an outside module if the name has a dot: "my_lab.my_module".

    kind: the word for a member in the error, such as "task".
    Raises UserError for an unknown name; errors raised by the member's import pass through.
    """
    outside = import_outside(name) if "." in name else None
    return outside or member(package, name, kind=kind)


def member(package: str, name: str, *, kind: str) -> ModuleType:
    """The same for a closed set, without modules from outside."""
    modules = _members(package)
    if name not in modules:
        known = sorted(modules)
        raise UserError(f"There is no {kind} {name!r}.{meant(name, known)} Known: {', '.join(known)}.")
    return importlib.import_module(modules[name])


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

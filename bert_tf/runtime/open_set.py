"""Open sets: each module in a folder is a member, and so is any module from outside, by its dotted name."""

import importlib
import importlib.util
import pkgutil
from importlib.machinery import ModuleSpec
from types import ModuleType

from bert_tf.errors import UserError


def names(package: str) -> list[str]:
    """Lists the modules in a package's folder, sorted, without importing the package or the modules."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"{package} is not a package", name=package)
    modules = pkgutil.iter_modules(spec.submodule_search_locations)
    return sorted(module.name for module in modules if not module.name.startswith("_"))


def load(package: str, name: str, *, kind: str = "module") -> ModuleType:
    """Imports a member of a package, or a module from outside if the name has a dot: "my_lab.my_module".

    kind: the word for a member in the error, such as "task".
    Raises UserError for an unknown name; errors while the member itself is imported pass through.
    """
    if name in names(package):
        return importlib.import_module(f"{package}.{name}")
    module = import_outside(name) if "." in name else None
    if module is None:
        raise UserError(f"There is no {kind} {name!r}. Known: {', '.join(names(package))}.")
    return module


def import_outside(name: str) -> ModuleType | None:
    """Imports a module by its full name; None if there is none, while errors inside of it pass through."""
    if "" in name.split("."):  # importlib would take it for a relative import
        return None
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            return None
        raise  # something that the module imports


def find_outside(name: str) -> ModuleSpec | None:
    """Finds a module by its full name without importing it, though the packages it lies in; None if there is none."""
    if "" in name.split("."):  # importlib would take it for a relative name
        return None
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


class Choices(list[str]):
    """Names as `choices` of argparse, which then also accepts the dotted name of a module from outside."""

    def __contains__(self, name: object) -> bool:
        return "." in str(name) or super().__contains__(name)

"""Tasks, one file for each family: a file ends in a `TASKS` table, {name: function that returns a Task}."""

import importlib
import pkgutil

from bert_tf.errors import UserError


def get(name):
    """The function in the `TASKS` table of a family: get("pretraining/mlm_nsp").

    A family outside of this package is named by its module: get("my_lab.sarcasm/headlines").
    """
    family, _, member = name.partition("/")
    module = family if "." in family else f"{__name__}.{family}"
    try:
        if family.startswith("."):
            raise ModuleNotFoundError(name=module)  # to Python it would be a relative import
        table = getattr(importlib.import_module(module), "TASKS", None)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # something the family itself imports
            raise
        raise UserError(f"There is no task {name!r}. Known: {', '.join(known())}.") from None
    if table is None:
        raise UserError(f"{module} has no table TASKS; a family of tasks ends in one, {{name: function}}.")
    key = name if name in table else member
    if key not in table:
        raise UserError(f"There is no task {name!r}. Known: {', '.join(table)}.")
    return table[key]


def to_fine_tune(name):
    """The whole name of a task to fine-tune on, which others may write otherwise: SST-2, or sst2, of glue/sst-2.

    Raises UserError for one that there is not; one with a dot is of another package.
    """
    names = [each for each in known() if not each.startswith("pretraining/")]
    found = name if "." in name else next((each for each in names if _plain(each) == _plain(name)), None)
    if found is None:
        raise UserError(f"There is no task {name!r} to fine-tune on. Known: {', '.join(names)}.")
    return found


def _plain(name):
    """A name of a task as others write it, too: tensorflow-datasets has sst2 for SST-2."""
    return name.lower().removeprefix("glue/").replace("-", "")


def known():
    """The names of all tasks of this package."""
    families = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [name for family in families for name in importlib.import_module(f"{__name__}.{family}").TASKS]

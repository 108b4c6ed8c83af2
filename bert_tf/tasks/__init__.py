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
        table = importlib.import_module(module).TASKS
    except ModuleNotFoundError as error:
        if error.name not in (module, family.partition(".")[0]):
            raise
        raise UserError(f"There is no task {name!r}. Known: {', '.join(known())}.") from None
    key = name if name in table else member
    if key not in table:
        raise UserError(f"There is no task {name!r}. Known: {', '.join(table)}.")
    return table[key]


def known():
    """The names of all tasks of this package."""
    families = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [name for family in families for name in importlib.import_module(f"{__name__}.{family}").TASKS]

"""Tasks, one file for each family: a file ends in a `TASKS` table, {name: function that returns a Task}.

The functions take the flags of a script, and a function that returns the tokenizer; if no checkpoint provides one,
it learns a vocabulary from the texts returned by its argument.
"""

from collections.abc import Callable, Iterable
from typing import Any

from bert_tf.errors import UserError, meant
from bert_tf.runtime import plugins

TokenizerFor = Callable[[Callable[[], Iterable[str]]], Any]


def get(name: str) -> Callable:
    """The function in the `TASKS` table of a family, for a name such as "pretraining/mlm_nsp".

    An external family is named by its module: get("my_lab.sarcasm/headlines").
    """
    family, _, member = name.partition("/")
    try:
        module = plugins.load(__name__, family, kind="task")
    except UserError:
        raise UserError(f"There is no task {name!r}. Known: {', '.join(known())}.") from None
    table = getattr(module, "TASKS", None)
    if table is None:
        raise UserError(f"{family} has no table TASKS; a family of tasks ends in one, {{name: function}}.")
    key = name if name in table else member
    if key not in table:
        raise UserError(f"There is no task {name!r}. Known: {', '.join(table)}.")
    return table[key]


def full_name(name: str) -> str:
    """The full name of a fine-tuning task: glue/sst-2 for SST-2 or sst2, vectors/pairs for pairs.

    A name with a dot is returned unchanged.

    Raises UserError for an unknown name.
    """
    names = [each for each in known() if not each.startswith("pretraining/")]
    match = name if "." in name else next((each for each in names if _plain(each) == _plain(name)), None)
    if match is None:
        short = {each.rpartition("/")[2] if each.startswith("glue/") else each for each in names}
        raise UserError(f"There is no task {name!r} to fine-tune on.{meant(name, short)} Known: {', '.join(names)}.")
    return match


def _plain(name: str) -> str:
    """A name without the parts that vary in spelling: tensorflow-datasets has sst2 for SST-2."""
    return name.lower().removeprefix("glue/").removeprefix("vectors/").replace("-", "")


def known() -> list[str]:
    """The names of all tasks of this package."""
    return [name for family in plugins.names(__name__) for name in plugins.load(__name__, family).TASKS]

"""Goals as an open set: each module defines a kind of head as `GOAL`, a subclass of `goal.Goal`."""

from bert_tf.errors import UserError
from bert_tf.runtime import open_set
from bert_tf.tasks.text_classification.goal import Goal


def get(name: str) -> type[Goal]:
    """The goal of a module here, or of one from outside by its dotted name: "my_lab.stars".

    Raises UserError for an unknown name.
    """
    module = open_set.load(__name__, name, kind="label_type")
    if not hasattr(module, "GOAL"):
        raise UserError(f"{name} has no GOAL; a module with a goal ends in GOAL = the class.")
    return module.GOAL


def of_kind(kind: str) -> type[Goal]:
    """The goal whose `kind` a checkpoint or an export stores; of a goal from outside it is the name of its module."""
    goals = (get(name) for name in open_set.names(__name__))
    return next((goal for goal in goals if goal.kind == kind), None) or get(kind)

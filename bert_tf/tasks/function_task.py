"""A task as a dataclass of functions, for tasks that are made of parts."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf.tasks.task import Objective


def _no_predictions(outputs: Any, batch: Any) -> dict:
    return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FunctionTask:
    """A `tasks.task.Task` whose methods are fields."""

    name: str
    create_model: Callable
    train_batches: Callable
    eval_batches: Callable
    loss_weights: Callable
    metrics: Callable
    objectives: Mapping[str, Objective]
    signatures: Callable
    eval_splits: Mapping[str, str] = dataclasses.field(default_factory=lambda: {"": "eval"})
    predictions: Callable = _no_predictions
    scores: Callable = _no_predictions
    criterion: str = ""

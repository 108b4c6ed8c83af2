"""Tasks as dataclasses of functions, until every task is a class of `tasks.task`."""

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class FunctionFineTuningTask(FunctionTask):
    """A `tasks.task.FineTuningTask` whose methods are fields, as far as run_squad.py needs them."""

    split: Callable
    describe: Callable
    statistics: Callable
    test_splits: tuple = ()
    labels: tuple = ()
    kind: str
    head: tuple
    rows_per_example: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class FunctionReportingTask(FunctionFineTuningTask):
    """A FunctionFineTuningTask with reports and predictions."""

    compare: Callable
    details: Callable
    write_predictions: Callable
    serving_examples: Callable

"""Length of training on few examples: several hundred steps, intermediate evaluations, and early stopping."""

import math
from collections.abc import Mapping
from typing import Any

from bert_tf.errors import count_text
from bert_tf.recipes.finetuning.finetuning_flags import FEW_EXAMPLES, FineTuningFlags
from bert_tf.runtime import terminal
from bert_tf.tasks.task import FineTuningTask

STEPS, MAX_EPOCHS, MIN_EPOCHS = 400, 60, 3
BATCH_SIZES = ((200, 8), (2000, 16))  # (below this many examples, rows per step); else the default
EVALUATIONS, PATIENCE, FEWEST_STEPS = 12, 4, 10  # in total, without improvement, and fewest steps between two
REASONS = {  # for the flags chosen by `length`
    "train_batch_size": "number of training examples",
    "num_train_epochs": f"about {STEPS} steps, {MAX_EPOCHS} epochs at most",
    "eval_steps": f"{EVALUATIONS} evaluations at most",
    "early_stop_patience": "training ends when it no longer improves",
}
TRAINED_PER_EVALUATED = 3  # examples evaluated in the time of training on one


def length(
    count: int,
    given: Mapping[str, Any],
    *,
    is_scored: bool,
    held_out: float = 0.0,
    evaluated: int = 0,
    has_own_batch: bool = True,
) -> tuple[dict[str, Any], int]:
    """({flag: value} not set by the user, the number of steps) for training on `count` labeled examples.

    Args:
        count: examples, below FEW_EXAMPLES.
        given: {flag: value} from the user.
        is_scored: whether there are evaluations during training.
        held_out: share of these examples held out for evaluation.
        evaluated: number of separate evaluation examples; evaluations take no longer than training.
        has_own_batch: whether the batch size may depend on the number of examples.
    """
    by_count = next((size for most, size in BATCH_SIZES if count < most), 32) if has_own_batch else 32
    batch_size = given.get("train_batch_size") or by_count
    fitting = min(max(math.ceil(STEPS * batch_size / count), MIN_EPOCHS), MAX_EPOCHS)
    epochs = float(given.get("num_train_epochs") or fitting)
    trained = count - round(count * held_out)
    steps = max(1, int(trained * epochs / batch_size))
    chosen: dict[str, Any] = {"train_batch_size": batch_size} if has_own_batch else {}
    chosen["num_train_epochs"] = epochs
    if is_scored:
        most = TRAINED_PER_EVALUATED * steps * batch_size // evaluated if evaluated else EVALUATIONS
        number = min(EVALUATIONS, max(2, most))
        chosen |= {
            "eval_steps": max(FEWEST_STEPS, math.ceil(steps / number)),
            "early_stop_patience": min(PATIENCE, number),
        }
    return {name: value for name, value in chosen.items() if name not in given}, steps


def defaults(options: FineTuningFlags, task: FineTuningTask, *, is_scored: bool) -> dict[str, Any]:
    """{flag: value} for the length of training on few tagged sentences or questions, which is printed.

    Flags with a reason were chosen before the data was read, and do not change.
    """
    if not (options.do_train and task.head.training.learns_in_steps) or options.parity:
        return {}
    rows = task.split("train")
    if rows.stored or not 0 < rows.count < FEW_EXAMPLES:
        return {}
    values = options.values()
    fixed = {name: values[name] for name in (*options.reasons, *options.given) if name in values}
    grids = (name for name in options.given if name.endswith("_grid"))
    fixed |= {name.removesuffix("_grid"): None for name in grids}  # each run has its own value
    evaluated = sum(task.split(split).count for split in task.eval_splits.values()) if is_scored else 0
    has_own_batch = task.comparison is None  # a loss that compares rows needs many of them
    chosen, steps = length(rows.count, fixed, is_scored=is_scored, evaluated=evaluated, has_own_batch=has_own_batch)
    if chosen:
        named = " ".join(f"--{name}={value}".removesuffix(".0") for name, value in chosen.items())
        terminal.say(f"For {count_text(rows.count, 'training example')}, about {count_text(steps, 'step')}: {named}.")
    return chosen

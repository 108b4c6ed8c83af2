"""The Task dataclass, and nothing else: what training, evaluation and export need to know of a task."""

import dataclasses
from collections.abc import Callable, Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """A measure that training makes small: its mean over the global batch, times `factor`.

    The mean is the sum of values * weights over all replicas and micro-batches, divided by the sum of weights over
    all of them plus `epsilon`.
    """

    factor: float = 1.0
    epsilon: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A task as a value: functions and numbers, no state. B rows of a batch.

    model(config, dtype): makes the Keras model.
    train_batches(batch_size, seed): an endless dataset of batches, dictionaries of tensors with static shapes [B, ...].
    eval_batches(batch_size, split): one pass over a split, the last batch filled with rows of weight 0; by default over
        the first of `eval_splits`.
    weights(batch): {measure: weights} for each measure of `objectives`, from the batch alone.
    measures(outputs, batch): {measure: (values, weights)}, pairs of float32 tensors of one shape; losses and scores.
    objectives: {measure: Objective}, which measures the loss is made of.
    serve(model, tokenizer, ...): the signatures of the export, {name: tf.function on strings}.
    eval_splits: {prefix: split} of the splits whose truth is known; the names of its scores begin with the prefix.

    Of a task with scores that are no means over examples (F1, correlations), or with predictions:
    answers(outputs, batch): {name: float32 [B, ...]}, among them "row_numbers": 1, 2, ... in the split's order, 0 for a
        row that only fills the batch.
    scores(answers, split): {score: number} of the answers for a whole split, arrays without such rows.

    criterion: the result of an evaluation, by its full name, that decides which checkpoint or which run is the best;
        higher is better. Empty where nothing can decide, as without evaluation splits.
    """

    name: str
    model: Callable
    train_batches: Callable
    eval_batches: Callable
    weights: Callable
    measures: Callable
    objectives: Mapping[str, Objective]
    serve: Callable
    eval_splits: Mapping[str, str] = dataclasses.field(default_factory=lambda: {"": "eval"})
    answers: Callable | None = None
    scores: Callable | None = None
    criterion: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningTask(Task):
    """A Task that starts from an encoder, and what scripts that fine-tune ask for.

    source(split): the split, read once: `count`, the examples that an epoch of training has, and `is_known`, whether
        their truth is known.
    described(split): sentences on it for people; statistics(split): {name: number} for the report.
    test_splits: those to predict.
    labels, kind: what the head sorts into and what it is ("class", "several", "number", "choice", "span",
        "tags").
    head: the weight that makes it a head for this task, (canonical name, its last dimension).
    rows_an_example: how many rows of the encoder an example takes.
    """

    source: Callable
    described: Callable
    statistics: Callable
    test_splits: tuple = ()
    labels: tuple = ()
    kind: str
    head: tuple
    rows_an_example: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportingTask(FineTuningTask):
    """A FineTuningTask that says by itself what becomes of its answers: run_classifier.py asks for no more.

    compared(answers, split): the truth and what was guessed, arrays as `sweep.collapse` takes them.
    details(answers, split): what eval_details.json holds of a split: {"per_class", "confusion", "hardest"}, as far as
        there is such a thing (see metrics.per_class and scoreboard.splits).
    write_predictions(folder, split, answers): writes them and returns sentences on what is where.
    serving_examples(split): {signature: {input: values}} to compare an export with the live model on.
    """

    compared: Callable
    details: Callable
    write_predictions: Callable
    serving_examples: Callable

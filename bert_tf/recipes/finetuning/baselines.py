"""Quick models to compare fine-tuning with, before and after it, or for it to end with."""

import logging
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import UserError
from bert_tf.heads.regression import Regression
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.runtime import run_files
from bert_tf.runtime.lazy import tf
from bert_tf.tasks import baseline
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training import distribute
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.run_directory import RunFolder

BEST, FROZEN = "best", "frozen"  # choices of the flag `start`
log = logging.getLogger("bert_tf")


def score(
    task: FineTuningTask, evaluator: "Evaluator", folder: RunFolder, *, has_encoder: bool
) -> baseline.LinearHead | None:
    """Prints and records the scores of the task's baselines, which the model should beat.

    has_encoder: whether the model is trained. Returns the linear head on frozen embeddings, if it is a baseline.
    """
    scores, head = baseline.of_task(task, _frozen_vectors(evaluator) if has_encoder else None)
    _record(scores, folder, "on the development set")
    return head


def of_folds(folders: Sequence[str], folder: RunFolder) -> None:
    """Prints and records the mean baseline scores over cross-validation runs."""
    runs = [run_files.read_run(each).get("baselines") or [] for each in folders]
    scores: dict[str, dict[str, list[float]]] = {}
    for each in (each for run in runs for each in run):
        for name, value in each["scores"].items():
            scores.setdefault(each["name"], {}).setdefault(name, []).append(value)
    means = {model: {name: statistics.fmean(each) for name, each in own.items()} for model, own in scores.items()}
    _record(means, folder, "mean of the folds")


def _record(scores: Mapping[str, Mapping[str, float]], folder: RunFolder, where: str) -> None:
    folder.update(baselines=[{"name": name, "scores": values} for name, values in scores.items()])
    if scores:
        print(f"To beat, {where}:", *_table(scores), sep="\n", flush=True)


def _frozen_vectors(evaluator: "Evaluator") -> Callable[[str, int], np.ndarray] | None:
    """A function (split, number) -> the inputs [n, D] of the head for the first examples; None if it has none.

    Also None with several processes, which would have to wait for each other.
    """
    from bert_tf.model.base_encoder import Pass

    model, strategy = evaluator.model, evaluator.strategy
    if not hasattr(model, "vectors") or distribute.spans_processes(strategy):
        return None

    def on_replica(batch: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        computed = tf.cast(model.vectors(model.complete(batch), Pass(packing=evaluator.packing)), tf.float32)
        return distribute.all_gather([computed, batch["row_numbers"]])

    compute = distribute.on_replicas(strategy, on_replica)

    def vectors(split: str, most: int) -> np.ndarray:
        rows, count = [], 0
        for batch in evaluator.batches(split):
            computed, numbers = (x.numpy() for x in compute(distribute.shard_batch(strategy, batch)))
            rows.append(computed[numbers > 0])
            count += len(rows[-1])
            if count >= most:
                break
        return np.concatenate(rows)[:most]

    return vectors


def fit_head(task: FineTuningTask, evaluator: "Evaluator") -> None:
    """Sets the model's head to the linear head on frozen embeddings; UserError without one, or in several processes."""
    vectors = _frozen_vectors(evaluator)
    head = baseline.linear_head(task, vectors) if vectors else None
    if head is None:
        raise UserError(f"start=frozen needs a head on whole texts, and one process; omit it for {task.name}.")
    _assign(evaluator.model, head)


def begin_linear(task: FineTuningTask, evaluator: "Evaluator", head: baseline.LinearHead | None) -> None:
    """Sets the model's head to the linear head on frozen embeddings, if possible; head: that head, if already known.

    Training then changes the encoder less than from a random head (Kumar et al. 2022, arXiv:2202.10054).
    """
    vectors = None if head else _frozen_vectors(evaluator)
    head = baseline.linear_head(task, vectors) if vectors else head
    if head is not None:
        _assign(evaluator.model, head)
        print("The head starts as the linear model on frozen embeddings.", flush=True)


def begin_at_mean(task: FineTuningTask, model: Any) -> None:
    """Initializes a new regression head to the mean of the training data, which takes many steps to reach from 0."""
    if isinstance(task.head, Regression):
        model.classifier.bias.assign([task.split("train").labels.mean()])


def _assign(model: Any, head: Iterable[np.ndarray]) -> None:
    for variable, values in zip((model.classifier.kernel, model.classifier.bias), head, strict=True):
        variable.assign(values)


def _table(scores: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    width = max(map(len, scores))
    for name, values in scores.items():
        yield f"  {name:{width}}  " + "  ".join(f"{score} {value:.4f}" for score, value in values.items())


def compare(options: FineTuningFlags, task: FineTuningTask, results: Mapping[str, float], folder: RunFolder) -> None:
    """Records and reports the baselines that the model does not beat by the criterion, with flags that may help."""
    run = run_files.read_run(folder.path)
    recorded = [
        each for each in run.get("baselines") or () if each["name"] != baseline.FROZEN or not is_frozen(options, run)
    ]
    ours = results.get(task.criterion)
    theirs = {each["name"]: each["scores"][task.criterion] for each in recorded if task.criterion in each["scores"]}
    can_be_beaten = ours is not None and ours < task.head.training.perfect
    better = {name: value for name, value in theirs.items() if can_be_beaten and value >= ours}
    folder.update(not_beaten=list(better))
    if better:
        named = ", ".join(f"{name} ({value:.4f})" for name, value in better.items())
        log.warning(
            "%s does not beat %s: %s is %.4f. %s", folder.path, named, task.criterion, ours, advice(options, task)
        )


def is_frozen(options: FineTuningFlags, run: Mapping[str, Any]) -> bool:
    """Returns whether a run, according to its run.json, ended with the linear head on frozen embeddings itself."""
    return options.start == FROZEN or (run.get("selection") or {}).get("taken_step") == 0


def advice(options: FineTuningFlags, task: FineTuningTask) -> str:
    """Advice for when fine-tuning does not beat a simpler model."""
    flags, balancing = [], task.head.wording().balancing_beyond(options.values())
    if balancing:
        flags.append(f"{balancing} (labels of uneven size)")
    flags.append(f"--learning_rate={options.training.learning_rate * 2:g}")
    flags.append(f"--num_train_epochs={2 * options.training.num_train_epochs:g}")
    flags.append("another --init_checkpoint")
    keeps = "" if options.start == BEST else " --start=best keeps the frozen encoder with the linear head if it wins."
    return f"Try {', '.join(flags)}, or more examples; otherwise the simpler model is the better one.{keeps}"

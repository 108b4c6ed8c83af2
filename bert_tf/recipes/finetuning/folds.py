"""Cross-validation of a table: a run for each held-out part, and a model trained on all rows.

`refit` holds out only one part, which determines the scores and the number of epochs of a model trained on all rows.
"""

import contextlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import UserError, count_text
from bert_tf.recipes.finetuning import baselines, sweep
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.reports import wording
from bert_tf.runtime import files, run_files
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training import metrics
from bert_tf.training.run_directory import RunFolder

ALL_ROWS = "all_rows"  # name of the run on all rows


def number_of(options: FineTuningFlags) -> int:
    """The number of folds requested by flags, for a run that is not itself a fold; 0 for none."""
    values = options.values()
    return int(values.get("folds") or 0) if options.do_train and not values.get("fold") else 0


def plan(options: FineTuningFlags) -> dict[str, FineTuningFlags]:
    """{name: options of a run} of every fold; UserError with flags that already make several runs."""
    count, values = number_of(options), options.values()
    if count < 2:
        raise UserError(f"folds is {count}; expected 2 or more, such as 5.")
    several = [name for name, value in sweep.ONE_RUN.items() if values[name] != value]
    if several or not options.do_eval:
        reason = f"{several[0]} makes several runs itself" if several else "do_eval is off"
        raise UserError(f"folds={count}: {reason}. Remove one of them.")
    names = {number: f"fold={number}" for number in range(1, count + 1)}
    return {
        name: options.replace(fold=number, output_dir=f"{options.output_dir}/{name}", do_predict=False, do_export=False)
        for number, name in names.items()
    }


def run_all(
    options: FineTuningFlags,
    runs: Mapping[str, FineTuningFlags],
    folder: RunFolder,
    run: Callable[[FineTuningFlags, RunFolder], None],
    task: FineTuningTask,
) -> None:
    """Calls `run(options, folder)` for every fold and for all rows, and reports the scores of the folds."""
    outcomes = sweep.run_all(runs, folder, run)
    last = train_on_all_rows(options, [each.output_dir for each in runs.values()], folder, run)
    if folder.is_chief:
        report(folder, runs, outcomes, task, last)


def is_refitted(options: FineTuningFlags) -> bool:
    """Returns whether flags request another run, on all rows; UserError if they make several runs."""
    values = options.values()
    if not (options.do_train and values.get("refit")):
        return False
    several = [name for name, value in {**sweep.ONE_RUN, "folds": 0}.items() if values[name] != value]
    if several:
        raise UserError(f"refit: {several[0]} makes several runs itself. Remove one of them.")
    return True


def refit(
    options: FineTuningFlags, folder: RunFolder, run: Callable[[FineTuningFlags, RunFolder], None], task: FineTuningTask
) -> None:
    """Calls `run(options, folder)` with rows held out, then for all rows, whose model becomes the folder's."""
    run(options.replace(do_predict=False, do_export=False), folder)
    with folder.phase("all rows"):
        last = train_on_all_rows(options, [folder.path], folder, run, is_calibrated=True)
    if folder.is_chief:
        rows = run_files.read_run(last.output_dir)["training"]["num_train_examples"]
        # Recorded before the model exists, so that no start scores it on its training rows
        folder.update(refit={"rows": rows, "epochs": _epochs(last)})
        sweep.promote_best_run(folder, ALL_ROWS, without={"metrics.jsonl"})
        print(wording.refitted(folder.run), flush=True)


def train_on_all_rows(
    options: FineTuningFlags,
    folders: Sequence[str],
    folder: RunFolder,
    run: Callable[[FineTuningFlags, RunFolder], None],
    *,
    is_calibrated: bool = False,
) -> FineTuningFlags:
    """Calls `run(options, RunFolder)` on all rows, with the best number of epochs in other runs; returns the options.

    folders: these runs. is_calibrated: whether the run uses the thresholds recorded in `folder`.
    """
    last = final(options, folders)
    epochs = _epochs(last)
    print(f"All rows, {count_text(epochs, 'epoch')}" if epochs else "All rows", flush=True)
    with contextlib.closing(RunFolder(last.output_dir, is_chief=folder.is_chief)) as own:
        if folder.is_chief and is_calibrated and files.exists(folder.file(run_files.TASK)):
            files.make_folder(own.path)
            files.copy(folder.file(run_files.TASK), own.file(run_files.TASK))
        run(last, own)
        own.finish()
    return last


def final(options: FineTuningFlags, folders: Sequence[str]) -> FineTuningFlags:
    """The options of the run on all rows, with the best number of epochs, on average, of the runs in `folders`."""
    recorded = [run_files.read_run(each) for each in folders]
    evaluations: list[Any] = [(run.get("selection") or {}).get("evaluations") for run in recorded]
    changes: dict[str, Any] = {
        "eval_steps": 0,
        "early_stop_patience": 0,
        "keep_best": False,
        "do_eval": False,
        "refit": False,
    }
    if all(evaluations):
        epochs = best_step(evaluations) * statistics.fmean(
            run["training"]["train_batch_size"] / run["training"]["num_train_examples"] for run in recorded
        )
        changes["num_train_epochs"] = round(max(epochs, 0.1), 1)
        changes["start"] = options.start if epochs else baselines.FROZEN
    return options.replace(**changes, output_dir=f"{options.output_dir}/{ALL_ROWS}")


def _epochs(options: FineTuningFlags) -> float:
    """Number of epochs of a run; 0 if only its head is fitted."""
    return 0 if options.start == baselines.FROZEN else options.training.num_train_epochs


def best_step(evaluations: Sequence[Sequence[tuple[int, float]]]) -> int:
    """The step with the best mean criterion over runs, each given as [(step, criterion)]; the last one of equals.

    A run that ended earlier counts with its last evaluation.
    """
    steps = sorted({step for run in evaluations for step, _ in run})

    def mean(step: int) -> float:
        return statistics.fmean(
            [value for at, value in run if at <= step or at == run[0][0]][-1] for run in evaluations
        )

    return max(steps, key=lambda step: (mean(step), step))


def pooled(details: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The tables of eval_details.json combined over all folds, each of which has its own."""
    tables: list[Mapping[str, Any]] = [next(iter(each.values()), {}) for each in details]
    names = [[row["label"] for row in table.get("per_class", ())] for table in tables]
    pairs = [pair for table in tables for pair in table.get("values", ())]
    made: dict[str, Any] = {"values": pairs} if pairs else {}
    if all("confusion" in table for table in tables) and all(each == names[0] for each in names):
        counts = np.sum([table["confusion"] for table in tables], 0)
        labels, predicted = (np.repeat(number.ravel(), counts.ravel()) for number in np.indices(counts.shape))
        made["per_class"] = metrics.per_class(labels, predicted, names[0])
        made["confusion"] = counts.tolist()
    return made


def report(
    folder: RunFolder,
    runs: Mapping[str, FineTuningFlags],
    outcomes: Mapping[str, Any],
    task: FineTuningTask,
    last: FineTuningFlags,
) -> None:
    """Prints the scores of all folds and their mean, writes both, and copies the all-rows model into the folder.

    last: the options of the run on all rows.
    """
    results = sweep.summary(runs, outcomes, task.criterion)
    results["best_run"] = ALL_ROWS
    sweep.promote_best_run(folder, ALL_ROWS)
    folder.write_json(sweep.FILE, results)
    scores = results["combinations"][0]["scores"]
    means = {name: each["mean"] for name, each in scores.items()}
    folder.write_json("eval_results.json", means)
    print(f"Cross-validation, {len(runs)} folds, every row held out once; mean ± standard deviation of the folds:")
    for name, each in scores.items():
        print(f"  {name:26} {each['mean']:.4f} ± {each['sd']:.4f}")
    details = pooled([run_files.read_details(each.output_dir) for each in runs.values()])
    folder.write_json("eval_details.json", {"all folds": details})
    for line in task.head.summary(details):
        print(line)
    baselines.of_folds([each.output_dir for each in runs.values()], folder)
    baselines.compare(last, task, means, folder)
    print(f"The model in {folder.path} is trained on all rows; the scores are from the folds.", flush=True)

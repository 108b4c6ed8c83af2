"""Cross-validation of a table: a run for each held-out part, and a model trained on all rows.

`refit` holds out only one part, which determines the scores and the number of epochs of a model trained on all rows.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import UserError
from bert_tf.recipes.finetuning import baselines, sweep
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.reports import wording
from bert_tf.runtime import run_files
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training import metrics
from bert_tf.training.run_directory import RunFolder

ALL_ROWS = "all_rows"  # name of the run on all rows
ONLY_SCORED = {"do_predict": False, "do_export": False}  # flags of a run whose model is not the final one
ON_ALL_ROWS = {  # flags of the run on all rows
    **dict.fromkeys(("eval_steps", "early_stop_patience"), 0),
    **dict.fromkeys(("keep_best", "do_eval", "refit"), False),
}


def variants(options: FineTuningFlags) -> dict[str, dict[str, Any]]:
    """{name: the flags that a run changes} of every fold, {} if none are requested, or for a run that is one itself.

    Raises UserError with flags that already make several runs.
    """
    values = options.values()
    count = int(values.get("folds") or 0) if options.do_train and not values.get("fold") else 0
    if not count:
        return {}
    if count < 2:
        raise UserError(f"folds is {count}; expected 2 or more, such as 5.")
    several = [name for name, value in sweep.ONE_RUN.items() if values[name] != value]
    if several or not options.do_eval:
        reason = f"{several[0]} makes several runs itself" if several else "do_eval is off"
        raise UserError(f"folds={count}: {reason}. Remove one of them.")
    return {f"fold={number}": {"fold": number, **ONLY_SCORED} for number in range(1, count + 1)}


def is_refitted(options: FineTuningFlags) -> bool:
    """Returns whether flags request another run, on all rows; UserError if they make several runs."""
    values = options.values()
    if not (options.do_train and values.get("refit")):
        return False
    several = [name for name, value in {**sweep.ONE_RUN, "folds": 0}.items() if values[name] != value]
    if several:
        raise UserError(f"refit: {several[0]} makes several runs itself. Remove one of them.")
    return True


def with_best_length(options: FineTuningFlags, folders: Sequence[str]) -> FineTuningFlags:
    """The options of the run on all rows, with the best number of epochs, on average, of the runs in `folders`."""
    recorded = [run_files.read_run(each) for each in folders]
    evaluations: list[Any] = [(run.get("selection") or {}).get("evaluations") for run in recorded]
    if not all(evaluations):
        return options
    epochs = best_step(evaluations) * statistics.fmean(
        run["training"]["train_batch_size"] / run["training"]["num_train_examples"] for run in recorded
    )
    start = options.start if epochs else baselines.FROZEN
    return options.replace(num_train_epochs=round(max(epochs, 0.1), 1), start=start)


def epochs_of(options: FineTuningFlags) -> float:
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


def report_refit(folder: RunFolder, last: FineTuningFlags) -> None:
    """Copies the all-rows model into the folder of the run with rows held out. last: the options of the former."""
    rows = run_files.read_run(last.output_dir)["training"]["num_train_examples"]
    # Recorded before the model exists, so that no start scores it on its training rows
    folder.update(refit={"rows": rows, "epochs": epochs_of(last)})
    sweep.promote_best_run(folder, ALL_ROWS, without={"metrics.jsonl"})
    print(wording.refitted(folder.run), flush=True)


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

"""Several runs of one script: seeds and grids of hyperparameters, a folder for each, and a summary of their results.

`options` are the flags of a fine-tuning script, a frozen dataclass. No TensorFlow.
"""

import itertools
import os
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.checkpoints import checkpoint_files, formats
from bert_tf.config import flag_parsers
from bert_tf.errors import TrainingError, UserError
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.runtime import atomic_files, files, run_files
from bert_tf.runtime.json_files import read_json
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.run_directory import RunFolder, next_free

GRIDS: dict[str, Callable[[str], Any]] = {
    "learning_rate": flag_parsers.finite,
    "train_batch_size": int,
    "num_train_epochs": flag_parsers.finite,
}
ONE_RUN = {"num_seeds": 1, **{f"{name}_grid": "" for name in GRIDS}}  # the values of the sweep flags in a single run
FILE = "sweep.json"
RUN_FILES = {"run.json", "checkpoints", "best", "events", "report.html"}  # not copied from the best run
WEIGHTS = "model.safetensors"

Outcome = dict[str, Any]


def variants(options: FineTuningFlags) -> dict[str, dict[str, Any]]:
    """{name: the flags that a run changes} for every seed and combination of the grids; {"": ...} for a single run.

    A name contains the varying values, "seed=12345,learning_rate=3e-05", and is the run folder in `output_dir`. Seeds
    are random_seed and the numbers after it. Raises UserError for a grid that is not a list of numbers.
    """
    if options.num_seeds < 1:
        raise UserError(f"num_seeds is {options.num_seeds}; expected 1 or more.")
    values: dict[str, list[Any]] = {name: _grid(options, name) for name in GRIDS if options.values()[f"{name}_grid"]}
    values["random_seed"] = [options.training.random_seed + number for number in range(options.num_seeds)]
    runs = {}
    for chosen in itertools.product(*values.values()):
        settings = dict(zip(values, chosen, strict=True))
        varying = {key: value for key, value in settings.items() if len(values[key]) > 1}
        runs[",".join(f"{key}={_format(value)}" for key, value in _seed_first(varying))] = ONE_RUN | settings
    return runs


def _grid(options: FineTuningFlags, name: str) -> list[int | float]:
    kind, text = GRIDS[name], options.values()[f"{name}_grid"]
    try:
        return list(dict.fromkeys(kind(value) for value in text.split(",")))
    except ValueError:
        example = "16,32" if kind is int else "5e-5,4e-5,3e-5,2e-5"
        raise UserError(f"{name}_grid is {text!r}; expected comma-separated numbers, such as {example}.") from None


def _format(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _seed_first(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    settings = dict(settings)
    seed = {"seed": settings.pop("random_seed")} if "random_seed" in settings else {}
    return [*seed.items(), *settings.items()]


def check_free(folder: RunFolder, *, several: bool) -> None:
    """Raises UserError for several runs in the folder of a single one, or vice versa."""
    if several and folder.last_step():
        raise UserError(
            f"{folder.path} has a single run: choose another output_dir for several runs, such as "
            f"{next_free(folder.path)}."
        )
    if not several and is_in(folder):
        raise UserError(
            f"{folder.path} has several runs: choose another output_dir, such as {next_free(folder.path)}, or pass "
            f"the flags of {FILE}'s command again."
        )


def is_in(folder: RunFolder) -> bool:
    """Returns whether a folder contains several runs."""
    return files.exists(folder.file(FILE))


def begin(folder: RunFolder, runs: Iterable[str]) -> None:
    """Marks a folder as containing several runs: nothing else may be trained in it."""
    if not is_in(folder):
        folder.write_json(FILE, {"planned": list(runs)})


def check_any(outcomes: Mapping[str, Outcome]) -> None:
    """Raises TrainingError if all runs failed, with the error of the last."""
    errors = [outcome["failed"] for outcome in outcomes.values() if "failed" in outcome]
    if len(errors) == len(outcomes):
        raise TrainingError(f"All {len(outcomes)} runs failed; the last: {errors[-1]}")


def outcome_of(folder: str) -> Outcome:
    """Outcome of a run: {"results": {name: number}, "collapsed": the reason, or None}."""
    run = run_files.read_run(folder)
    return {"results": read_json(os.path.join(folder, "eval_results.json")), "collapsed": run.get("collapsed")}


def summary(runs: Mapping[str, FineTuningFlags], outcomes: Mapping[str, Outcome], criterion: str) -> dict[str, Any]:
    """Contents of sweep.json, from {name: options}, {name: outcome} and the deciding result.

    "runs" in planned order, with their outcomes; "combinations", one for each combination of the grids: for every
    result the mean and the sample standard deviation over seeds (None for one seed), of all that did not fail and, if
    some collapsed, also without these; "best_combination", by the mean over all of its runs, and "best_run", as index
    and name; the first of equals.
    """
    settings = {name: {key: options.values()[key] for key in GRIDS} for name, options in runs.items()}
    kinds = list({tuple(each.values()): each for each in settings.values()}.values())
    combinations = [_combination(kind, [outcomes[name] for name in runs if settings[name] == kind]) for kind in kinds]
    means = [each["scores"].get(criterion, {}).get("mean", -np.inf) for each in combinations]
    worth = {name: outcome["results"][criterion] for name, outcome in outcomes.items() if "results" in outcome}
    return {
        "criterion": criterion,
        "runs": {
            name: {"random_seed": runs[name].training.random_seed, **settings[name], **outcomes[name]} for name in runs
        },
        "combinations": combinations,
        "best_combination": int(np.argmax(means)),
        "best_run": max(worth, key=lambda name: worth[name]),
    }


def _combination(settings: Mapping[str, Any], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    done = [outcome for outcome in outcomes if "results" in outcome]
    sound = [outcome for outcome in done if not outcome["collapsed"]]
    row = {
        **settings,
        "runs": len(done),
        "collapsed": len(done) - len(sound),
        "failed": len(outcomes) - len(done),
        "scores": _statistics(done),
    }
    return row if not sound or len(sound) == len(done) else {**row, "scores_without_collapsed": _statistics(sound)}


def _statistics(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float | None]]:
    scores: dict[str, dict[str, float | None]] = {}
    for name in outcomes[0]["results"] if outcomes else ():
        values = [outcome["results"][name] for outcome in outcomes]
        scores[name] = {"mean": statistics.fmean(values), "sd": statistics.stdev(values) if len(values) > 1 else None}
    return scores


def table(results: Mapping[str, Any], scores: Sequence[str]) -> list[str]:
    """A summary as lines: a row for each combination, with mean ± standard deviation of each of the `scores`."""
    varying = _varying(results["combinations"])
    rows = [[*varying, "runs", *scores]]
    for each in results["combinations"]:
        notes = [f"{each[kind]} {kind}" for kind in ("collapsed", "failed") if each[kind]]
        settings = [_format(each[name]) for name in varying]
        rows.append([*settings, ", ".join([str(each["runs"]), *notes]), *_shown(each["scores"], scores)])
        if "scores_without_collapsed" in each:
            count = each["runs"] - each["collapsed"]
            shown = _shown(each["scores_without_collapsed"], scores)
            rows.append([*[""] * len(varying), f"{count} without the collapsed", *shown])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _varying(combinations: Iterable[Mapping[str, Any]]) -> list[str]:
    return [name for name in GRIDS if len({each[name] for each in combinations}) > 1]


def _shown(statistics: Mapping[str, Any], scores: Sequence[str]) -> list[str]:
    if not statistics:
        return ["-"] * len(scores)
    return [
        f"{statistics[name]['mean']:.4f}"
        + ("" if statistics[name]["sd"] is None else f" ± {statistics[name]['sd']:.4f}")
        for name in scores
    ]


def report_results(
    folder: RunFolder, runs: Mapping[str, FineTuningFlags], outcomes: Mapping[str, Outcome], task: FineTuningTask
) -> None:
    """Prints the results of all runs, writes sweep.json, and copies the best run into the sweep folder."""
    results = summary(runs, outcomes, task.criterion)
    promote_best_run(folder, results["best_run"])
    folder.write_json(FILE, results)
    best_run = results["runs"][results["best_run"]]
    names = [name for name in best_run["results"] if not name.endswith(("loss", *task.objectives))]
    for line in table(results, sorted(names, key=lambda name: name != task.criterion)):
        print(line)
    best = results["combinations"][results["best_combination"]]
    settings = [f"{name}={_format(best[name])}" for name in _varying(results["combinations"])]
    if settings:
        print(f"Best on the development set, by the mean of {task.criterion}: {', '.join(settings)}")
    collapsed = " (it has collapsed)" if best_run["collapsed"] else ""
    print(
        f"Best run: {folder.file(results['best_run'])}, {task.criterion} "
        f"{best_run['results'][task.criterion]:.4f}{collapsed}. Its results are in {folder.path} too."
    )


def promote_best_run(folder: RunFolder, name: str, *, without: Collection[str] = ()) -> None:
    """Copies the results of a run in a sweep's folder up into that folder, so that it can be used like a run folder.

    Weights are copied as model.safetensors, without the optimizer, which makes the folder a checkpoint. without: names
    of files not to copy.
    """
    source = folder.file(name)
    with atomic_files.atomic_write(folder.file(WEIGHTS)) as partial:
        checkpoint_files.write_safetensors(partial, formats.read(source).weights, framework="bert_tf")
    for entry in sorted(set(files.names(source)) - RUN_FILES - set(without)):
        path, target = os.path.join(source, entry), folder.file(entry)
        if entry.endswith(".partial"):  # left by a killed process
            continue
        if files.is_folder(path):
            with atomic_files.atomic_folder(target, overwrite=True) as partial:
                files.copy_folder(path, partial)
        else:
            with atomic_files.atomic_write(target) as partial:
                files.copy(path, partial)

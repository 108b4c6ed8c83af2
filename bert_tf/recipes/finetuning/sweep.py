"""Several runs of one script: seeds and grids of hyper-parameters, a folder for each, and what came of them all.

`options` are the flags of a script that fine-tunes, a frozen dataclass. n examples, C classes. Free of TensorFlow.
"""

import contextlib
import dataclasses
import gc
import itertools
import logging
import os
import shutil
import statistics

import numpy as np

from bert_tf.config import flags
from bert_tf.errors import TrainingError, UserError
from bert_tf.runtime import atomic_files
from bert_tf.runtime.json_files import read_json
from bert_tf.training.run_directory import RunFolder

GRIDS = {"learning_rate": float, "train_batch_size": int, "num_train_epochs": float}
ONE_RUN = {"num_seeds": 1, **{f"{name}_grid": "" for name in GRIDS}}  # the flags of a sweep, where there is none
FILE = "sweep.json"
OF_A_RUN = {"run.json", "checkpoints", "best", "events", "report.html"}  # what the best run keeps for itself
WEIGHTS = "model.safetensors"
NO_CORRELATION = 0.05  # below it numbers that were guessed say nothing of the truth
log = logging.getLogger("bert_tf")


def plan(options):
    """{name: options of a run} of every seed with every combination of the grids; {"": options} if that is one.

    A name has what varies, "seed=12345,learning_rate=3e-05", and is the folder of the run in `output_dir`. Seeds are
    random_seed and the numbers after it. Raises UserError for a grid that is no list of numbers.
    """
    if options.num_seeds < 1:
        raise UserError(f"num_seeds is {options.num_seeds}; expected 1 or more.")
    values = {name: _grid(options, name, kind) for name, kind in GRIDS.items()}
    values["random_seed"] = [options.random_seed + number for number in range(options.num_seeds)]
    runs = {}
    for chosen in itertools.product(*values.values()):
        settings = dict(zip(values, chosen, strict=True))
        varying = {key: value for key, value in settings.items() if len(values[key]) > 1}
        name = ",".join(f"{key}={_written(value)}" for key, value in _in_order_of_names(varying))
        folder = os.path.join(options.output_dir, name) if name else options.output_dir
        runs[name] = dataclasses.replace(options, **ONE_RUN, **settings, output_dir=folder)
    return runs


def _grid(options, name, kind):
    given = getattr(options, f"{name}_grid")
    try:
        values = [kind(value) for value in given.split(",") if value.strip()]
    except ValueError:
        example = "16,32" if kind is int else "5e-5,4e-5,3e-5,2e-5"
        raise UserError(f"{name}_grid is {given!r}; expected numbers with commas, such as {example}.") from None
    return list(dict.fromkeys(values)) or [getattr(options, name)]


def _written(value):
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _in_order_of_names(settings):
    settings = dict(settings)
    seed = {"seed": settings.pop("random_seed")} if "random_seed" in settings else {}
    return [*seed.items(), *settings.items()]


def expect_free(folder, *, several):
    """Raises UserError if a folder holds a single run and is asked for several, or the other way round."""
    if several and folder.last_step():
        raise UserError(f"{folder.path} holds a single run: choose another output_dir for several runs.")
    if not several and is_in(folder):
        raise UserError(
            f"{folder.path} holds several runs: choose another output_dir, or give the flags of {FILE}'s command again."
        )


def is_in(folder):
    """Whether a folder is that of several runs."""
    return os.path.exists(folder.file(FILE))


def begin(folder, runs):
    """Marks a folder as that of several runs: nothing else is to be trained in it."""
    if not is_in(folder):
        folder.write_json(FILE, {"planned": list(runs)})


def is_finished(options):
    """Whether the run of these options came to its end in its folder before."""
    run = read_json(os.path.join(options.output_dir, "run.json")) or {}
    recorded = flags.upgrade(type(options), run.get("flags") or {})
    asked = {**dataclasses.asdict(options), "output_dir": None}
    there = os.path.exists(os.path.join(options.output_dir, "eval_results.json"))
    return bool(run.get("finished")) and there and {**recorded, "output_dir": None} == asked


def go_through(runs, folder, run):
    """Calls `run(options, RunFolder)` for each of {name: options} that is not finished, then frees its memory.

    Returns {name: outcome}, see `outcome_of`; a run whose loss is not a number any more has "failed" instead, and is
    passed over with a warning. Raises TrainingError if that became of all.
    """
    from bert_tf.training.loop import Diverged

    finished = [name for name, options in runs.items() if is_finished(options)]  # as every worker sees it at the start
    outcomes = {}
    for number, (name, options) in enumerate(runs.items(), 1):
        print(f"Run {number} of {len(runs)}: {name}{' is finished' if name in finished else ''}", flush=True)
        try:
            if name not in finished:
                with contextlib.closing(RunFolder(options.output_dir, writes=folder.writes)) as own:
                    run(options, own)
                    own.finish()
            outcomes[name] = outcome_of(options.output_dir)
        except Diverged as error:
            log.warning("%s failed: %s", name, error)
            outcomes[name] = {"failed": str(error)}
        _release()
    if all("failed" in outcome for outcome in outcomes.values()):
        raise TrainingError(f"All {len(runs)} runs failed; the last: {error_of(outcomes)}")
    return outcomes


def error_of(outcomes):
    """What the last run that failed said."""
    return [outcome["failed"] for outcome in outcomes.values() if "failed" in outcome][-1]


def _release():
    """Gives back what a run held: Keras and TensorFlow keep functions and variables that refer to one another."""
    import keras
    from tensorflow.python.framework import ops

    # TensorFlow never forgets a custom gradient, such as that of every sum over replicas, nor the graph it belongs to
    # and the variables of that; once nothing of a run is used any more its gradients are not either.
    registered = getattr(ops.gradient_registry, "_registry", {})
    for name in [name for name in registered if name.startswith("CustomGradient-")]:
        del registered[name]
    keras.backend.clear_session()
    gc.collect()


def outcome_of(folder):
    """What a run left: {"results": {name: number}, "collapsed": the reason, or None}."""
    run = read_json(os.path.join(folder, "run.json")) or {}
    return {"results": read_json(os.path.join(folder, "eval_results.json")), "collapsed": run.get("collapsed")}


def collapse(truth, guesses):
    """Why guesses are worth nothing, in words, or None: classes of which all are one, numbers that do not vary.

    truth, guesses: arrays [n] of classes, [n, C] of 0 and 1, or float [n] of numbers. A truth that does not vary itself
    shows nothing. Fine-tuning on few examples ends so now and then (Mosbach et al. 2020).
    """
    truth, guesses = np.asarray(truth), np.asarray(guesses)
    if len(truth) < 2 or np.all(truth == truth[:1]):
        return None
    if guesses.dtype.kind != "f":
        return f"all {len(guesses)} guesses are the same" if np.all(guesses == guesses[:1]) else None
    if np.std(guesses) <= 1e-4 * np.std(truth):
        return f"all {len(guesses)} numbers that were guessed are the same"
    correlation = np.corrcoef(truth, guesses)[0, 1]
    below = not correlation >= NO_CORRELATION
    return f"what was guessed does not follow the truth, the correlation is {correlation:.2f}" if below else None


def summary(runs, outcomes, criterion):
    """What sweep.json holds, of {name: options}, {name: outcome} and the result that decides.

    "runs" as they were planned, with their outcomes; "combinations", one for each combination of the grids: of every
    result the mean and the sample standard deviation over its seeds (None for one), of all that did not fail and, if
    some collapsed, without these; "best_combination", by the mean over all of its runs, and "best_run", both by number
    or name; the first of equals.
    """
    settings = {name: {key: getattr(options, key) for key in GRIDS} for name, options in runs.items()}
    kinds = list({tuple(each.values()): each for each in settings.values()}.values())
    combinations = [_combination(kind, [outcomes[name] for name in runs if settings[name] == kind]) for kind in kinds]
    means = [each["scores"].get(criterion, {}).get("mean", -np.inf) for each in combinations]
    worth = {name: outcome["results"][criterion] for name, outcome in outcomes.items() if "results" in outcome}
    return {
        "criterion": criterion,
        "runs": {name: {"random_seed": runs[name].random_seed, **settings[name], **outcomes[name]} for name in runs},
        "combinations": combinations,
        "best_combination": int(np.argmax(means)),
        "best_run": max(worth, key=worth.get),
    }


def _combination(settings, outcomes):
    done = [outcome for outcome in outcomes if "results" in outcome]
    sound = [outcome for outcome in done if not outcome["collapsed"]]
    found = {
        **settings,
        "runs": len(done),
        "collapsed": len(done) - len(sound),
        "failed": len(outcomes) - len(done),
        "scores": _statistics(done),
    }
    return found if not sound or len(sound) == len(done) else {**found, "scores_without_collapsed": _statistics(sound)}


def _statistics(outcomes):
    found = {}
    for name in outcomes[0]["results"] if outcomes else ():
        values = [outcome["results"][name] for outcome in outcomes]
        found[name] = {"mean": statistics.fmean(values), "sd": statistics.stdev(values) if len(values) > 1 else None}
    return found


def table(found, scores):
    """A summary as lines: a row for each combination, mean ± standard deviation of each of the `scores`."""
    varying = _varying(found["combinations"])
    rows = [[*varying, "runs", *scores]]
    for each in found["combinations"]:
        notes = [f"{each[kind]} {kind}" for kind in ("collapsed", "failed") if each[kind]]
        settings = [_written(each[name]) for name in varying]
        rows.append([*settings, ", ".join([str(each["runs"]), *notes]), *_shown(each["scores"], scores)])
        if "scores_without_collapsed" in each:
            count = each["runs"] - each["collapsed"]
            shown = _shown(each["scores_without_collapsed"], scores)
            rows.append([*[""] * len(varying), f"{count} without the collapsed", *shown])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _varying(combinations):
    return [name for name in GRIDS if len({each[name] for each in combinations}) > 1]


def _shown(found, scores):
    if not found:
        return ["-"] * len(scores)
    return [
        f"{found[name]['mean']:.4f}" + ("" if found[name]["sd"] is None else f" ± {found[name]['sd']:.4f}")
        for name in scores
    ]


def conclude(folder, runs, outcomes, task):
    """Says what came of all runs, writes sweep.json, and lays what the best one left into the folder of the sweep."""
    found = summary(runs, outcomes, task.criterion)
    take_up(folder, found["best_run"])
    folder.write_json(FILE, found)
    results = found["runs"][found["best_run"]]["results"]
    names = [name for name in results if not name.endswith(("loss", *task.objectives))]
    for line in table(found, sorted(names, key=lambda name: name != task.criterion)):
        print(line)
    best = found["combinations"][found["best_combination"]]
    settings = [f"{name}={_written(best[name])}" for name in _varying(found["combinations"])]
    if settings:
        print(f"Best on the development set, by the mean of {task.criterion}: {', '.join(settings)}")
    collapsed = " (it has collapsed)" if found["runs"][found["best_run"]]["collapsed"] else ""
    print(
        f"Best run: {folder.file(found['best_run'])}, {task.criterion} {results[task.criterion]:.4f}{collapsed}. "
        f"What it left is in {folder.path} too."
    )


def take_up(folder, name):
    """Copies what a run in a sweep's folder left up into that folder, so that it can be used like the run's.

    Weights go there as model.safetensors, without the optimizer: the folder is then a checkpoint that can be read.
    """
    from bert_tf.checkpoints import checkpoint_files, formats

    source = folder.file(name)
    with atomic_files.atomic_write(folder.file(WEIGHTS)) as partial:
        checkpoint_files.write_safetensors(partial, formats.read(source).weights, framework="bert_tf")
    for entry in sorted(set(os.listdir(source)) - OF_A_RUN):
        path, target = os.path.join(source, entry), folder.file(entry)
        if entry.endswith(".partial"):  # left by a process that was killed
            continue
        if os.path.isdir(path):
            with atomic_files.atomic_folder(target, overwrite=True) as partial:
                shutil.copytree(path, partial, dirs_exist_ok=True)
        else:
            with atomic_files.atomic_write(target) as partial:
                shutil.copyfile(path, partial)

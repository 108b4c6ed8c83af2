"""Runs an ablation plan: each pre-training once, each task with several seeds; resumes where it was interrupted."""

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import Any, Self

from bert_tf.config.device_options import DeviceOptions
from bert_tf.config.options import free_flags_of
from bert_tf.config.train_config import Compute
from bert_tf.errors import UserError
from bert_tf.extras.paper import ablation_plan, ablation_results
from bert_tf.extras.paper.ablation_plan import AblationTask, Plan
from bert_tf.extras.paper.ablations import SCORES, Variant
from bert_tf.runtime import atomic_files, files, folder_lock, run_files, stop_signals
from bert_tf.runtime.json_files import read_json
from bert_tf.runtime.progress import progress
from bert_tf.runtime.tensorflow_startup import start_tensorflow
from bert_tf.tasks import catalog

# These flags do not change the results.
FREE_FLAGS = free_flags_of(DeviceOptions) | free_flags_of(Compute) | {"num_workers", "records_dir"}
PATH_FLAGS = ("output_dir", "init_checkpoint", "vocab_file", "bert_config_file")  # determined by folder and tables
POLL_SECONDS = 0.2


def run(plan: Plan, jobs: int = 1) -> None:
    """Starts every unfinished run, `jobs` at a time, each pre-training run before those that need it.

    Raises UserError if a run fails, or before starting any if one was finished with other flags.
    """
    commands = dict(ablation_plan.commands(plan))
    start_tensorflow()
    for task in plan.tasks:
        if task.name not in ablation_plan.COMMANDS:
            catalog.full_name(task.name)  # an unknown one is an error now, not after hours of pre-training
    for folder in (os.path.join(plan.folder, name) for name in commands):
        if files.exists(folder):  # a run may continue after its `ablate` process was killed
            with folder_lock.locked(folder, f"Waiting for another process that is using {folder}"):
                pass
    waiting = [name for name, command in commands.items() if not is_finished(plan.folder, name, command)]
    ablation_plan.write_models(plan)
    with progress("runs", len(commands)) as report, _Jobs(plan.folder, jobs) as running:
        while waiting or running.runs:
            unfinished = {*waiting, *running.runs}
            ready = [name for name in waiting if not unfinished & _inputs(plan.folder, commands[name], commands)]
            if ready and running.free:
                waiting.remove(ready[0])
                running.start(ready[0], commands[ready[0]], shares=1 if len(ready) > 1 or running.runs else jobs)
            else:
                running.wait_for_one()
            report(len(commands) - len(waiting) - len(running.runs), ", ".join(running.runs))
        report(len(commands), "done")


def _inputs(folder: str, command: Iterable[str], names: Iterable[str]) -> set[str]:
    """The runs whose folders a command reads."""
    values = [argument.partition("=")[2] for argument in command if not argument.startswith("--output_dir=")]
    paths = {name: os.path.join(folder, name, "") for name in names}
    return {name for name, path in paths.items() if any(os.path.join(value, "").startswith(path) for value in values)}


class _Jobs:
    """Concurrent runs, each on its own cores if the system supports it.

    On exit, unfinished runs are terminated and save their state.
    runs: {name: (process, its shares of the cores)}. free: unused shares.
    """

    def __init__(self, folder: str, count: int) -> None:
        self.folder = folder
        self.runs: dict[str, tuple[subprocess.Popen, list[list[int]]]] = {}
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.free = [cores[number::count] for number in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with stop_signals.deferred():
            for process, _shares in self.runs.values():
                process.terminate()
            for process, _shares in self.runs.values():
                process.wait()

    def start(self, name: str, command: Sequence[str], shares: int) -> None:
        """Starts a run on some shares of the cores; its output is appended to its log."""
        taken, log = [self.free.pop(0) for _ in range(shares)], self._log(name)
        cores = [core for share in taken for core in share]
        files.make_folder(os.path.dirname(log))
        with open(log, "a", encoding="utf-8") as file:
            print(time.strftime("%Y-%m-%d %H:%M:%S"), shlex.join(command), file=file, flush=True)
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        self.runs[name] = process, taken
        if cores:
            os.sched_setaffinity(process.pid, cores)

    def wait_for_one(self) -> None:
        """Waits until a run ends; raises UserError if it failed."""
        while not (ended := [name for name, (process, _) in self.runs.items() if process.poll() is not None]):
            time.sleep(POLL_SECONDS)
        for name in ended:
            process, taken = self.runs.pop(name)
            self.free.extend(taken)
            if process.returncode:
                raise UserError(
                    f"{name} failed with exit code {process.returncode}: see {self._log(name)}, then run the same "
                    "command again."
                )

    def _log(self, name: str) -> str:
        folder = tempfile.gettempdir() if files.is_remote(self.folder) else self.folder  # because processes write to it
        return os.path.join(folder, "logs", f"{name.replace(os.sep, '-')}.log")


def is_finished(folder: str, name: str, command: Sequence[str]) -> bool:
    """Returns whether a run is complete. A higher number of seeds resumes a sweep; other changes raise UserError."""
    run = run_files.read_run(os.path.join(folder, name))
    if not run.get("finished"):
        return False
    before, now = (_decisive_flags(arguments, name) for arguments in (run["command"], command))
    changed = {flag for flag in before.keys() | now.keys() if before.get(flag) != now.get(flag)}
    is_sweep = files.exists(os.path.join(folder, name, "sweep.json"))
    if others := sorted(changed - {"num_seeds"} if is_sweep else changed):
        changes = (f"{flag} was {before.get(flag, 'not set')}, now {now.get(flag, 'not set')}" for flag in others)
        raise UserError(
            f"{os.path.join(folder, name)} was run with other flags ({'; '.join(changes)}): use the same flags to "
            "resume, or another OUTPUT."
        )
    return not changed


def _decisive_flags(arguments: Iterable[str], name: str) -> dict[str, str]:
    """{flag: value} of a run's command line, without FREE_FLAGS and paths inside the common folder."""
    words = [argument.removeprefix("--") for argument in arguments if argument.startswith("--")]
    flags = dict(word.partition("=")[::2] for word in words)
    top = flags.get("output_dir", "").removesuffix(name)
    internal = {flag for flag in PATH_FLAGS if flags.get(flag, "").startswith(top)}
    return {flag: value for flag, value in flags.items() if flag not in FREE_FLAGS | internal}


def results(plan: Plan) -> dict[str, dict[str, Any]]:
    """Collects the scores of all runs, as written to ablation.json.

    {table: {"title", "rows": list of `_row`, "published": {name: the paper's scores} for variants that are not run}}
    """
    return {
        name: {
            "title": table.title,
            "rows": [_row(plan, variant) for variant in table.variants],
            "published": {variant.name: dict(variant.paper) for variant in table.published},
        }
        for name, table in plan.tables.items()
    }


def _row(plan: Plan, variant: Variant) -> dict[str, Any]:
    """{"name", "curve", "steps", "paper", "pretraining": its scores, "tasks": {title: `score`}}."""
    pretrained = os.path.join(
        plan.folder, "pretraining", ablation_plan.pretraining_folder(variant), "eval_results.json"
    )
    folder = os.path.join(plan.folder, "tasks", ablation_plan.variant_folder(variant))
    return {
        "name": variant.name,
        "curve": variant.curve,
        "steps": int(ablation_plan.number_of_steps(plan) * variant.share) if variant.curve else None,
        "pretraining": {} if variant.share < 1 or variant.fine_tuning else read_json(pretrained) or {},
        "tasks": {
            task.title: score(os.path.join(folder, ablation_plan.folder_name({task.title: ""})), task)
            for task in plan.tasks
        },
        "paper": dict(variant.paper),
    }


def score(folder: str, task: AblationTask) -> dict[str, Any] | None:
    """The score of a run, or of the best combination of a sweep; None if there is none.

    {"score": name of the metric, "mean", "sd" (None for one run), "collapsed", "failed": numbers of runs}; scores are
    fractions of one.
    """
    sweep = read_json(os.path.join(folder, "sweep.json"))
    if sweep:
        best = sweep["combinations"][sweep["best_combination"]]
        name = SCORES.get(task.name.lower(), sweep["criterion"])
        values = {key: value and value / task.perfect_score for key, value in best["scores"][name].items()}
        return {"score": name, **values, "collapsed": best["collapsed"], "failed": best["failed"]}
    run = run_files.read_run(folder)
    name = SCORES.get(task.name.lower(), run.get("criterion"))
    scores = read_json(os.path.join(folder, "eval_results.json")) or {}
    if name not in scores:
        return None
    collapsed = int(bool(run.get("collapsed")))
    return {"score": name, "mean": scores[name] / task.perfect_score, "sd": None, "collapsed": collapsed, "failed": 0}


def write_results(plan: Plan) -> str:
    """Writes ablation.json, ablation.md and ablation.png; returns the tables as text."""
    tables = results(plan)
    text = ablation_results.markdown(tables)
    atomic_files.write_json(os.path.join(plan.folder, "ablation.json"), tables)
    atomic_files.write_lines(os.path.join(plan.folder, "ablation.md"), [text])
    picture = ablation_results.plot(tables, os.path.join(plan.folder, "ablation.png"))
    return f"{text}\nThe results are in {plan.folder}; {picture}"

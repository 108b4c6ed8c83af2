"""Runs ablations: every pre-training once, every task on it with several seeds; goes on where it was stopped."""

import os
import shlex
import subprocess
import time

from bert_tf.config.device_flags import DEVICE_FLAGS
from bert_tf.errors import UserError
from bert_tf.recipes.ablation import ablation_plan
from bert_tf.recipes.ablation.ablations import SCORES
from bert_tf.runtime import atomic_files
from bert_tf.runtime.json_files import read_json
from bert_tf.runtime.progress import progress
from bert_tf.runtime.tensorflow_startup import start_tensorflow
from bert_tf.tasks import catalog

FREE_FLAGS = DEVICE_FLAGS | {"num_workers", "records_dir"}  # what numbers do not depend on
OWN_PATHS = ("output_dir", "init_checkpoint", "vocab_file", "bert_config_file")  # as the folder and order of tables say
PAUSE = 0.2  # seconds between two looks at what is running


def run(plan, jobs=1):
    """Does every run that is not finished, `jobs` of them at once, a pre-training before what needs it.

    Raises UserError where one fails, and before any if one was finished with other flags.
    """
    wanted = dict(ablation_plan.commands(plan))
    _expect_tasks(plan)
    waiting = [name for name, command in wanted.items() if not is_finished(plan.folder, name, command)]
    ablation_plan.write_models(plan)
    with progress("runs", len(wanted)) as report, _Jobs(plan.folder, jobs) as working:
        while waiting or working.runs:
            needed = {*waiting, *working.runs}
            ready = [name for name in waiting if not needed & _needs(plan.folder, wanted[name], wanted)]
            if ready and working.free:
                waiting.remove(ready[0])
                working.start(ready[0], wanted[ready[0]], shares=1 if len(ready) > 1 or working.runs else jobs)
            else:
                working.wait_for_one()
            report(len(wanted) - len(waiting) - len(working.runs), ", ".join(working.runs))
        report(len(wanted), "done")


def _expect_tasks(plan):
    """Raises UserError for a task that there is not, before hours of pre-training."""
    start_tensorflow()
    for task in plan.tasks:
        if task.name not in ablation_plan.COMMANDS:
            catalog.to_fine_tune(task.name)


def _needs(folder, command, names):
    """Those of the names whose folder a command reads."""
    values = [argument.partition("=")[2] for argument in command if not argument.startswith("--output_dir=")]
    paths = {name: os.path.join(folder, name, "") for name in names}
    return {name for name, path in paths.items() if any(os.path.join(value, "").startswith(path) for value in values)}


class _Jobs:
    """Runs that go on at once, each on cores of its own where the system lets one say so.

    Those that go on when it ends are told to stop, and save what they have learned.
    runs: {name: (process, its shares of the cores)}; free: the shares that nobody has.
    """

    def __init__(self, folder, count):
        self.folder, self.runs = folder, {}
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.free = [cores[number::count] for number in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process, _ in self.runs.values():
            process.terminate()
        for process, _ in self.runs.values():
            process.wait()

    def start(self, name, command, shares):
        taken, log = [self.free.pop(0) for _ in range(shares)], self._log(name)
        cores = [core for share in taken for core in share]
        os.makedirs(os.path.dirname(log), exist_ok=True)
        with open(log, "a", encoding="utf-8") as file:
            print(time.strftime("%Y-%m-%d %H:%M:%S"), shlex.join(command), file=file, flush=True)
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        self.runs[name] = process, taken
        if cores:
            os.sched_setaffinity(process.pid, cores)

    def wait_for_one(self):
        """Waits until a run ends; UserError if it failed."""
        while not (ended := [name for name, (process, _) in self.runs.items() if process.poll() is not None]):
            time.sleep(PAUSE)
        for name in ended:
            process, taken = self.runs.pop(name)
            self.free.extend(taken)
            if process.returncode:
                told = f"{name} ended with code {process.returncode}: see {self._log(name)}"
                raise UserError(f"{told}, then start the same command again.")

    def _log(self, name):
        return os.path.join(self.folder, "logs", f"{name.replace(os.sep, '-')}.log")


def is_finished(folder, name, command):
    """Whether a run came to its end; UserError if with other flags. More seeds for several of them go on."""
    run = read_json(os.path.join(folder, name, "run.json")) or {}
    if not run.get("finished"):
        return False
    there, now = (_deciding(arguments, name) for arguments in (run["command"], command))
    changed = {flag for flag in there.keys() | now.keys() if there.get(flag) != now.get(flag)}
    is_sweep = os.path.exists(os.path.join(folder, name, "sweep.json"))
    if others := sorted(changed - {"num_seeds"} if is_sweep else changed):
        pairs = ((flag, there.get(flag, "not given"), now.get(flag, "not given")) for flag in others)
        said = "; ".join(f"{flag}: {before} there, {after} now" for flag, before, after in pairs)
        raise UserError(
            f"{os.path.join(folder, name)} was run with other flags ({said}): give the same to go on, or choose "
            "another OUTPUT."
        )
    return not changed


def _deciding(arguments, name):
    """{flag: value} of the arguments of a run, without FREE_FLAGS and what lies in the folder of all runs."""
    flags = [argument.removeprefix("--") for argument in arguments if argument.startswith("--")]
    found = dict(flag.partition("=")[::2] for flag in flags)
    top = found.get("output_dir", "").removesuffix(name)
    own = {flag for flag in OWN_PATHS if found.get(flag, "").startswith(top)}
    return {flag: value for flag, value in found.items() if flag not in FREE_FLAGS | own}


def results(plan):
    """{table: {"title", "rows": of `_row`, "published"}}, the last {name: the paper's scores} of what is not run."""
    return {
        name: {
            "title": table.title,
            "rows": [_row(plan, variant) for variant in table.variants],
            "published": {variant.name: dict(variant.paper) for variant in table.published},
        }
        for name, table in plan.tables.items()
    }


def _row(plan, variant):
    """{"name", "curve", "steps", "paper", "pretraining": its scores, "tasks": {title: `score`}}; "steps" of a curve."""
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
            task.title: score(os.path.join(folder, ablation_plan.named({task.title: ""})), task) for task in plan.tasks
        },
        "paper": dict(variant.paper),
    }


def score(folder, task):
    """What a run, or the best combination of several, reached on a task; None: it is not there.

    {"score": its name, "mean", "sd" (None for one run), "collapsed", "failed": how many runs}, as shares of one.
    """
    sweep = read_json(os.path.join(folder, "sweep.json"))
    if sweep:
        best = sweep["combinations"][sweep["best_combination"]]
        name = SCORES.get(task.name.lower(), sweep["criterion"])
        shares = {key: value if value is None else value / task.whole for key, value in best["scores"][name].items()}
        return {"score": name, **shares, "collapsed": best["collapsed"], "failed": best["failed"]}
    run = read_json(os.path.join(folder, "run.json")) or {}
    name = SCORES.get(task.name.lower(), run.get("criterion"))
    found = read_json(os.path.join(folder, "eval_results.json")) or {}
    if name not in found:
        return None
    collapsed = int(bool(run.get("collapsed")))
    return {"score": name, "mean": found[name] / task.whole, "sd": None, "collapsed": collapsed, "failed": 0}


def conclude(plan):
    """Writes ablation.json, ablation.md and ablation.png; returns the tables as text."""
    from bert_tf.recipes.ablation import ablation_picture, ablation_tables

    found = results(plan)
    text = ablation_tables.markdown(found)
    atomic_files.write_json(os.path.join(plan.folder, "ablation.json"), found)
    atomic_files.write_lines(os.path.join(plan.folder, "ablation.md"), [text])
    picture = ablation_picture.plot(found, os.path.join(plan.folder, "ablation.png"))
    return f"{text}\nAll of it is in {plan.folder}; {picture}"

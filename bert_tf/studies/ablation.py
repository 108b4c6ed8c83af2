"""Runs ablations: every pre-training once, every task on it with several seeds; goes on where it was stopped."""

import os
import shlex
import subprocess
import time

from bert_tf import whole_files
from bert_tf.device_flags import DEVICE_FLAGS
from bert_tf.errors import UserError
from bert_tf.progress import progress
from bert_tf.run_folder import read_json
from bert_tf.studies import ablation_plan

FREE_FLAGS = DEVICE_FLAGS | {"num_workers"}  # what numbers do not depend on
OWN_PATHS = ("output_dir", "init_checkpoint", "vocab_file", "bert_config_file")  # as the folder and order of tables say
KEPT_ON_THE_WAY = ("save_checkpoints_steps", "keep_checkpoint_max")  # only the table of steps needs them


def run(plan):
    """Does every run that is not finished, one after the other.

    Raises UserError where one fails, and before any if one was finished with other flags.
    """
    wanted = ablation_plan.commands(plan)
    finished = {name for name, command in wanted if is_finished(plan.folder, name, command)}
    ablation_plan.write_models(plan)
    with progress("runs", len(wanted)) as report:
        for number, (name, command) in enumerate(wanted):
            report(number, name)
            if name not in finished:
                _run(plan.folder, name, command)
        report(len(wanted), "done")


def is_finished(folder, name, command):
    """Whether a run came to its end; UserError if with other flags. More seeds for several of them go on."""
    run = read_json(os.path.join(folder, name, "run.json")) or {}
    if not run.get("finished"):
        return False
    there, now = (_deciding(arguments, name) for arguments in (run["command"][1:], command[3:]))
    changed = {flag for flag in there.keys() | now.keys() if there.get(flag) != now.get(flag)}
    changed -= set(KEPT_ON_THE_WAY) - now.keys()
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
    found = dict(argument.removeprefix("--").partition("=")[::2] for argument in arguments)
    top = found.get("output_dir", "").removesuffix(name)
    own = {flag for flag in OWN_PATHS if found.get(flag, "").startswith(top)}
    return {flag: value for flag, value in found.items() if flag not in FREE_FLAGS | own}


def _run(folder, name, command):
    log = os.path.join(folder, "logs", f"{name.replace(os.sep, '-')}.log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "a", encoding="utf-8") as file:
        print(time.strftime("%Y-%m-%d %H:%M:%S"), shlex.join(command), file=file, flush=True)
        with subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.terminate()  # it saves what it has learned
                process.wait()
                raise
    if code:
        raise UserError(f"{name} ended with code {code}: see {log}, then start the same command again.")


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
    """{"name", "steps", "paper", "pretraining": its scores, "tasks": {title: `score`}}."""
    pretrained = os.path.join(
        plan.folder, "pretraining", ablation_plan.pretraining_folder(variant), "eval_results.json"
    )
    folder = os.path.join(plan.folder, "tasks", ablation_plan.variant_folder(variant))
    return {
        "name": variant.name,
        "steps": int(ablation_plan.number_of_steps(plan) * variant.share) if variant.share < 1 else None,
        "pretraining": {} if variant.share < 1 or variant.fine_tuning else read_json(pretrained) or {},
        "tasks": {
            task.title: score(os.path.join(folder, ablation_plan.named({task.title: ""})), task.whole)
            for task in plan.tasks
        },
        "paper": dict(variant.paper),
    }


def score(folder, whole):
    """What decides of a run or of several: {"score": its name, "mean", "sd" (None for one run)}; None: not there.

    Both are shares of `whole`.
    """
    sweep = read_json(os.path.join(folder, "sweep.json"))
    if sweep:
        found = sweep["combinations"][0]["scores"][sweep["criterion"]]
        shares = {name: value if value is None else value / whole for name, value in found.items()}
        return {"score": sweep["criterion"], **shares}
    criterion = (read_json(os.path.join(folder, "run.json")) or {}).get("criterion")
    found = read_json(os.path.join(folder, "eval_results.json")) or {}
    return {"score": criterion, "mean": found[criterion] / whole, "sd": None} if criterion in found else None


def conclude(plan):
    """Writes ablation.json, ablation.md and ablation.png; returns the tables as text."""
    from bert_tf.studies import ablation_tables

    found = results(plan)
    text = ablation_tables.markdown(found)
    whole_files.write_json(os.path.join(plan.folder, "ablation.json"), found)
    whole_files.write_lines(os.path.join(plan.folder, "ablation.md"), [text])
    picture = ablation_tables.plot(found, os.path.join(plan.folder, "ablation.png"))
    return f"{text}\nAll of it is in {plan.folder}; {picture}"

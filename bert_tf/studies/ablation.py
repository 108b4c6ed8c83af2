"""Runs ablations: every pre-training once, every task on it with several seeds; goes on where it was stopped."""

import dataclasses
import os
import re
import shlex
import subprocess
import sys
import time

from bert_tf import saved_steps, whole_files
from bert_tf.device_flags import DEVICE_FLAGS
from bert_tf.errors import UserError
from bert_tf.progress import progress
from bert_tf.run_folder import read_json

SCRIPTS = {"squad": "run_squad"}  # every other task is one of run_classifier
FREE_FLAGS = DEVICE_FLAGS | {"num_workers"}  # what numbers do not depend on
OWN_PATHS = ("output_dir", "init_checkpoint", "vocab_file", "bert_config_file")  # as the folder and order of tables say
KEPT_ON_THE_WAY = ("save_checkpoints_steps", "keep_checkpoint_max")  # only the table of steps needs them
ENGLISH = re.compile(r"[^a-z0-9]+")


@dataclasses.dataclass(frozen=True)
class AskedTask:
    """A task as the command line names it: its name, and flags of its own. `title` tells those of one name apart."""

    name: str
    flags: dict
    title: str

    @classmethod
    def of(cls, text, others=()):
        name, _, rest = text.strip().partition(" ")
        if not name or name.startswith("-"):
            raise UserError(f"--task is {text!r}; expected the name of a task and then its flags.")
        same = sum(other.name == name for other in others)
        return cls(name, flags_of(rest, f"--task {name}"), f"{name} {same + 1}" if same else name)

    @property
    def script(self):
        return SCRIPTS.get(self.name, "run_classifier")

    @property
    def given(self):
        """Its flags, with its name where the script must be told."""
        return self.flags if self.script == "run_squad" else {"task_name": self.name, **self.flags}

    @property
    def whole(self):
        """What its scores say where everything is right: SQuAD's are per cent."""
        return 100 if self.script == "run_squad" else 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run. tables: {name: Table}, see bert_tf.studies.ablations; flags are {name: value}."""

    folder: str
    tables: dict
    input_file: str
    pretraining: dict
    fine_tuning: dict
    tasks: list
    num_seeds: int

    @property
    def variants(self):
        """Every variant of every table once."""
        found = {}
        for table in self.tables.values():
            found |= {variant_folder(variant): variant for variant in table.variants}
        return list(found.values())


def flags_of(text, where):
    """ "--a=1 --b" -> {"a": "1", "b": "true"}; UserError for anything else."""
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{where} is {text!r}, which cannot be taken apart: {error}.") from None
    found = {}
    for part in parts:
        name, has_value, value = part.removeprefix("--").partition("=")
        if not part.startswith("--") or not name:
            raise UserError(f"{where} has {part!r}; expected flags such as --num_train_steps=1000.")
        found[name] = value if has_value else "true"
    return found


def named(flags):
    """A name for a folder from {flag: value}."""
    return ENGLISH.sub("_", "_".join(f"{name} {value}" for name, value in sorted(flags.items())).lower()).strip("_")


def pretraining_folder(variant):
    """The folder of its pre-training, which variants share that are pre-trained alike."""
    shape = {"model": "-".join(map(str, variant.model))} if variant.model else {}
    return named({**variant.pretraining, **shape}) or "bert"


def variant_folder(variant):
    """The folder of what is fine-tuned on it."""
    share = {} if variant.share == 1 else {"share": variant.share}
    return "__".join(filter(None, (pretraining_folder(variant), named({**variant.fine_tuning, **share}))))


def commands(plan):
    """[(name, command line)] of all runs in their order; a pre-training comes before what needs it."""
    made = {}
    first = os.path.join(plan.folder, "pretraining", pretraining_folder(plan.variants[0]))
    for variant in plan.variants:
        name = os.path.join("pretraining", pretraining_folder(variant))
        learned = {"vocab_file": os.path.join(first, "vocab.txt")} if made else {}
        flags = {**learned, **_of_pretraining(plan, variant)}
        made.setdefault(name, _command("run_pretraining", plan, name, flags))
        for task in plan.tasks:
            name = os.path.join("tasks", variant_folder(variant), named({task.title: ""}))
            given = {**plan.fine_tuning, **task.given, **variant.fine_tuning, **_start(plan, variant)}
            made[name] = _command(task.script, plan, name, {"num_seeds": plan.num_seeds, "do_export": False, **given})
    return list(made.items())


def _of_pretraining(plan, variant):
    flags = {"input_file": plan.input_file, "do_export": False, **plan.pretraining, **variant.pretraining}
    if variant.model:
        flags["bert_config_file"] = os.path.join(plan.folder, "models", f"{'-'.join(map(str, variant.model))}.json")
    if any(each.share < 1 for each in plan.variants):
        steps = _steps(plan)
        flags |= {"save_checkpoints_steps": max(1, int(steps * min(each.share for each in plan.variants)))}
        flags |= {"keep_checkpoint_max": 0}
    return flags


def _start(plan, variant):
    folder = os.path.join(plan.folder, "pretraining", pretraining_folder(variant))
    if variant.share == 1:
        return {"init_checkpoint": folder}
    return {
        "init_checkpoint": saved_steps.path_of(os.path.join(folder, "checkpoints"), int(_steps(plan) * variant.share))
    }


def _steps(plan):
    """The steps of pre-training, which must be known where weights are taken on the way."""
    try:
        steps = int(plan.pretraining["num_train_steps"])
    except (KeyError, ValueError):
        raise UserError("Give --pretraining with --num_train_steps=NUMBER for the table of steps.") from None
    if steps % 8:
        raise UserError(f"num_train_steps is {steps}; expected a multiple of 8 for the table of steps.")
    return steps


def _command(script, plan, name, flags):
    flags = {**flags, "output_dir": os.path.join(plan.folder, name)}
    return [sys.executable, "-m", script, *(f"--{flag}={_text(value)}" for flag, value in flags.items())]


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def run(plan):
    """Does every run that is not finished, one after the other.

    Raises UserError where one fails, and before any if one was finished with other flags.
    """
    wanted = commands(plan)
    finished = {name for name, command in wanted if is_finished(plan.folder, name, command)}
    _write_models(plan)
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


def _write_models(plan):
    """A bert_config.json for each size that is asked for; the vocabulary decides vocab_size."""
    from bert_tf.config import BertConfig

    for variant in plan.variants:
        if not variant.model:
            continue
        layers, width, heads = variant.model
        config = BertConfig(
            vocab_size=_number(plan, "vocab_size", int, 30522),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            **{
                name: _number(plan, "dropout_prob", float, 0.1)
                for name in ("hidden_dropout_prob", "attention_probs_dropout_prob")
            },
        )
        path = os.path.join(plan.folder, "models", f"{'-'.join(map(str, variant.model))}.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        config.write(path)


def _number(plan, flag, kind, default):
    try:
        return kind(plan.pretraining.get(flag, default))
    except ValueError:
        raise UserError(f"--pretraining has --{flag}={plan.pretraining[flag]}; expected a number.") from None


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
    pretrained = os.path.join(plan.folder, "pretraining", pretraining_folder(variant), "eval_results.json")
    folder = os.path.join(plan.folder, "tasks", variant_folder(variant))
    return {
        "name": variant.name,
        "steps": int(_steps(plan) * variant.share) if variant.share < 1 else None,
        "pretraining": {} if variant.share < 1 or variant.fine_tuning else read_json(pretrained) or {},
        "tasks": {task.title: score(os.path.join(folder, named({task.title: ""})), task.whole) for task in plan.tasks},
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

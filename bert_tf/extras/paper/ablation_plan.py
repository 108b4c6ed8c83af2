"""The plan of an ablation: its tasks, and the command lines of all runs in order."""

import dataclasses
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bert_tf.config.bert_config import BertConfig
from bert_tf.errors import UserError, leave_out
from bert_tf.extras.paper import ablations
from bert_tf.extras.paper.ablations import Table, Variant
from bert_tf.runtime import files
from bert_tf.training import checkpoint_paths

COMMANDS = {"squad": "squad"}  # {task: command of `bert-tf`}; other tasks use `bert-tf finetune`
RESERVED = ("output_dir", "records_dir", "init_checkpoint", "task_name", "num_seeds")  # flags set by the plan
Number = TypeVar("Number", int, float)
NOT_ALPHANUMERIC = re.compile(r"[^a-z0-9]+")


@dataclasses.dataclass(frozen=True)
class AblationTask:
    """A task to fine-tune on. flags: its own {flag: value}. title: unique among tasks with the same name."""

    name: str
    flags: Mapping[str, str]
    title: str

    @property
    def command(self) -> str:
        """The command of `bert-tf` that fine-tunes on the task."""
        return COMMANDS.get(self.name, "finetune")

    @property
    def all_flags(self) -> Mapping[str, str]:
        """Its flags, with task_name if the command needs it."""
        return self.flags if self.command == "squad" else {"task_name": self.name, **self.flags}

    @property
    def perfect_score(self) -> int:
        """The highest score: SQuAD's are percentages, others fractions of one."""
        return 100 if self.command == "squad" else 1


def parse_task(text: str, previous: Sequence[AblationTask] = ()) -> AblationTask:
    """Parses "NAME --flag=value ..."; its title gets a number if `previous` has tasks with the same name."""
    name, _, rest = text.strip().partition(" ")
    if not name or name.startswith("-"):
        raise UserError(f"--task is {text!r}; expected the name of a task, followed by its flags.")
    name = name.lower() if name.lower() in COMMANDS else name
    same = sum(other.name.lower() == name.lower() for other in previous)
    return AblationTask(name, parse_flags(rest, f"--task {name}"), f"{name} {same + 1}" if same else name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of the runs. pretraining, fine_tuning: {flag: value} for all such runs."""

    folder: str
    tables: Mapping[str, Table]
    input_file: str
    pretraining: Mapping[str, str]
    fine_tuning: Mapping[str, str]
    tasks: Sequence[AblationTask]
    num_seeds: int

    def __post_init__(self) -> None:
        """Raises UserError for a flag that contradicts the name of a row."""
        given = {"--pretraining": self.pretraining, "--fine_tuning": self.fine_tuning}
        given |= {f"--task {task.title}": task.flags for task in self.tasks}
        for where, flags in given.items():
            kind = "pretraining" if where == "--pretraining" else "fine_tuning"
            varied = {flag for variant in self.variants for flag in getattr(variant, kind)}
            if conflicts := sorted(flags.keys() & {*varied, *RESERVED}):
                raise leave_out(f"{where} has --{conflicts[0]}, which is set for each run")

    @property
    def variants(self) -> list[Variant]:
        """The variants of all tables, without duplicates."""
        variants: dict[str, Variant] = {}
        for table in self.tables.values():
            variants |= {variant_folder(variant): variant for variant in table.variants}
        return list(variants.values())


def parse_flags(text: str, where: str) -> dict[str, str]:
    """Parses "--a=1 --b" into {"a": "1", "b": "true"}; raises UserError, naming `where`, for anything else."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{where} is {text!r}, which cannot be parsed: {error}.") from None
    flags = {}
    for word in words:
        name, has_value, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise UserError(f"{where} has {word!r}; expected flags such as --num_train_steps=1000.")
        flags[name] = value if has_value else "true"
    return flags


def folder_name(flags: Mapping[str, object]) -> str:
    """A folder name made of {flag: value}."""
    text = "_".join(f"{name} {value}" for name, value in sorted(flags.items()))
    return NOT_ALPHANUMERIC.sub("_", text.lower()).strip("_")


def pretraining_folder(variant: Variant) -> str:
    """The folder of a variant's pre-training, shared by all variants with the same pre-training."""
    shape = {"model": _shape_name(variant)} if variant.model else {}
    return folder_name({**variant.pretraining, **shape}) or "bert"


def variant_folder(variant: Variant) -> str:
    """The folder of a variant's fine-tuning runs."""
    share = {} if variant.share == 1 else {"share": variant.share}
    return "__".join(filter(None, (pretraining_folder(variant), folder_name({**variant.fine_tuning, **share}))))


def commands(plan: Plan) -> list[tuple[str, list[str]]]:
    """Lists (name, command line) of all runs in order; a pre-training run precedes those that need it."""
    runs: dict[str, list[str]] = {}
    first = os.path.join(plan.folder, "pretraining", pretraining_folder(plan.variants[0]))
    for variant in plan.variants:
        name = os.path.join("pretraining", pretraining_folder(variant))
        vocabulary = {"vocab_file": os.path.join(first, "vocab.txt")} if runs else {}
        flags = {**vocabulary, **_pretraining_flags(plan, variant)}
        runs.setdefault(name, _command("pretrain", plan, name, flags))
        for task in plan.tasks:
            name = os.path.join("tasks", variant_folder(variant), folder_name({task.title: ""}))
            flags = {"num_seeds": plan.num_seeds, "do_export": False, **plan.fine_tuning, **task.all_flags}
            flags |= {**variant.fine_tuning, "init_checkpoint": _init_checkpoint(plan, variant)}
            runs[name] = _command(task.command, plan, name, flags)
    return list(runs.items())


def _pretraining_flags(plan: Plan, variant: Variant) -> dict[str, object]:
    flags = {"input_file": plan.input_file, "do_export": False, **plan.pretraining, **variant.pretraining}
    flags["records_dir"] = os.path.join(plan.folder, "records")
    if variant.model:
        flags["bert_config_file"] = os.path.join(plan.folder, "models", f"{_shape_name(variant)}.json")
    return flags | _checkpoint_flags(plan, variant)


def _checkpoint_flags(plan: Plan, variant: Variant) -> dict[str, object]:
    """Flags that keep the checkpoints for the table of steps, even if it is not requested yet."""
    is_in_table = variant.pretraining_key in {each.pretraining_key for each in ablations.steps()}
    if not is_in_table or not (any(each.share < 1 for each in plan.variants) or _steps_are_divisible(plan)):
        return {}
    return {"save_checkpoints_steps": int(number_of_steps(plan) * min(ablations.STEP_SHARES)), "keep_checkpoint_max": 0}


def _steps_are_divisible(plan: Plan) -> bool:
    steps = plan.pretraining.get("num_train_steps", "")
    return steps.isdecimal() and int(steps) > 0 and not int(steps) % 8


def _init_checkpoint(plan: Plan, variant: Variant) -> str:
    folder = os.path.join(plan.folder, "pretraining", pretraining_folder(variant))
    if variant.share == 1:
        return folder
    step = int(number_of_steps(plan) * variant.share)
    return checkpoint_paths.path_of(os.path.join(folder, "checkpoints"), step)


def number_of_steps(plan: Plan) -> int:
    """The number of pre-training steps; UserError if it is not divisible for the table of steps."""
    try:
        steps = int(plan.pretraining["num_train_steps"])
    except (KeyError, ValueError):
        raise UserError("Pass --pretraining with --num_train_steps=NUMBER for the table of steps.") from None
    if not _steps_are_divisible(plan):
        raise UserError(f"num_train_steps is {steps}; expected a multiple of 8 for the table of steps.")
    return steps


def _command(command: str, plan: Plan, name: str, flags: Mapping[str, object]) -> list[str]:
    flags = {**flags, "output_dir": os.path.join(plan.folder, name)}
    return [sys.executable, "-m", "bert_tf", command, *(f"--{flag}={_text(value)}" for flag, value in flags.items())]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shape_name(variant: Variant) -> str:
    return "-".join(map(str, variant.model or ()))


def write_models(plan: Plan) -> None:
    """Writes a bert_config.json for each model size; the vocabulary overrides vocab_size."""
    for variant in plan.variants:
        if not variant.model:
            continue
        layers, width, heads = variant.model
        dropout = _number(plan, "dropout_prob", float, 0.1)
        config = BertConfig(
            vocab_size=_number(plan, "vocab_size", int, 30522),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
        path = os.path.join(plan.folder, "models", f"{_shape_name(variant)}.json")
        files.make_folder(os.path.dirname(path))
        config.write(path)


def _number(plan: Plan, flag: str, kind: Callable[[str], Number], default: Number) -> Number:
    try:
        return kind(plan.pretraining[flag]) if flag in plan.pretraining else default
    except ValueError:
        raise UserError(f"--pretraining has --{flag}={plan.pretraining[flag]}; expected a number.") from None

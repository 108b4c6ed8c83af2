"""What ablations are made of: tasks as they were asked for, and the command lines of all runs in their order."""

import dataclasses
import os
import re
import shlex
import sys

from bert_tf.errors import UserError
from bert_tf.recipes.ablation import ablations
from bert_tf.training import checkpoint_paths

COMMANDS = {"squad": "squad"}  # of `bert-tf`, for tasks that `bert-tf finetune` does not have
OWN = ("output_dir", "records_dir", "init_checkpoint", "task_name", "num_seeds")  # flags that nobody else can give
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
        name = name.lower() if name.lower() in COMMANDS else name
        same = sum(other.name.lower() == name.lower() for other in others)
        return cls(name, flags_of(rest, f"--task {name}"), f"{name} {same + 1}" if same else name)

    @property
    def command(self) -> str:
        """The command of `bert-tf` that fine-tunes on the task."""
        return COMMANDS.get(self.name, "finetune")

    @property
    def given(self):
        """Its flags, with its name where the script must be told."""
        return self.flags if self.command == "squad" else {"task_name": self.name, **self.flags}

    @property
    def whole(self):
        """What its scores say where everything is right: SQuAD's are per cent."""
        return 100 if self.command == "squad" else 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run. tables: {name: Table}, see bert_tf.recipes.ablation.ablations; flags are {name: value}."""

    folder: str
    tables: dict
    input_file: str
    pretraining: dict
    fine_tuning: dict
    tasks: list
    num_seeds: int

    def __post_init__(self):
        """Raises UserError for a flag that would make a row something else than what it is called."""
        given = {"--pretraining": self.pretraining, "--fine_tuning": self.fine_tuning}
        given |= {f"--task {task.title}": task.flags for task in self.tasks}
        for where, flags in given.items():
            kind = "pretraining" if where == "--pretraining" else "fine_tuning"
            varied = {flag for variant in self.variants for flag in getattr(variant, kind)}
            if taken := sorted(flags.keys() & {*varied, *OWN}):
                raise UserError(f"{where} has --{taken[0]}, which is set for each run: leave it out.")

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
        made.setdefault(name, _command("pretrain", plan, name, flags))
        for task in plan.tasks:
            name = os.path.join("tasks", variant_folder(variant), named({task.title: ""}))
            given = {**plan.fine_tuning, **task.given, **variant.fine_tuning, **_start(plan, variant)}
            made[name] = _command(task.command, plan, name, {"num_seeds": plan.num_seeds, "do_export": False, **given})
    return list(made.items())


def _of_pretraining(plan, variant):
    flags = {"input_file": plan.input_file, "do_export": False, **plan.pretraining, **variant.pretraining}
    flags["records_dir"] = os.path.join(plan.folder, "records")
    if variant.model:
        flags["bert_config_file"] = os.path.join(plan.folder, "models", f"{'-'.join(map(str, variant.model))}.json")
    return flags | _kept_on_the_way(plan, variant)


def _kept_on_the_way(plan, variant):
    """Flags that keep the weights which the table of steps takes, also where it is not asked for yet."""
    takes_part = variant.trained in {each.trained for each in ablations.steps()}
    if not takes_part or not (any(each.share < 1 for each in plan.variants) or _is_of_eighths(plan)):
        return {}
    return {"save_checkpoints_steps": int(number_of_steps(plan) * min(ablations.STEPS)), "keep_checkpoint_max": 0}


def _is_of_eighths(plan):
    steps = plan.pretraining.get("num_train_steps", "")
    return steps.isdecimal() and int(steps) > 0 and not int(steps) % 8


def _start(plan, variant):
    folder = os.path.join(plan.folder, "pretraining", pretraining_folder(variant))
    if variant.share == 1:
        return {"init_checkpoint": folder}
    return {
        "init_checkpoint": checkpoint_paths.path_of(
            os.path.join(folder, "checkpoints"), int(number_of_steps(plan) * variant.share)
        )
    }


def number_of_steps(plan):
    """The steps of pre-training, which must be known where weights are taken on the way."""
    try:
        steps = int(plan.pretraining["num_train_steps"])
    except (KeyError, ValueError):
        raise UserError("Give --pretraining with --num_train_steps=NUMBER for the table of steps.") from None
    if not _is_of_eighths(plan):
        raise UserError(f"num_train_steps is {steps}; expected a multiple of 8 for the table of steps.")
    return steps


def _command(command, plan, name, flags):
    flags = {**flags, "output_dir": os.path.join(plan.folder, name)}
    return [sys.executable, "-m", "bert_tf", command, *(f"--{flag}={_text(value)}" for flag, value in flags.items())]


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_models(plan):
    """A bert_config.json for each size that is asked for; the vocabulary decides vocab_size."""
    from bert_tf.config.bert_config import BertConfig

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

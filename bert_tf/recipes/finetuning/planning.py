"""The plan of fine-tuning: every decision, made before anything is written.

Defaults that depend on the data come first, because they determine the run folder. Then checkpoint and data are read,
and the rest is decided: the length of training, the runs, and whether memory suffices.
"""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError, count_text
from bert_tf.export import opening
from bert_tf.recipes import advice, initialization, teacher
from bert_tf.recipes.finetuning import baselines, few_examples, few_shot, folds, preprocessed, starting_point, sweep
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.reports import plan_text
from bert_tf.runtime import machine, terminal
from bert_tf.runtime.lazy import tf
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training import step_memory
from bert_tf.training.run_directory import RunFolder, recorded_flags

ONE, REFIT, FOLDS, SWEEP = "one", "refit", "folds", "sweep"  # series of runs


class Setup(NamedTuple):
    """Values shared by all runs of a plan: checkpoint, task with its tokenizer, devices, and the teacher if any.

    data: {"splits": a summary of each, "notes": warnings from reading them}, for the report.
    rows: {"max_seq_length": value} if the model has fewer positions than the default.
    """

    start: Checkpoint
    task: FineTuningTask
    strategy: "tf.distribute.Strategy"
    teacher: Checkpoint | None = None
    data: Mapping[str, list[str]] = types.MappingProxyType({})
    rows: Mapping[str, Any] = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A plan.

    Attributes:
        options: the flags with all decided values and the reasons.
        series: ONE; REFIT: one run, then one on all rows; FOLDS: a run per fold, then one on all rows; SWEEP: a run for
            each seed and each combination of the grids.
        runs: {name: flags of a run}, {"": options} for a single one.
        setup: checkpoint, task and devices.
    """

    options: FineTuningFlags
    series: str
    runs: Mapping[str, FineTuningFlags]
    setup: Setup

    def show(self) -> None:
        """Prints the plan."""
        plan_text.show(self.lines(), self.options)

    def lines(self) -> dict[str, str]:
        """{topic: sentence}; values that differ between runs are joined by "or"."""
        options, (start, task, *_), config = self.options, self.setup, self.setup.start.config
        lines = {"checkpoint": plan_text.model(config, options.model.init_checkpoint), "run folder": options.output_dir}
        if not options.do_train:
            return {**lines, "training": "none"}
        trainings = {name: train_config(each, start, task) for name, each in self.runs.items()}
        batches = plan_text.joined(f"{each.train_batch_size} rows" for each in trainings.values())
        lines["runs"] = _runs_text(self.series, list(self.runs))
        lines["rows"] = f"at most {options.max_seq_length} tokens, {batches} per step"
        lines["training"] = plan_text.joined(_training_text(self.runs[name], each) for name, each in trainings.items())
        lines["rates"] = plan_text.joined(map(plan_text.rates, trainings.values()))
        lines["memory"] = step_memory.described(starting_point.step_of(options, start, task), options.devices)
        if options.start != baselines.FROZEN and not task.split("train").stored:
            mean = task.split("train").statistics()["mean_length"] * task.head.rows_per_example
            seen = mean * sum(each.num_train_steps * each.train_batch_size for each in trainings.values())
            seen *= 2 if self.series == REFIT else 1 + 1 / len(self.runs) if self.series == FOLDS else 1
            gpus = machine.gpus_used(options.devices.device)
            lines["time"] = plan_text.time(advice.training_seconds(config, seen, gpus=gpus))
        return lines


def _training_text(options: FineTuningFlags, training: TrainConfig) -> str:
    """The length of a run's training."""
    examples = count_text(training.num_train_examples, "example")
    steps = f"{count_text(training.num_train_steps, 'step')}, {count_text(options.training.num_train_epochs, 'epoch')}"
    if options.start == baselines.FROZEN:
        return f"the head is fitted to the embeddings of {examples}"
    if options.start == few_shot.CONTRASTIVE:
        return f"{steps} on pairs of {examples}, then the head is fitted to their embeddings"
    text = f"{steps} of {examples}"
    if training.eval_steps:
        text += f"; evaluation every {count_text(training.eval_steps, 'step')}"
    if training.early_stop_patience:
        text += f", ends after {training.early_stop_patience} without improvement"
    return text


def _runs_text(series: str, names: list[str]) -> str:
    if series == ONE:
        return "one"
    if series == REFIT:
        return "one with rows held out, then one on all rows"
    then = ", then one on all rows" if series == FOLDS else ""
    return f"{len(names)} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}){then}"


def with_chosen_defaults(options: FineTuningFlags) -> FineTuningFlags:
    """The flags with defaults that depend on the data; a resumed run keeps its own."""
    computed, reasons = options.computed_defaults()
    options = options.with_defaults(computed, reasons)
    recorded = recorded_flags(options.output_dir, computed)
    return options.with_defaults(recorded, f"the run in {options.output_dir} was started with it")


def make(options: FineTuningFlags, folder: RunFolder) -> Plan:
    """The plan for flags from `with_chosen_defaults`; reads checkpoint and data, and writes nothing.

    Raises UserError for every error that can be detected now.
    """
    # Flags and files, before anything is downloaded
    series, runs = _runs(options)
    for each in runs.values():
        each.check()
    options = runs.get("", options)
    if options.do_train:
        sweep.check_free(folder, several=len(runs) > 1)
    options = starting_point.use_trained_model(options, folder)
    starting_point.check_files(options)

    # Checkpoint, devices and data
    is_of_folds = series == FOLDS
    setup = _read(next(iter(runs.values())) if is_of_folds else options, folder, several=len(runs) > 1)
    start, task = setup.start, setup.task

    # Length of training and runs
    options = options.with_defaults(setup.rows, f"the model has {start.config.max_position_embeddings} positions")
    options = options.with_defaults(few_examples.defaults(options, task), few_examples.REASONS)
    options = starting_point.with_selection(options, task)
    series, runs = _runs(options)
    starting_point.check_memory(max(runs.values(), key=lambda each: each.training.train_batch_size), start, task)
    return Plan(options=options, series=series, runs=runs, setup=setup)


def _runs(options: FineTuningFlags) -> tuple[str, dict[str, FineTuningFlags]]:
    """The series requested by flags, and {name: flags of a run}."""
    if folds.number_of(options):
        return FOLDS, folds.plan(options)
    runs = sweep.plan(options)
    is_refitted = folds.is_refitted(options)
    return (SWEEP if len(runs) > 1 else REFIT if is_refitted else ONE), runs


def _read(options: FineTuningFlags, folder: RunFolder, *, several: bool) -> Setup:
    """Reads checkpoint and data; errors in them are raised here, before anything is written."""
    # Checkpoint and devices
    opening.names_of(options.export_engines)  # raises for an engine that cannot be written
    start = initialization.resolve(options)
    rows = initialization.fitting_rows(options, start.config, may_be_shorter=True)
    options = options.with_defaults(rows, "")
    strategy = initialization.start_devices(options.devices)
    if options.export_attention:
        start.config.check_attention()

    # Task, its tokenizer and its data
    preprocessed.check_vocabulary(options, start)
    setup = read_data(options, Setup(start, None, strategy), folder, several=several)  # type: ignore[arg-type]
    start, task = setup.start, setup.task
    if options.write_examples:
        task.head.training.row_specs(task.tokenizer)  # raises for a task without preprocessed examples

    # Head and teacher
    start = starting_point.match_head(options, start, task)
    taught_by = teacher.read(options, start)
    if taught_by is not None:
        named = options.replace(init_checkpoint=options.distillation.teacher, do_train=False)
        taught_by = starting_point.match_head(named, taught_by, task)
    return setup._replace(start=start, teacher=taught_by, rows=rows)


def read_data(options: FineTuningFlags, setup: Setup, folder: RunFolder, *, several: bool) -> Setup:
    """A setup with the task named by the flags; prints a summary of its splits."""
    with terminal.kept_warnings() as notes:
        start, task = _create_task(options, setup.start, folder)
        starting_point.check_evaluation(starting_point.with_selection(options, task), task, several=several)
        splits = {name: task.split(name) for name in starting_point.requested_splits(options, task)}
    lines = [line for name, split in splits.items() for line in split.describe(name)]
    print(*lines, sep="\n", flush=True)
    return setup._replace(start=start, task=task, data={"splits": lines, "notes": list(dict.fromkeys(notes))})


def _create_task(options: FineTuningFlags, start: Checkpoint, folder: RunFolder) -> tuple[Checkpoint, FineTuningTask]:
    """The task named by the flags, and the starting point with the size of its vocabulary, which may be learned."""
    task = starting_point.create_task(options, start, folder)
    start = starting_point.with_pooling(options, start, task)
    task = preprocessed.attach(task, options, start).replaced(groups_by_length=options.group_by_length)
    config = dataclasses.replace(start.config, vocab_size=task.tokenizer.size)
    return dataclasses.replace(start, config=config), task


def number_of_steps(options: FineTuningFlags, task: FineTuningTask) -> int:
    """The number of training steps: examples / batch size * epochs; 0 without training.

    For questions, windows are counted, so that an epoch covers each of them once; run_squad.py in google-research/bert
    counts questions, and stops slightly before the end of its epochs.
    """
    if not options.do_train:
        return 0
    if not task.split("train").is_known:
        raise UserError("The training data contains no labels: pass a table with a label column.")
    training = options.training
    return max(1, int(task.split("train").count / training.train_batch_size * training.num_train_epochs))


def train_config(options: FineTuningFlags, start: Checkpoint, task: FineTuningTask) -> TrainConfig:
    """The settings of a run's training."""
    steps, examples = number_of_steps(options, task), task.split("train").count if options.do_train else 0
    return options.train_config(examples, max(1, steps), new_head_rate=starting_point.new_head_rate(start, task))

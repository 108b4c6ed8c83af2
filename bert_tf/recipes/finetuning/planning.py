"""The plan of fine-tuning: every decision, made before anything is written.

Defaults that depend on the data come first, because they determine the run folder. Then checkpoint and data are read,
and the rest is decided: the runs, the length of their training, and whether memory suffices.
"""

import dataclasses
import functools
import os
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError, count_text
from bert_tf.export import opening
from bert_tf.recipes import advice, initialization, teacher
from bert_tf.recipes.finetuning import baselines, few_examples, few_shot, folds, preprocessed, starting_point, sweep
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.reports import plan_text
from bert_tf.runtime import files, head_records, machine, run_files, terminal
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training import step_memory
from bert_tf.training.run_directory import RunFolder, next_free, recorded_flags

ONE, REFIT, FOLDS, SWEEP = "one", "refit", "folds", "sweep"  # series of runs
RESULTS = ("do_eval", "do_predict", "do_export")  # flags that request something else than training


class Setup(NamedTuple):
    """The starting point of a run: checkpoint, task with its tokenizer, and the teacher if any.

    data: {"splits": a summary of each, "notes": warnings from reading them}, for the report; and "rows", fingerprints.
    """

    start: Checkpoint
    task: FineTuningTask
    teacher: Checkpoint | None = None
    data: Mapping[str, list[str]] = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunPlan:
    """The plan of a run. Values that follow from flags and data are decided when first asked for.

    Attributes:
        name: its folder in output_dir; "" for a run in output_dir itself.
        options: its flags.
        setup: checkpoint and task.
        is_compared: whether it is a seed, a combination of a grid, or a fold, which may fail and is not repeated.
        reads: whether it reads its own part of the data when its turn comes; until then `setup` has that of another
            run, and `training` is an estimate.
        after: the folders of the runs whose best number of epochs it is trained for, if it is trained on all rows.
    """

    name: str
    options: FineTuningFlags
    setup: Setup
    is_compared: bool = False
    reads: bool = False
    after: Sequence[str] = ()

    @property
    def is_refit(self) -> bool:
        """Whether it replaces the model of a single run, whose thresholds it takes."""
        return len(self.after) == 1

    @property
    def is_finished(self) -> bool:
        """Whether this run has finished in its folder, on the same data and with all the requested results."""
        run = run_files.read_run(self.options.output_dir)
        return (
            bool(run.get("finished"))
            and _are_recorded(self.options, run, but=("num_train_epochs", "start") if self.after else ())
            and (self.reads or not self.changed_splits)
            and self.has_results
        )

    @property
    def has_results(self) -> bool:
        """Whether its folder contains the scores, predictions and the export that its flags request."""
        options, task = self.options, self.setup.task
        names = files.names(options.output_dir)
        return (
            (not self.is_scored or "eval_results.json" in names)
            and (not (options.do_predict and task.test_splits) or any(each.startswith("predictions") for each in names))
            and (not options.do_export or files.exists(os.path.join(options.output_dir, "export", "saved_model.pb")))
        )

    @functools.cached_property
    def changed_splits(self) -> set[str]:
        """The splits whose rows differ from those in its folder, if there are any."""
        recorded = (run_files.read_run(self.options.output_dir).get("data") or {}).get("rows")
        return {line.partition(":")[0] for line in {*self.setup.data["rows"]} - {*recorded}} if recorded else set()

    @functools.cached_property
    def splits(self) -> list[str]:
        """The names of the splits that it reads."""
        return starting_point.requested_splits(self.options, self.setup.task)

    @functools.cached_property
    def is_scored(self) -> bool:
        """Whether it has a development set with labels, and a criterion."""
        task, options = self.setup.task, self.options
        splits = task.eval_splits.values()
        return bool(options.do_eval and task.criterion and splits and all(task.split(each).is_known for each in splits))

    @functools.cached_property
    def has_new_head(self) -> bool:
        """Whether the task has a head that the checkpoint lacks."""
        head, weights = self.setup.task.head, self.setup.start.weights
        name = f"{head.weights}/kernel"
        return bool(head.size) and (name not in weights or weights[name].shape[-1] != head.size)

    @functools.cached_property
    def training(self) -> TrainConfig:
        """The settings of its training; UserError without labels to train on."""
        start, task, examples = self.setup.start, self.setup.task, 0
        if self.options.do_train:
            if not task.split("train").is_known:
                raise UserError("The training data contains no labels: pass a table with a label column.")
            examples = task.split("train").count
        rate = task.head.training.new_head_rate if start.weights and self.has_new_head else 0.0
        return self.options.train_config(examples, new_head_rate=rate)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A plan.

    Attributes:
        options: the flags with all decided values and the reasons.
        series: ONE; REFIT: one run, then one on all rows; FOLDS: a run per fold, then one on all rows; SWEEP: a run for
            each seed and each combination of the grids.
        runs: the runs in turn.
        step: the largest training step of the runs.
    """

    options: FineTuningFlags
    series: str
    runs: Sequence[RunPlan]
    step: step_memory.Step

    @property
    def compared(self) -> dict[str, FineTuningFlags]:
        """{name: flags} of the compared runs."""
        return {each.name: each.options for each in self.runs if each.is_compared}

    @property
    def is_finished(self) -> bool:
        """Whether all runs have finished, and the folder contains the model, the requested results and the report."""
        options = self.options
        folder = RunFolder(options.output_dir, is_chief=False)
        run = run_files.read_run(folder.path)
        as_a_whole = dataclasses.replace(self.runs[0], options=options)
        return (
            options.do_train
            and not options.write_examples
            and bool(run.get("finished"))
            and (not self.compared or _are_recorded(options, run))
            and starting_point.is_trained(folder)
            and files.exists(folder.file("report.html"))
            and as_a_whole.has_results
            and all(each.is_finished for each in self.runs)
        )

    def lines(self) -> dict[str, str]:
        """{topic: sentence}; values that differ between runs are joined by "or"."""
        options, (start, task, *_) = self.options, self.runs[0].setup
        lines = {
            "checkpoint": plan_text.model(start.config, options.model.init_checkpoint),
            "run folder": options.output_dir,
        }
        if not options.do_train:
            return {**lines, "training": "none"}
        first = [each for each in self.runs if not each.after]
        batches = plan_text.joined(f"{each.training.train_batch_size} rows" for each in first)
        lines["runs"] = _runs_text(self.series, list(self.compared))
        lines["rows"] = f"at most {options.max_seq_length} tokens, {batches} per step"
        lines["training"] = plan_text.joined(map(_training_text, first))
        lines["rates"] = plan_text.joined(plan_text.rates(each.training) for each in first)
        lines["memory"] = step_memory.described(self.step, options.devices)
        if options.start != baselines.FROZEN and not task.split("train").stored:
            lengths, is_cut = task.split("train").statistics(), not getattr(task.head, "windows", None)
            mean = (1 - lengths["padding_in_full_rows"]) * options.max_seq_length if is_cut else lengths["mean_length"]
            examples = sum(each.training.num_train_steps * each.training.train_batch_size for each in self.runs)
            rows, gpus = task.head.rows_per_example * examples, machine.gpus_used(options.devices.device)
            lines["time"] = plan_text.time(advice.training_seconds(start.config, mean * rows, gpus=gpus))
        return lines


def _are_recorded(options: FineTuningFlags, run: Mapping[str, Any], *, but: Sequence[str] = ()) -> bool:
    """Whether run.json has these flags, except those in `but`, the folder, and results that are not requested now."""
    requested, recorded = options.values(), run.get("flags") or {}
    ignored = {"output_dir", *but, *(name for name in RESULTS if not requested[name])}
    return all(recorded.get(name) == value for name, value in requested.items() if name not in ignored)


def _training_text(run: RunPlan) -> str:
    """The length of a run's training."""
    options, training = run.options, run.training
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
    series, variants = _series(options)
    is_several = len(variants) > 1
    for changes in variants.values():
        options.replace(**changes).check()
    options = options.replace(**variants.get("", {}))
    if options.do_train:
        sweep.check_free(folder, several=is_several)
    options = starting_point.use_trained_model(options, folder)
    starting_point.check_files(options)
    opening.names_of(options.export_engines)  # raises for an engine that cannot be written

    # Checkpoint and devices
    start = initialization.resolve(options)
    fitting = initialization.fitting_rows(options, start.config, may_be_shorter=True)
    options = options.with_defaults(fitting, f"the model has {start.config.max_position_embeddings} positions")
    initialization.start_for_files(options)
    if options.export_attention:
        start.config.check_attention()

    # Task, its tokenizer and its data
    preprocessed.check_vocabulary(options, start)
    first = _changed(options, *next(iter(variants.items()))) if series == FOLDS else options
    start, task, data = _read_data(first, start, folder, several=is_several)
    if options.write_examples:
        task.head.training.row_specs(task.tokenizer)  # raises for a task without preprocessed examples

    # Head and teacher
    start = starting_point.match_head(options, start, task)
    taught_by = teacher.read(options, start)
    if taught_by is not None:
        named = options.replace(init_checkpoint=options.distillation.teacher, do_train=False)
        taught_by = starting_point.match_head(named, taught_by, task)

    # Length of training and runs
    setup = Setup(start, task, taught_by, data)
    is_scored = RunPlan(name="", options=options, setup=setup).is_scored
    options = options.with_defaults(few_examples.defaults(options, task, is_scored=is_scored), few_examples.REASONS)
    if not is_scored and "keep_best" not in options.given:
        options = options.decided({"keep_best": False}, "there are no scores to select a checkpoint by")
    runs = _in_turn(series, variants, options, setup)
    largest = max(runs, key=lambda each: each.training.train_batch_size)
    step = starting_point.checked_step(largest.options, start, task)
    trained = {"train", *(task.eval_splits.values() if series in (REFIT, FOLDS) else ())}  # later with held-out rows
    if options.do_train and runs[0].changed_splits & trained and RunFolder(runs[0].options.output_dir).last_step():
        raise UserError(
            f"The training data has changed since the run in {folder.path} began: pass another output_dir, such as "
            f"{next_free(folder.path)}, or the same data to continue it."
        )
    return Plan(options=options, series=series, runs=runs, step=step)


def _series(options: FineTuningFlags) -> tuple[str, dict[str, dict[str, Any]]]:
    """The series requested by flags, and {name: the flags that a run changes}, without a run on all rows."""
    if variants := folds.variants(options):
        return FOLDS, variants
    variants, is_refitted = sweep.variants(options), folds.is_refitted(options)
    return (SWEEP if len(variants) > 1 else REFIT if is_refitted else ONE), variants


def _in_turn(
    series: str, variants: Mapping[str, Mapping[str, Any]], options: FineTuningFlags, setup: Setup
) -> list[RunPlan]:
    """The plans of the runs of a series; options: the decided flags, which `variants` change."""
    runs: list[RunPlan] = []
    for name, changes in variants.items():
        changed = _changed(options, name, {**changes, **(folds.ONLY_SCORED if series == REFIT else {})})
        reads = bool(runs) and series == FOLDS  # the first has read its data
        runs.append(RunPlan(name=name, options=changed, setup=setup, is_compared=bool(name), reads=reads))
    if series in (REFIT, FOLDS):
        if series == REFIT:  # one vocabulary for both models
            learned = setup.start.vocabulary or setup.task.tokenizer.vocabulary
            setup = setup._replace(start=dataclasses.replace(setup.start, vocabulary=learned))
        last = RunPlan(
            name=folds.ALL_ROWS,
            options=_changed(options, folds.ALL_ROWS, folds.ON_ALL_ROWS),
            setup=setup,
            reads=True,
            after=[each.options.output_dir for each in runs],
        )
        runs.append(last)
    return runs


def _changed(options: FineTuningFlags, name: str, changes: Mapping[str, Any]) -> FineTuningFlags:
    """The flags of a run, in its folder. options: those of the series. name, changes: see `RunPlan` and `_series`."""
    folder = os.path.join(options.output_dir, name) if name else options.output_dir
    return options.replace(**changes, output_dir=folder)


def when_begun(run: RunPlan, folder: RunFolder) -> RunPlan:
    """The plan of a run whose turn it is: with its own data, and the number of epochs that was best in those before.

    folder: the folder of the run.
    """
    if not run.reads:
        return run
    options = run.options
    if run.after:
        options = folds.with_best_length(options, run.after)
        epochs = folds.epochs_of(options)
        print(f"All rows, {count_text(epochs, 'epoch')}" if epochs else "All rows", flush=True)
    if run.is_refit and folder.is_chief and files.exists(path := os.path.join(run.after[0], head_records.TASK)):
        files.make_folder(folder.path)
        files.copy(path, folder.file(head_records.TASK))
    start, task, data = _read_data(options, run.setup.start, folder)
    setup = run.setup._replace(start=start, task=task, data=data)
    return dataclasses.replace(run, options=options, setup=setup)


def _read_data(
    options: FineTuningFlags, start: Checkpoint, folder: RunFolder, *, several: bool = False
) -> tuple[Checkpoint, FineTuningTask, dict[str, list[str]]]:
    """The task named by the flags, with its data; prints a summary of it. See `Setup`.

    Also returns the checkpoint with the size of the vocabulary, which may be learned from the data.
    """
    with terminal.kept_warnings() as notes:
        task = starting_point.create_task(options, start, folder)
        start = starting_point.with_pooling(options, start, task)
        task = preprocessed.attach(task, options, start).replaced(groups_by_length=options.group_by_length)
        config = dataclasses.replace(start.config, vocab_size=task.tokenizer.size)
        start = dataclasses.replace(start, config=config)
        starting_point.check_evaluation(options, task, several=several)
        splits = {name: task.split(name) for name in starting_point.requested_splits(options, task)}
    lines = [line for name, split in splits.items() for line in split.describe(name)]
    print(*lines, sep="\n", flush=True)
    rows = [f"{name}: {split.fingerprint}" for name, split in splits.items()]
    return start, task, {"splits": lines, "notes": list(dict.fromkeys(notes)), "rows": rows}

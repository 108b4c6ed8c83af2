"""A run with its training and evaluation data, as specified by its flags."""

import os
from collections.abc import Mapping
from typing import Any

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.options import check_recorded, fields_of
from bert_tf.errors import UserError
from bert_tf.export.trained_model import TrainedModel, check_run
from bert_tf.heads.base.servable import TextTask
from bert_tf.heads.base.table_options import LabelOptions
from bert_tf.heads.masked_lm import lm_kind, task_name
from bert_tf.model import weights
from bert_tf.recipes import finetune, finetune_squad, pretrain
from bert_tf.recipes.finetuning import results, starting_point
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.recipes.finetuning.folds import ALL_ROWS
from bert_tf.recipes.pretraining.pretraining_flags import Flags as PretrainingFlags
from bert_tf.reports import wording
from bert_tf.runtime import plugins, run_files
from bert_tf.tasks import catalog
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import tokenizer_of
from bert_tf.training.run_directory import PRETRAINING, RunFolder

THRESHOLD_FLAG = "null_score_diff_threshold"  # earlier versions recorded its default if it was not specified
MAX_CALIBRATION = 128  # texts for calibrating 8-bit engines


def read_pretraining(path: str) -> tuple[PretrainingFlags, Checkpoint]:
    """The flags and weights of a pre-training run; UserError if it has no checkpoint."""
    return _options(check_run(path), path), formats.read(path)


def read(path: str, *, with_attention: bool = False) -> TrainedModel:
    """The model of a run with the task named by its flags; starts TensorFlow. Data is read when needed.

    with_attention: its export includes attention, even if the run's does not. Raises UserError if there is no
    checkpoint.
    """
    run = check_run(path)
    options, start = _options(run, path), formats.read(path)
    about: dict[str, Any] = {"attention": True} if with_attention or options.export_attention else {}
    task: TextTask
    if run.get("name") == PRETRAINING:
        task = _pretraining_task(options, start)
    else:
        folder = RunFolder(path, is_chief=False)
        options = _for_trained_model(options, folder, start)
        task = results.load_calibration(starting_point.create_task(options, start, folder), folder)
        start = starting_point.match_head(options, start, task)
        about = results.about_export(options, task) | about
    return TrainedModel(task, create_model(task, start), task.tokenizer, about)


def calibration_texts(path: str) -> list[tuple[str, ...]]:
    """Some of the texts used to fine-tune a run; UserError if there are none."""
    task = read(path).task
    if not isinstance(task, FineTuningTask):
        raise UserError("8-bit engines need the texts that a model was fine-tuned on: remove them from engine.")
    return [example.texts for example in task.head.training.demo_examples(task.split("train"), MAX_CALIBRATION)]


def training_of(path: str) -> tuple[int, str]:
    """The step of the weights in a run folder, 0 if unknown, and how they were trained, in words."""
    run = run_files.read_run(path)
    if run.get("refit"):
        return RunFolder(os.path.join(path, ALL_ROWS), is_chief=False).last_step(), wording.rows_of_refit(run)
    last = RunFolder(path, is_chief=False).last_step()  # 0 for the best of several runs
    step = int((run.get("selection") or {}).get("taken_step", last)) if last else 0
    return step, f"after step {step:,}" if step else ""


def _options(run: Mapping[str, Any], path: str) -> Any:
    """The flags of a run, as its script's dataclass; flags it did not record have their defaults.

    Raises UserError if one names a module in another package that is not trusted, see `runtime.plugins`.
    """
    name = str(run.get("name"))
    script = finetune_squad if name.startswith("squad/") else pretrain if name == PRETRAINING else finetune
    fields = fields_of(script.Flags)
    recorded = dict(run["flags"])
    for field_name, field in fields.items():
        if field.metadata["names_code"]:
            plugins.check_trusted(str(recorded.get(field_name, "")), os.path.join(path, "run.json"))
    check_recorded(script.Flags, recorded, os.path.join(path, run_files.RUN))
    if not any(f"{argument}=".startswith(f"--{THRESHOLD_FLAG}=") for argument in run.get("command") or ()):
        recorded.pop(THRESHOLD_FLAG, None)
    return script.Flags().replace(**{name: value for name, value in recorded.items() if name in fields})


def _pretraining_task(options: PretrainingFlags, start: Checkpoint) -> TextTask:
    task: TextTask = catalog.get(task_name(start.config, start.weights))(
        {"wanted": {"max_seq_length": options.max_seq_length}},  # the records themselves are not needed
        tokenizer_of(start),
        options.masking,
        next_sentence_weight=options.next_sentence_weight,
        lm_kind=lm_kind(start.config),
    )
    return task


def _for_trained_model(options: FineTuningFlags, folder: RunFolder, start: Checkpoint) -> FineTuningFlags:
    """The flags without training, with the folder's model and labels."""
    changes: dict[str, Any] = {"do_train": False, "init_checkpoint": folder.path}
    if isinstance(options, LabelOptions):
        changes["labels"] = list(start.labels or ()) or ""
    return options.replace(**changes)


def create_model(task: TextTask, start: Checkpoint) -> Any:
    """The model of a task, with the weights of a checkpoint, all of matching shapes."""
    model = task.create_model(start.config)
    weights.check_same_shapes(weights.assign(model, start.weights))
    return model

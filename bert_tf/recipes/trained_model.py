"""A trained model: the folder of a run, or a checkpoint with a head, as a task and a model; its export written anew.

The task's data are not read: labels and vocabulary lie in the folder.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.options import check_recorded, fields_of
from bert_tf.errors import UserError
from bert_tf.export import opening
from bert_tf.heads.base.table_options import LabelOptions
from bert_tf.heads.masked_lm.mask_filling import lm_kind, task_name
from bert_tf.model import weights
from bert_tf.recipes import finetune, finetune_squad, pretrain
from bert_tf.recipes.finetuning import results, starting_point
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.recipes.finetuning.folds import ALL_ROWS
from bert_tf.recipes.pretraining.pretraining_flags import Flags as PretrainingFlags
from bert_tf.reports import wording
from bert_tf.runtime import files, plugins, run_files
from bert_tf.runtime.tensorflow_startup import ensure_started
from bert_tf.tasks import catalog
from bert_tf.tasks.task import FineTuningTask
from bert_tf.tasks.text_task import TextTask
from bert_tf.training.run_directory import PRETRAINING, RunFolder

THRESHOLD_FLAG = "null_score_diff_threshold"  # earlier versions recorded its default where it was not given
# What an export is compared with the live model on; the first has a gap for what fills gaps.
SENTENCES = (
    "The [MASK] is on the table.",
    "Ann Smith moved from Paris to New York in 1998, and works at Acme Inc. there.",
    "",
)


MAX_CALIBRATION = 128  # texts from which engines learn the ranges of numbers in 8 bits


class TrainedModel(NamedTuple):
    """A model of a run or a checkpoint, in float32, its task, and what an export of it says of itself."""

    task: Any  # a Servable
    model: Any
    tokenizer: Any  # a Tokenizer
    about: dict[str, Any]


def is_run(path: str) -> bool:
    """Returns whether a folder is that of a run, not only of a checkpoint."""
    return files.is_file(os.path.join(path, "run.json"))


def read_pretraining(path: str) -> tuple[PretrainingFlags, Checkpoint]:
    """The flags and the weights of a run of pre-training; UserError if it has no checkpoint."""
    return _options(check_run(path), path), formats.read(path)


def read(
    path: str,
    texts: int | None = None,
    *,
    with_attention: bool = False,
    splits: Mapping[str, Callable[[], Any]] | None = None,
) -> TrainedModel:
    """The model in the folder of a run, or of a checkpoint with a head; starts TensorFlow.

    texts, splits: of a checkpoint, see `live_model.task_of`. with_attention: its export has attention, even if that of
    the run does not. Raises UserError if there is no checkpoint, no head, or no vocabulary.
    """
    if splits is None and is_run(path):
        return _of_run(path, check_run(path), with_attention)
    ensure_started()
    from bert_tf.export import live_model

    return _of_checkpoint(path, live_model.load(path), texts, with_attention, splits)


def of_loaded(path: str, loaded: Checkpoint, texts: int | None = None, *, with_attention: bool = False) -> TrainedModel:
    """As `read`, for a loaded model, whose weights may have changed since."""
    if is_run(path) and not loaded.new_head:
        return _of_run(path, check_run(path), with_attention)._replace(model=loaded.model)
    from bert_tf.export import live_model

    live_model.check_answers(path, loaded)
    return _of_checkpoint(path, loaded, texts, with_attention)


def _of_checkpoint(
    path: str,
    loaded: Checkpoint,
    texts: int | None,
    with_attention: bool,
    splits: Mapping[str, Callable[[], Any]] | None = None,
) -> TrainedModel:
    from bert_tf.export import live_model

    if with_attention:
        loaded.config.check_attention()
    about = {**live_model.about_of(path, loaded), "attention": with_attention}
    task = live_model.task_of(path, loaded, texts, splits)
    return TrainedModel(task, loaded.model, loaded.require_tokenizer(path), about)


def _of_run(path: str, run: Mapping[str, Any], with_attention: bool) -> TrainedModel:
    options = _options(run, path)
    start = formats.read(path)
    with_attention = with_attention or options.export_attention
    if with_attention:
        start.config.check_attention()
    about: dict[str, Any] = {"attention": True} if with_attention else {}
    task: TextTask
    if run.get("name") == PRETRAINING:
        task, about = _pretraining_task(options, start), {"attention": with_attention}
    else:
        folder = RunFolder(path, is_chief=False)
        options = _for_trained_model(options, folder, start)
        task = _fine_tuned_task(options, folder, start)
        start = starting_point.match_head(options, start, task)
        about |= results.about_export(options, task)
    return TrainedModel(task, create_model(task, start), task.tokenizer, about)


def training_of(path: str) -> tuple[int, str]:
    """The step of the weights in a run folder, 0 if not known, and how they were trained, in words."""
    run = run_files.read_run(path)
    if run.get("refit"):
        return RunFolder(os.path.join(path, ALL_ROWS), is_chief=False).last_step(), wording.rows_of_refit(run)
    last = RunFolder(path, is_chief=False).last_step()  # 0: the best of several runs
    step = int((run.get("selection") or {}).get("taken_step", last)) if last else 0
    return step, f"after step {step:,}" if step else ""


def read_task(path: str) -> FineTuningTask:
    """The task of a fine-tuned run without its data, with the calibration that the run left."""
    options = _options(check_run(path), path)
    folder, start = RunFolder(path, is_chief=False), formats.read(path)
    return _fine_tuned_task(_for_trained_model(options, folder, start), folder, start)


def _fine_tuned_task(options: FineTuningFlags, folder: RunFolder, start: Checkpoint) -> FineTuningTask:
    return results.load_calibration(starting_point.create_task(options, start, folder), folder)


def check_run(path: str) -> dict[str, Any]:
    """run.json of a folder with a checkpoint; UserError if there is none."""
    run = run_files.read_run(path)
    if not isinstance(run.get("flags"), dict):
        raise UserError(f"{path} is not the folder of a run: it holds no readable run.json.")
    ensure_started()
    from bert_tf.checkpoints.formats import native

    if not native.recognizes(path):
        raise UserError(f"The run in {path} has no checkpoint with its bert_config.json: train first.")
    return run


def _options(run: Mapping[str, Any], path: str) -> Any:
    """The flags of a run, as the dataclass of its script; those that it did not record have their defaults.

    Raises UserError if one names a module from outside that is not trusted, see `runtime.plugins`.
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
        start.tokenizer,
        options.masking,
        next_sentence_weight=options.next_sentence_weight,
        lm_kind=lm_kind(start.config),
    )
    return task


def _for_trained_model(options: FineTuningFlags, folder: RunFolder, start: Checkpoint) -> FineTuningFlags:
    """The flags without training, with the model of the folder and its labels."""
    changes: dict[str, Any] = {"do_train": False, "init_checkpoint": folder.path}
    if isinstance(options, LabelOptions):
        changes["labels"] = list(start.labels or ()) or ""
    return options.replace(**changes)


def create_model(task: TextTask, start: Checkpoint) -> Any:
    """The model of a task, with the weights of a checkpoint, all of which fit."""
    model = task.create_model(start.config)
    weights.check_same_shapes(weights.assign(model, start.weights))
    return model


def write_export(
    trained: TrainedModel, target: str, precision: str = "float32", engine_names: Sequence[str] = ()
) -> None:
    """Writes the export of a model as its script would have, and compares it with the model on SENTENCES.

    engine_names: see `saved_model.export`.
    """
    from bert_tf.export.saved_model import export

    task, model, tokenizer, about = trained
    calibration: list[Any] = []
    if opening.are_calibrated(engine_names):
        if not isinstance(task, FineTuningTask):
            raise UserError("8 bits need the texts that a model was fine-tuned on: leave them out of engine.")
        calibration = [example.texts for example in task.head.demo_examples(task.split("train"), MAX_CALIBRATION)]
    export(
        task,
        model,
        tokenizer,
        target,
        examples=examples_of(task.signatures(model, tokenizer)),
        about=about,
        precision=precision,
        with_attention=about.get("attention", False),
        engine_names=engine_names,
        calibration=calibration,
    )


def examples_of(signatures: Mapping[str, Any]) -> dict[str, dict[str, list]]:
    """{signature: {input: values}} made of SENTENCES, for signatures that take strings of one or two dimensions."""
    return {
        name: {spec.name: _values(spec.shape) for spec in function.input_signature}
        for name, function in signatures.items()
    }


def _values(shape: Any) -> list:
    if shape.rank == 1:
        return list(SENTENCES)
    count = len(SENTENCES)
    if shape[1] is not None:
        return [[SENTENCES[(row + column) % count] for column in range(shape[1])] for row in range(count)]
    rows = [sentence.split() for sentence in SENTENCES]
    return [row + [""] * (max(map(len, rows)) - len(row)) for row in rows]

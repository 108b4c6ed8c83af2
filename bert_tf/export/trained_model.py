"""A run or a checkpoint with a head as a task and a model, its functions on strings, and its export rewritten.

Its training data is not read: its folder records how it answers.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bert_tf import heads
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import MaskingConfig
from bert_tf.errors import UserError
from bert_tf.export import host_settings, opening
from bert_tf.heads.classes import Classes
from bert_tf.heads.masked_lm import MaskedLm, lm_kind, task_name
from bert_tf.heads.tags import Tags
from bert_tf.heads.vectors import Vectors
from bert_tf.heads.vectors.extraction import Features
from bert_tf.runtime import files, plugins, run_files
from bert_tf.runtime.lazy import module
from bert_tf.tasks import catalog
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer, tokenizer_of

checkpoint_predictor = module("bert_tf.export.checkpoint_predictor")  # loads Keras

# Texts for comparing an export with the live model; the first has a gap for models that fill gaps.
SENTENCES = (
    "The [MASK] is on the table.",
    "Ann Smith moved from Paris to New York in 1998, and works at Acme Inc. there.",
    "",
)


class TrainedModel(NamedTuple):
    """The float32 model of a run or a checkpoint, its task, and the about.json content of its export."""

    task: Any  # a Servable
    model: Any
    tokenizer: Any  # a Tokenizer
    about: dict[str, Any]


def is_run(path: str) -> bool:
    """Returns whether a folder is a run folder, not only a checkpoint."""
    return files.is_file(os.path.join(path, run_files.RUN))


def check_run(path: str) -> dict[str, Any]:
    """run.json of a folder with a checkpoint; UserError if there is none."""
    run = run_files.read_run(path)
    if not isinstance(run.get("flags"), dict):
        raise UserError(f"{path} is not a run folder: it has no readable run.json.")
    if not formats.load("native").recognizes(path):
        raise UserError(f"The run in {path} has no checkpoint with its bert_config.json: train first.")
    return run


def read(
    path: str,
    texts: int | None = None,
    *,
    with_attention: bool = False,
    splits: Mapping[str, Callable[[], Any]] | None = None,
) -> TrainedModel:
    """The model in a run folder, or in a checkpoint with a head; starts TensorFlow.

    texts, splits: see `task_of`. with_attention: its export has attention, even if the run's export does not.
    Raises UserError if there is no checkpoint, no head, or no vocabulary.
    """
    return of_loaded(path, checkpoint_predictor.load(path), texts, with_attention=with_attention, splits=splits)


def of_loaded(
    path: str,
    loaded: Checkpoint,
    texts: int | None = None,
    *,
    with_attention: bool = False,
    splits: Mapping[str, Callable[[], Any]] | None = None,
) -> TrainedModel:
    """Like `read`, for a loaded model, whose weights may have changed since."""
    checkpoint_predictor.check_answers(path, loaded)
    about = checkpoint_predictor.about_of(path, loaded)
    with_attention = with_attention or bool(about.get("attention"))
    if with_attention:
        loaded.config.check_attention()
    tokenizer = tokenizer_of(loaded)
    task = task_of(path, loaded, texts, splits, tokenizer)
    attention = {"attention": True} if with_attention else {}
    return TrainedModel(task, loaded.model, tokenizer, {**about, **attention})


def task_of(
    path: str,
    loaded: Checkpoint,
    texts: int | None = None,
    splits: Mapping[str, Callable[[], Any]] | None = None,
    tokenizer: Tokenizer | None = None,
) -> Any:
    """The task of a model, with its inputs and answers as in `checkpoint_predictor.answers_of`; texts: see there.

    splits: {split: function that reads it}, see FineTuningTask. tokenizer: the model's, if it is made already.
    """
    kind, tokenizer = checkpoint_predictor.kind_of(loaded), tokenizer or tokenizer_of(loaded)
    if kind == MaskedLm.kind:
        return _masked_lm_task(loaded, tokenizer)
    about, settings = checkpoint_predictor.answers_of(path, loaded, texts)
    if kind == Vectors.kind:
        return Features(checkpoint_predictor.vector_choice_of(path, loaded), loaded.sentence_vectors)
    if kind == Tags.kind:
        settings["crf"] = loaded.model.crf is not None
    plugins.check_trusted(kind or Classes.kind, path)
    with host_settings.refusing_damage(path):
        head = heads.get(kind or Classes.kind).recorded({**loaded.answers, **about}, settings)
    return FineTuningTask(str(about["task"]), splits or {}, head, tokenizer, test_splits=())


def _masked_lm_task(loaded: Checkpoint, tokenizer: Tokenizer) -> Any:
    name = loaded.answers.get("task")
    has_next = name.endswith("_nsp") if name else "next_sentence/bias" in loaded.report.loaded
    return catalog.get(task_name(loaded.config, loaded.report.loaded))(
        {"wanted": {"max_seq_length": loaded.config.max_position_embeddings}},  # no records are needed
        tokenizer,
        MaskingConfig(),
        next_sentence_weight=float(has_next),
        lm_kind=lm_kind(loaded.config),
    )


def signatures(path: str, texts: int | None = None) -> dict[str, Any]:
    """{name: signature on strings} of the checkpoint at a path; texts: see `checkpoint_predictor.answers_of`."""
    loaded = checkpoint_predictor.load(path)
    tokenizer = tokenizer_of(loaded)
    functions = task_of(path, loaded, texts, tokenizer=tokenizer).signatures(loaded.model, tokenizer)
    return {name: function.get_concrete_function() for name, function in functions.items()}


def write_export(
    trained: TrainedModel,
    target: str,
    precision: str = "float32",
    engine_names: Sequence[str] = (),
    calibration: Sequence[Sequence[str]] = (),
) -> None:
    """Writes the export of a model as its script would have, and compares it with the model on SENTENCES.

    engine_names, calibration: see `saved_model.export`. Raises UserError if engines need calibration texts and there
    are none.
    """
    from bert_tf.export.saved_model import export

    task, model, tokenizer, about = trained
    if opening.are_calibrated(engine_names) and not calibration:
        raise UserError(
            "openvino_int8 learns the ranges of numbers from texts: pass some to export in Python (texts=...), or "
            "export a run with `bert-tf export`, which takes its training texts."
        )
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
    """{signature: {input: values}} from SENTENCES, for signatures that take strings of one or two dimensions."""
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

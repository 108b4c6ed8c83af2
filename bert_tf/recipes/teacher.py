"""The teacher of a run: read, checked, and added to the task; see `training.distillation`."""

import dataclasses
from typing import Any

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.flag_groups import RunOptions
from bert_tf.config.train_config import DistillationConfig
from bert_tf.errors import UserError
from bert_tf.heads.base.servable import TextTask
from bert_tf.model import weights
from bert_tf.recipes import initialization
from bert_tf.runtime.lazy import keras, module, tf
from bert_tf.text import vocabulary

distillation = module("bert_tf.training.distillation")


def read(run: RunOptions, start: Checkpoint) -> Checkpoint | None:
    """The model named by the flag teacher; None if it is not set.

    Raises UserError if it does not exist, or its vocabulary or casing differs from the student's.
    """
    teacher = run.distillation.teacher
    if not (teacher and run.do_train):
        return None
    checkpoint = initialization.read_checkpoint(teacher, run)
    assert checkpoint is not None
    if not vocabulary.are_alike(checkpoint.vocabulary or (), start.vocabulary or ()):
        raise UserError(
            f"The teacher {teacher} has a different vocabulary from the model to train: start from a checkpoint, "
            "or pass a vocab_file, with the teacher's."
        )
    if checkpoint.lower_case not in (None, start.lower_case):
        raise UserError(
            f"The teacher {teacher} was trained with do_lower_case={checkpoint.lower_case}: pass it here too."
        )
    return dataclasses.replace(
        start, config=checkpoint.config, weights=checkpoint.weights, labels=checkpoint.labels, sentence_vectors=None
    )


def taught(
    task: "TextTask",
    model: "keras.Model",
    teacher: Checkpoint | None,
    options: DistillationConfig,
    strategy: "tf.distribute.Strategy",
) -> Any:
    """The task for training: with the teacher's terms, if there is a teacher.

    Raises UserError for a teacher that lacks the task's head, or does not fit the model.
    """
    if teacher is None:
        return task
    with strategy.scope():
        teaching = task.create_model(teacher.config, dtype=model.dtype_policy)
    loaded = weights.assign(teaching, teacher.weights)
    missing = [name for name in loaded.newly_initialized if name not in teaching.unread]
    if missing or loaded.shape_mismatch:
        raise UserError(
            f"The teacher {options.teacher} was not trained on this task (it has no fitting "
            f"{(missing or [name for name, *_ in loaded.shape_mismatch])[0]}): train it first."
        )
    print(f"The teacher is {options.teacher}, of {teaching.count_params():,} parameters", flush=True)
    with strategy.scope():
        return distillation.DistilledTask(task, teaching, model, options)

"""The teacher of a run: its model, and the task with its terms; see `training.distillation`."""

from typing import TYPE_CHECKING, Any

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.train_config import DistillationConfig
from bert_tf.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf

    from bert_tf.model.heads import BertModel
    from bert_tf.training.task import Task


def with_teacher(
    task: "Task",
    model: "BertModel",
    teacher: Checkpoint | None,
    options: DistillationConfig,
    strategy: "tf.distribute.Strategy",
) -> Any:
    """The task as training sees it: with the terms of the teacher, if there is one.

    Raises UserError for a teacher that lacks the head of the task, or does not fit the model.
    """
    if teacher is None:
        return task
    from bert_tf.model import weights
    from bert_tf.training.distillation import DistilledTask

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
        return DistilledTask(task, teaching, model, options)

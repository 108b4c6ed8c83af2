"""Few labels: the vectors of texts of one class are brought together, before a linear head is fitted to them.

As SetFit (Tunstall et al. 2022, arXiv:2209.11055), but a step compares all pairs of the texts of its batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError, count_text
from bert_tf.runtime.lazy import keras, tf
from bert_tf.runtime.progress import progress
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.task import Batch, Comparison, Objective

CONTRASTIVE = "contrastive"  # of the flag `start`
NAME = "few_shot"  # of the task
DEFAULTS: Mapping[str, Any] = {  # of its flags
    "start": CONTRASTIVE,
    "train_batch_size": 32,
    "num_train_epochs": 40.0,
    "learning_rate": 2e-5,
}
LOSS = "pair_loss"


class Contrast:
    """The part of `training.task.Task` that a training step needs: `task` with a loss on pairs of texts."""

    objectives: ClassVar[Mapping[str, Objective]] = {LOSS: Objective()}
    comparison = Comparison("vectors", ("labels", "row_weights"))

    def __init__(self, task: FineTuningTask) -> None:
        self.task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """1 for the loss of the whole batch."""
        return {LOSS: tf.ones([])}

    def metrics(self, outputs: Mapping[str, tf.Tensor], batch: Batch) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """The loss, a scalar."""
        from bert_tf.heads.vectors import vector_losses

        loss = vector_losses.same_class(outputs["vectors"], batch["labels"], batch["row_weights"])
        return {LOSS: (loss, tf.ones([]))}


def train(task: FineTuningTask, model: keras.Model, config: TrainConfig, strategy: tf.distribute.Strategy) -> None:
    """Trains the encoder on pairs for all steps of a TrainConfig; UserError for labels that are not classes."""
    from bert_tf.model.sentence_encoder import InputOfHead
    from bert_tf.training.train_step import TrainStep

    if not (task.head.is_pooled and task.head.is_exclusive and task.head.is_labelled):
        raise UserError(f"start={CONTRASTIVE} needs a class for each text; leave it out for {task.name}.")
    with strategy.scope():
        step: Any = TrainStep(Contrast(task), InputOfHead(model), config, strategy)  # type: ignore[arg-type]
    batches = iter(task.train_batches(config.train_batch_size, config.random_seed))
    with progress("comparing", config.num_train_steps) as report:
        for number in range(1, config.num_train_steps + 1):
            result = step.step(next(batches))
            report(number)
    loss, _ = result["metrics"][LOSS].numpy()
    print(f"The loss of pairs is {loss:.4f} after {count_text(config.num_train_steps, 'step')}.", flush=True)

"""Few labels: embeddings of texts of one class are pulled together before a linear head is fitted to them.

Like SetFit (Tunstall et al. 2022, arXiv:2209.11055), but a step compares all pairs of the texts in its batch.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Collection, Mapping
from typing import Any

from bert_tf.config.train_config import TrainConfig
from bert_tf.data import tables
from bert_tf.errors import UserError, count_text
from bert_tf.heads.classes import Classes
from bert_tf.heads.vectors import vector_losses
from bert_tf.runtime import terminal
from bert_tf.runtime.lazy import keras, tf
from bert_tf.runtime.progress import progress
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.task import Batch, Comparison, Learnable, Objective

CONTRASTIVE = "contrastive"  # choice of the flag `start`
NAME = "few_shot"  # name of the task
DEFAULTS: Mapping[str, Any] = {  # values of its flags
    "start": CONTRASTIVE,
    "train_batch_size": 32,
    "num_train_epochs": 40.0,
    "learning_rate": 2e-5,
}
LOSS = "pair_loss"
FEW = 60  # with fewer labeled rows, all are trained on
EVALUATES = frozenset(  # with any of these flags, a part is held out nevertheless
    "do_eval do_train eval_file eval_fraction folds fold num_seeds keep_best early_stop_patience criterion temperature "
    "learning_rate_grid train_batch_size_grid num_train_epochs_grid".split()
)


def defaults(table: str, given: Collection[str]) -> dict[str, Any]:
    """Default flags of the task; with fewer than FEW rows, all are used for training, which is printed.

    given: names of the flags set by the user.
    """
    if not tables.is_table(table) or EVALUATES & {*given}:
        return dict(DEFAULTS)
    count = sum(1 for _ in itertools.islice(tables.read(table, malformed=[]), FEW))
    if count == FEW:
        return dict(DEFAULTS)
    terminal.say(
        f"{table} has {count_text(count, 'row')}: all are used for training, none for evaluation. --folds=5 scores "
        "every row, --do_eval sets a part aside."
    )
    return {**DEFAULTS, "do_eval": False}


class Contrast(Learnable):
    """A loss that pulls embeddings of texts of one class together."""

    objectives: Mapping[str, Objective] = types.MappingProxyType({LOSS: Objective()})
    comparison = Comparison("vectors", ("labels", "row_weights"))

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """1 for the loss of the whole batch."""
        return {LOSS: tf.ones([])}

    def metrics(self, outputs: Mapping[str, tf.Tensor], batch: Batch) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """The loss, a scalar."""
        loss = vector_losses.same_class(outputs["vectors"], batch["labels"], batch["row_weights"])
        return {LOSS: (loss, tf.ones([]))}


def train(task: FineTuningTask, model: keras.Model, config: TrainConfig, strategy: tf.distribute.Strategy) -> None:
    """Trains the encoder on pairs for all steps of a TrainConfig; UserError if labels are not classes."""
    from bert_tf.model.sentence_encoder import InputOfHead
    from bert_tf.training.train_step import TrainStep

    if not isinstance(task.head, Classes):
        raise UserError(f"start={CONTRASTIVE} needs a class for each text; omit it for {task.name}.")
    with strategy.scope():
        step: Any = TrainStep(Contrast(), InputOfHead(model), config, strategy)
    batches = iter(task.train_batches(config.train_batch_size, config.random_seed))
    with progress("training steps on pairs", config.num_train_steps) as report:
        for number in range(1, config.num_train_steps + 1):
            result = step.step(next(batches))
            report(number)
    loss, _ = result["metrics"][LOSS].numpy()
    print(f"The loss of pairs is {loss:.4f} after {count_text(config.num_train_steps, 'step')}.", flush=True)

"""Early stopping and best weights: when to evaluate during training, when to stop, which weights to keep."""

import json
import math
import tempfile
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import TrainingError, UserError, reason_of, what_to_do
from bert_tf.runtime import files
from bert_tf.training import checkpoint_paths
from bert_tf.training.distribute import barrier, is_chief
from bert_tf.training.run_directory import RunFolder
from bert_tf.training.task import Task


def is_due(config: TrainConfig, step: int) -> bool:
    """Returns whether to evaluate after a step: every `eval_steps`, else at every checkpoint and end of epoch."""
    if config.eval_steps:
        return step % config.eval_steps == 0
    return step % config.save_checkpoints_steps == 0 or ends_epoch(config, step)


def ends_epoch(config: TrainConfig, step: int) -> bool:
    """Returns whether a step is the last of an epoch: epoch k ends after k * examples // batch size steps."""
    if not config.num_train_examples:
        return False
    epoch = math.ceil(step * config.train_batch_size / config.num_train_examples)
    return epoch * config.num_train_examples // config.train_batch_size == step


class EarlyStopping:
    """Uses the task's criterion to decide when to stop and which weights to keep.

    Active with early_stop_patience, or with keep_best if there is a criterion. Its state is then part of the
    checkpoint, so that a killed run stops at the same step as an uninterrupted one. Raises UserError for
    early_stop_patience without a criterion.
    """

    def __init__(
        self,
        task: Task,
        config: TrainConfig,
        variables: Mapping[str, tf.Variable],
        folder: RunFolder,
        strategy: tf.distribute.Strategy,
    ) -> None:
        self.task, self.config, self.folder, self.strategy = task, config, folder, strategy
        can_decide = bool(task.criterion and config.evaluates)
        if config.early_stop_patience and not can_decide:
            raise UserError(
                "early_stop_patience needs evaluations with a criterion: pass do_eval and a task with a development "
                "set, or remove it."
            )
        self.evaluations = Evaluations()
        keeps = config.keep_best and can_decide
        self.best = BestWeights(variables, folder.file("best"), writes=is_chief(strategy)) if keeps else None
        self.is_active = bool(config.early_stop_patience or keeps)

    def state(self) -> dict[str, Any]:
        """Returns the state to checkpoint."""
        return {"evaluations": self.evaluations} if self.is_active else {}

    def is_due(self, step: int) -> bool:
        """Returns whether to evaluate after a step; after the last step only to compare with the best weights."""
        if not self.config.evaluates:
            return False
        is_last = step == self.config.num_train_steps
        return bool(self.best) if is_last else is_due(self.config, step)

    def was_interrupted(self, step: int) -> bool:
        """Returns whether a run resumed after this step was stopped before or during its evaluation, now to be run."""
        if not (step and self.is_due(step)):
            return False
        return self.evaluations.last_step != step if self.is_active else not self.folder.was_evaluated(step)

    def add(self, step: int, results: Mapping[str, float]) -> None:
        """Records the results of an evaluation; saves the weights if they are the best so far."""
        if not self.is_active:
            return
        prefixes = (prefix for prefix in self.task.eval_splits if self.task.criterion.startswith(prefix))
        loss = results.get(f"{max(prefixes, key=len, default='')}loss", math.nan)
        is_better = self.evaluations.add(step, results[self.task.criterion], loss)
        if is_better and self.best:
            self.best.save(step)

    @property
    def should_stop(self) -> bool:
        """Returns whether early_stop_patience is exhausted."""
        return 0 < self.config.early_stop_patience <= self.evaluations.num_without_improvement

    def remove_outdated(self) -> None:
        """Removes weights that are no longer the best; call it after saving a checkpoint that records this."""
        if self.best and self.evaluations.values:
            self.best.remove_others(self.evaluations.best_step)

    def best_step(self, step: int) -> int:
        """The step of the final weights if training ends after `step`."""
        return self.evaluations.best_step if self.best else step

    def restore_best(self, step: int) -> None:
        """Ends training after `step`: with keep_best, loads the best weights into the model."""
        best_step = self.best_step(step)
        if self.best and best_step != step:
            barrier(self.strategy)  # the chief has written them
            self.best.load(best_step)

    def summary(self, step: int) -> tuple[list[str], dict[str, Any]]:
        """Decisions of a run that ended after `step`: sentences, and a dictionary for run.json."""
        if not self.is_active or not self.evaluations.values:
            return [], {}
        best_step, criterion, sentences = self.best_step(step), self.task.criterion, []
        if self.should_stop and step < self.config.num_train_steps:
            sentences.append(
                f"Stopped early after step {step} of {self.config.num_train_steps}: "
                f"no better {criterion} in {self.config.early_stop_patience} evaluations."
            )
        if self.best and not best_step:
            sentences.append(
                f"Keeping the encoder as it was, with the linear head: training has no better {criterion} than "
                f"{self.evaluations.best_value:.4f}."
            )
        elif self.best:
            sentences.append(
                f"Keeping the weights of step {best_step}: the best {criterion}, {self.evaluations.best_value:.4f}."
            )
        return sentences, {
            "last_step": step,
            "taken_step": best_step,
            "criterion": criterion,
            "evaluations": [evaluation[:2] for evaluation in self.evaluations.values],
        }

    def close(self) -> None:
        """Removes temporary files of a process that is not the chief."""
        if self.best:
            self.best.close()


class Evaluations(tf.train.experimental.PythonState):
    """The criterion at every evaluation so far, part of the checkpoint."""

    def __init__(self) -> None:
        self.values: list[list[Any]] = []  # [step, criterion, loss], higher is better; no loss in older versions

    def serialize(self) -> str:
        """Returns the state as a string."""
        return json.dumps(self.values)

    def deserialize(self, string: str) -> None:
        """Restores the state."""
        self.values = json.loads(string)

    def add(self, step: int, value: float, loss: float) -> bool:
        """Records an evaluation; returns whether it is the best so far. NaN is the worst."""
        criterion = value if math.isfinite(value) else -math.inf
        self.values.append([step, criterion, loss if math.isfinite(loss) else math.inf])
        return self.best_step == step

    @property
    def best(self) -> int:
        """The index of the best evaluation; ties are broken by lower loss, then by order.

        Evaluations of an earlier version have no loss; it counts as the lowest, so that the first of them is kept.
        """

        def rank(index: int) -> tuple[float, float]:
            _, criterion, *loss = self.values[index]
            return criterion, -loss[0] if loss else math.inf

        return max(range(len(self.values)), key=rank)

    @property
    def best_step(self) -> int:
        """The step of the best evaluation."""
        return self.values[self.best][0]

    @property
    def best_value(self) -> float:
        """The criterion at the best evaluation."""
        return self.values[self.best][1]

    @property
    def last_step(self) -> int:
        """The step of the last evaluation; 0 before the first."""
        return self.values[-1][0] if self.values else 0

    @property
    def num_without_improvement(self) -> int:
        """The number of evaluations after the first with the best criterion, not counting one before training.

        If all have the same criterion, as when a model always predicts one class, those after the lowest loss.
        """
        criteria = [evaluation[1] for evaluation in self.values if evaluation[0]]
        if len(set(criteria)) == 1 < len(criteria):
            return len(self.values) - 1 - self.best
        return len(criteria) - 1 - criteria.index(max(criteria)) if criteria else 0


class BestWeights:
    """The weights of the best evaluation, in a separate folder, independent of the checkpoints."""

    def __init__(self, variables: Mapping[str, tf.Variable], folder: str, *, writes: bool = True) -> None:
        self.variables, self.folder = variables, folder
        self.checkpoint = tf.train.Checkpoint(weights=variables)
        self.scratch = None if writes else tempfile.mkdtemp()

    def save(self, step: int) -> None:
        """Saves the weights under this step; earlier ones stay until `remove_others`."""
        path = checkpoint_paths.path_of(self.scratch or self.folder, step)
        try:
            self.checkpoint.write(path)
        except tf.errors.OpError as error:
            raise TrainingError(
                f"The best weights, of step {step}, could not be written to {self.folder} ({reason_of(error)}). "
                f"{what_to_do(error)} and run the same command again."
            ) from None

    def load(self, step: int) -> None:
        """Loads the weights of a step into the model."""
        try:
            self.checkpoint.read(checkpoint_paths.path_of(self.folder, step)).assert_existing_objects_matched()
        except Exception as error:  # a damaged file raises anything from DataLossError to IndexError
            raise UserError(
                f"The best weights, of step {step}, cannot be read from {self.folder} ({reason_of(error)}): "
                "remove the run folder to start from scratch."
            ) from None

    def remove_others(self, step: int) -> None:
        """Removes the weights of other steps."""
        folder = self.scratch or self.folder
        for path in checkpoint_paths.files_of(folder) - checkpoint_paths.files_of(folder, step):
            files.remove(path)

    def close(self) -> None:
        """Removes the temporary folder of a process that is not the chief."""
        if self.scratch:
            files.remove(self.scratch)

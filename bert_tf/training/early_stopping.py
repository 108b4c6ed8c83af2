"""Which evaluation on the way was the best: when to evaluate, when it is enough, and the weights that were best."""

import json
import math
import os
import shutil
import tempfile

import tensorflow as tf

from bert_tf.errors import TrainingError, UserError, reason_of
from bert_tf.training import checkpoint_paths
from bert_tf.training.distribute import barrier, is_chief


def is_due(config, step):
    """Whether it is evaluated after a step: every `eval_steps`, or else when it saves and where an epoch ends."""
    if config.eval_steps:
        return step % config.eval_steps == 0
    return step % config.save_checkpoints_steps == 0 or ends_epoch(config, step)


def ends_epoch(config, step):
    """Whether a step is the last of an epoch: epoch k ends after k * examples // batch size steps."""
    if not config.num_train_examples:
        return False
    epoch = math.ceil(step * config.train_batch_size / config.num_train_examples)
    return epoch * config.num_train_examples // config.train_batch_size == step


class EarlyStopping:
    """Takes every evaluation's results and decides, by the task's criterion, whether to stop and which weights to keep.

    Only asked to decide anything (early_stop_patience, keep_best) it has a state; it is then a part of the checkpoint,
    so that a run that was killed stops where it would have stopped. UserError if nothing can decide.
    """

    def __init__(self, task, config, variables, folder, strategy):
        self.task, self.config, self.strategy = task, config, strategy
        self.decides = bool(config.early_stop_patience or config.keep_best)
        if self.decides and not (task.criterion and config.evaluates):
            raise UserError(
                "early_stop_patience and keep_best need evaluations with a criterion: "
                "give do_eval and a task with a development set, or leave them out."
            )
        self.evaluations = Evaluations()
        self.best = BestWeights(variables, folder.file("best"), writes=is_chief(strategy)) if config.keep_best else None

    def state(self):
        """What a checkpoint must hold."""
        return {"evaluations": self.evaluations} if self.decides else {}

    def is_due(self, step):
        """Whether to evaluate after a step: at the last one only if its weights have to be compared."""
        if not self.config.evaluates:
            return False
        is_last = step == self.config.num_train_steps
        return self.config.keep_best if is_last else is_due(self.config, step)

    def was_missed(self, step):
        """Whether a run that goes on after this step was stopped just before an evaluation that must be made up for."""
        return self.decides and step > 0 and self.evaluations.last_step != step and self.is_due(step)

    def add(self, step, results):
        """Takes the results of an evaluation; saves the weights if they are the best so far."""
        if not self.decides:
            return
        is_better = self.evaluations.add(step, results[self.task.criterion])
        if is_better and self.best:
            self.best.save(step)

    @property
    def is_enough(self):
        """Whether training must stop early."""
        return 0 < self.config.early_stop_patience <= self.evaluations.without_better

    def saved(self):
        """To be called when a checkpoint is saved: weights that were best before that are no longer needed."""
        if self.best and self.evaluations.values:
            self.best.forget_others(self.evaluations.best_step)

    def taken(self, step):
        """The step of the weights that training ends with, after this step."""
        return self.evaluations.best_step if self.config.keep_best else step

    def conclude(self, step):
        """Ends training after `step`: puts the best weights into the model if asked for."""
        if self.taken(step) != step:
            barrier(self.strategy)  # the first worker has written them
            self.best.load(self.taken(step))

    def outcome(self, step):
        """What was decided in a run that ended after `step`, as sentences and as a dictionary."""
        if not self.decides or not self.evaluations.values:
            return [], {}
        taken, criterion, said = self.taken(step), self.task.criterion, []
        if self.is_enough and step < self.config.num_train_steps:
            said.append(
                f"Stopped early after step {step} of {self.config.num_train_steps}: "
                f"no better {criterion} in {self.config.early_stop_patience} evaluations."
            )
        if self.config.keep_best:
            said.append(
                f"The weights of step {taken} are taken: the best {criterion}, {self.evaluations.best_value:.4f}."
            )
        return said, {
            "last_step": step,
            "taken_step": taken,
            "criterion": criterion,
            "evaluations": self.evaluations.values,
        }

    def close(self):
        """Throws away what a process that is not the chief has written."""
        if self.best:
            self.best.close()


class Evaluations(tf.train.experimental.PythonState):
    """The criterion at every evaluation so far; saved with the rest, so that a restart decides as the first start."""

    def __init__(self):
        self.values = []  # [step, criterion], higher is better

    def serialize(self):
        return json.dumps(self.values)

    def deserialize(self, string):
        self.values = json.loads(string)

    def add(self, step, value):
        """Notes an evaluation; returns whether it is the best so far, which an equal one is not. NaN is the worst."""
        self.values.append([step, value if math.isfinite(value) else -math.inf])
        return self.best_step == step

    @property
    def best(self):
        """The number of the best evaluation, counted from 0; the first of equals."""
        return max(range(len(self.values)), key=lambda number: self.values[number][1])

    @property
    def best_step(self):
        return self.values[self.best][0]

    @property
    def best_value(self):
        return self.values[self.best][1]

    @property
    def last_step(self):
        """The step of the last evaluation; 0 before the first."""
        return self.values[-1][0] if self.values else 0

    @property
    def without_better(self):
        """How many evaluations came after the best one."""
        return len(self.values) - 1 - self.best if self.values else 0


class BestWeights:
    """The weights of the best evaluation, in a folder of their own, whatever becomes of the checkpoints."""

    def __init__(self, variables, folder, *, writes=True):
        self.variables, self.folder = variables, folder
        self.checkpoint = tf.train.Checkpoint(weights=variables)
        self.scratch = None if writes else tempfile.mkdtemp()

    def save(self, step):
        """Saves the weights as those of this step; earlier ones stay until `forget_others`."""
        path = checkpoint_paths.path_of(self.scratch or self.folder, step)
        try:
            self.checkpoint.write(path)
        except tf.errors.OpError as error:
            raise TrainingError(
                f"The best weights, of step {step}, could not be written to {self.folder} ({reason_of(error)}). "
                "Make room and start the same command again."
            ) from None

    def load(self, step):
        """Puts the weights of a step back into the model."""
        try:
            self.checkpoint.read(checkpoint_paths.path_of(self.folder, step)).assert_existing_objects_matched()
        except Exception as error:  # a damaged file raises anything from DataLossError to IndexError
            raise UserError(
                f"The best weights, of step {step}, cannot be read from {self.folder} ({reason_of(error)}): "
                "remove the folder of the run to start anew."
            ) from None

    def forget_others(self, step):
        """Removes the weights of other steps, once a checkpoint says that this one is the best."""
        folder = self.scratch or self.folder
        for path in checkpoint_paths.files_of(folder) - checkpoint_paths.files_of(folder, step):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def close(self):
        """Throws away the folder of a process that is not the chief."""
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)

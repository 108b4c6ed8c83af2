"""The loop: train, evaluate; it saves, resumes, stops cleanly, and says what it does."""

import collections
import contextlib
import math
import os
import signal
import time

import numpy as np
import tensorflow as tf

from bert_tf.errors import Interrupted, TrainingError, UserError, reason_of
from bert_tf.model.sequence_packing import PackingSpec, local_costs
from bert_tf.runtime.progress import progress
from bert_tf.training import checkpoint_paths
from bert_tf.training.checkpointing import TrainState
from bert_tf.training.distribute import all_gather, all_reduce_sum, barrier, is_chief, on_first_replica, shard_batch
from bert_tf.training.early_stopping import EarlyStopping
from bert_tf.training.train_step import TrainStep, averages


def train(task, model, config, strategy, folder):
    """Trains the model up to `config.num_train_steps`, going on from the newest whole checkpoint of the run folder.

    The same command gives bitwise the same weights however often it was killed and started again. Saves every
    `save_checkpoints_steps`, evaluates as `selection.is_due` says. `early_stop_patience` may end it
    sooner, and with `keep_best` model and last checkpoint end with the weights of the best evaluation.
    Returns the step that the weights are of. Raises TrainingError (Diverged at a loss that is not a number), and
    Interrupted after SIGTERM or Ctrl-C, with everything saved.
    """
    loop = _Loop(task, model, config, strategy, folder)
    try:
        with _stop_requested() as stop, progress("training", config.num_train_steps) as report:
            step = loop.run(stop, report)
        barrier(strategy)
    finally:
        loop.close()
    said, outcome = loop.selection.outcome(step)
    for sentence in said:
        print(sentence, flush=True)
    if outcome:
        folder.update(selection=outcome)
    return loop.selection.taken(step)


class Diverged(TrainingError):
    """The loss or its gradient is not a number: the settings do not work for this model and these data."""


class _Loop:
    """A run of training: what it needs, and what is done after each step."""

    def __init__(self, task, model, config, strategy, folder):
        self.task, self.config, self.folder = task, config, folder
        self.batches = _iterator(task.train_batches(config.train_batch_size, config.random_seed))
        with strategy.scope():
            self.learner = TrainStep(task, model, config, strategy)
        self.selection = EarlyStopping(task, config, self.learner.variables, folder, strategy)
        parts = {**self.learner.state(), "data": self.batches, **self.selection.state()}
        self.state = TrainState(folder.checkpoints, parts, writes=is_chief(strategy), kept=config.keep_checkpoint_max)
        self.log, self.evaluate = _Log(task, folder), Evaluator(task, model, config, strategy)

    def run(self, stop, report):
        """Goes on to the last step and returns it; `stop` is empty until somebody asks to stop."""
        step = self.state.restore()
        self.folder.forget_metrics_after(step)
        report(step)
        if self.selection.was_missed(step):
            self._evaluate(step)
            if self._is_last(step):
                self._save(step)
        self.log.begin()
        while not self._is_last(step):
            step += 1
            result = _step(self.learner, self.batches, step, stops=bool(stop))
            self.log.add(step, result)
            stopping = _agreed(stop, result)
            self._after(step, stopping, report)
            if stopping and not self._is_last(step):
                barrier(self.learner.strategy)
                raise Interrupted(
                    f"Stopped after step {step}, which is saved; the same command goes on from there.", stopping[0]
                )
        return step

    def _is_last(self, step):
        return step >= self.config.num_train_steps or self.selection.is_enough

    def _after(self, step, stopping, report):
        """A line of metrics, an evaluation, a checkpoint: whatever is due."""
        steps = self.config.num_train_steps
        evaluates = self.selection.is_due(step) and (not stopping or step == steps)
        saves = stopping or step % self.config.save_checkpoints_steps == 0
        if evaluates or saves or step == steps or step % max(1, min(100, steps // 100)) == 0:
            report(step, self.log.write(step))
        if evaluates:
            self._evaluate(step)
        if saves or self._is_last(step):
            self._save(step)
        if evaluates or saves:
            self.log.begin()

    def _evaluate(self, step):
        """Evaluates, says and notes the results."""
        results = self.evaluate()
        self.folder.log(step, {f"eval_{name}": value for name, value in results.items()})
        self.selection.add(step, results)
        names = [name for name in results if not name.endswith(tuple(self.task.objectives))]
        if self.folder.writes:
            print(f"Step {step}, held out: " + "  ".join(f"{name} {results[name]:.4f}" for name in names), flush=True)

    def _save(self, step):
        if self._is_last(step):
            self.selection.conclude(step)
        self.state.save(step)
        self.selection.saved()

    def close(self):
        self.state.close()
        self.selection.close()


class Evaluator:
    """What a model reaches on held-out examples, and what it answers; traced once, called as often as one likes."""

    def __init__(self, task, model, config, strategy):
        self.task, self.model, self.strategy = task, model, strategy
        self.rows = math.ceil(config.eval_batch_size / strategy.num_replicas_in_sync) * strategy.num_replicas_in_sync
        self.most = config.max_eval_steps
        self.answers = {}
        self._pass = tf.function(self._on_replicas, autograph=False)

    def __call__(self):
        """{name: number}: means of the measures, "loss" and scores of every evaluation split.

        Over at most `max_eval_steps` batches of each; the answers stay in `answers`, {split: {name: array}}.
        """
        results = {}
        for prefix, split in self.task.eval_splits.items():
            sums, answers = self.over(split, self.most)
            self.answers[split] = answers
            found = averages(self.task, sums)
            found |= self.task.scores(answers, split)
            results |= {f"{prefix}{name}": value for name, value in found.items()}
        return results

    def over(self, split, most=-1):
        """One pass over a split, or over at most `most` batches of it.

        Returns {measure: [sum, sum of weights]} and the task's {answer: array [n, ...]} of n examples.
        """
        sums, kept = collections.defaultdict(lambda: np.zeros(2)), collections.defaultdict(list)
        batches = _iterator(self.task.eval_batches(self.rows, split).take(most))
        while True:
            with readable():
                batch = next(batches, None)
            if batch is None:
                return sums, {name: np.concatenate(parts) for name, parts in kept.items()}
            measures, answers = self._pass(shard_batch(self.strategy, batch))
            for name, value in measures.items():
                sums[name] += value.numpy()
            for name, value in answers.items():
                kept[name].append(value.numpy()[answers["row_numbers"].numpy() > 0])

    def _on_replicas(self, batch):
        return on_first_replica(self.strategy, self.strategy.run(self._on_replica, args=(batch,)))

    def _on_replica(self, batch):
        is_tpu = isinstance(self.strategy, tf.distribute.TPUStrategy)
        outputs = self.model(batch, packing=None if is_tpu else PackingSpec.dynamic(local_costs()))
        measures = self.task.metrics(outputs, batch)
        sums = {name: tf.stack([tf.reduce_sum(v * w), tf.reduce_sum(w)]) for name, (v, w) in measures.items()}
        return all_reduce_sum(sums), all_gather(self.task.predictions(outputs, batch))


def _iterator(dataset):
    """An iterator that TensorFlow does not tune: its end would wait for the thread of that, asleep up to a minute."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return iter(dataset.with_options(options))


def _agreed(stop, result):
    """The signals to stop for after a step; where processes train together all stop if one had a signal before it."""
    if "stops" not in result:
        return list(stop)
    return (list(stop) or [signal.SIGTERM]) if result["stops"].numpy() > 0 else []


def _step(learner, batches, step, *, stops):
    try:
        with readable():
            batch = next(batches)
        return learner.step(batch, stops=stops)
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        raise TrainingError(
            f"Memory ran out in step {step} with train_batch_size {learner.config.train_batch_size} "
            f"({reason_of(error)}). Raise num_accumulation_steps or use gradient_checkpointing (same result), "
            "or lower train_batch_size or max_seq_length."
        ) from None


@contextlib.contextmanager
def readable():
    """Turns records that are damaged into a UserError; for what takes batches."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
        raise UserError(
            f"The records cannot be read ({reason_of(error)}): "
            "remove the folder of the records and start the same command again."
        ) from None


class _Log:
    """Gathers what steps return and writes their means, so that nobody waits for every single step."""

    def __init__(self, task, folder):
        self.task, self.folder, self.pending = task, folder, []
        self.begin()

    def begin(self):
        """Counts seconds from now on: evaluating and saving are not training."""
        self.since = time.monotonic()

    def add(self, step, result):
        self.pending.append((step, result))

    def write(self, step):
        """Writes one line of metrics over the steps since the last one; returns its short form. Raises Diverged."""
        results = [(number, tf.nest.map_structure(lambda x: x.numpy(), result)) for number, result in self.pending]
        self._expect_finite(results)
        summed = {
            name: sum(np.float64(result["measures"][name]) for _, result in results)
            for name in results[0][1]["measures"]
        }
        seconds = time.monotonic() - self.since
        values = averages(self.task, summed)
        values["learning_rate"] = float(results[-1][1]["learning_rate"])
        values["gradient_norm"] = float(np.mean([result["gradient_norm"] for _, result in results]))
        values["tokens_per_second"] = float(sum(result["tokens"] for _, result in results)) / seconds
        self.folder.log(step, values)
        self.pending = []
        self.begin()
        return f"loss {values['loss']:.3f}  {values['tokens_per_second']:.0f} tokens/s"

    def _expect_finite(self, results):
        for step, result in results:
            if result["diverged"]:
                kept = map(os.path.basename, checkpoint_paths.newest_first(self.folder.checkpoints))
                raise Diverged(
                    f"The loss or its gradient is not a number in step {step}. Kept: "
                    f"{', '.join(kept) or 'no checkpoint'}. Start again in another output_dir with a lower "
                    "learning_rate, more num_warmup_steps, or precision=float32."
                )


@contextlib.contextmanager
def _stop_requested():
    """Yields a list that is no longer empty once SIGTERM or Ctrl-C has come."""
    received = []
    previous = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(ValueError):  # not in the main thread
            previous[number] = signal.signal(number, lambda number, _: received.append(number))
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

"""The loop: train, evaluate; it saves, resumes, stops cleanly, and says what it does."""

import collections
import contextlib
import math
import os
import signal
import time

import numpy as np
import tensorflow as tf

from bert_tf.distribute import barrier, gathered, is_chief, on_first_replica, share_out, total
from bert_tf.encoder import trimmed
from bert_tf.errors import Interrupted, TrainingError, UserError, reason_of
from bert_tf.learner import Learner, means_of
from bert_tf.progress import progress
from bert_tf.train_state import TrainState


def train(task, model, config, strategy, folder):
    """Trains the model up to `config.num_train_steps`, going on from the newest whole checkpoint of the run folder.

    The same command gives bitwise the same weights however often it was killed and started again. Saves and evaluates
    every `save_checkpoints_steps`. Raises TrainingError at a loss that is not a number, and Interrupted after SIGTERM
    or Ctrl-C, with everything saved.
    """
    batches = iter(task.train_batches(config.train_batch_size, config.random_seed))
    with strategy.scope():
        learner = Learner(task, model, config, strategy)
    state = TrainState(folder.checkpoints, {**learner.state(), "data": batches}, writes=is_chief(strategy))
    first = state.restore()
    folder.forget_metrics_after(first)
    log_every = max(1, min(100, config.num_train_steps // 100))
    log, evaluate = _Log(task, folder), Evaluator(task, model, config, strategy)
    with _stop_requested() as stop, progress("training", config.num_train_steps) as report:
        report(first)
        for step in range(first + 1, config.num_train_steps + 1):
            log.add(step, _step(learner, batches, step))
            save = stop or step % config.save_checkpoints_steps == 0 or step == config.num_train_steps
            if save or step % log_every == 0:
                report(step, log.write(step, expect_finite=not learner.scale.enabled))
            if save and not stop and step < config.num_train_steps:
                folder.log(step, {f"eval_{name}": value for name, value in evaluate().items()})
            if save:
                state.save(step)
            if stop and step < config.num_train_steps:
                raise Interrupted(
                    f"Stopped after step {step}, which is saved; the same command goes on from there.", stop[0]
                )
    barrier(strategy)
    state.close()


class Evaluator:
    """What a model reaches on held-out examples, and what it answers; traced once, called as often as one likes."""

    def __init__(self, task, model, config, strategy):
        self.task, self.model, self.strategy = task, model, strategy
        self.rows = math.ceil(config.eval_batch_size / strategy.num_replicas_in_sync) * strategy.num_replicas_in_sync
        self.most = config.max_eval_steps
        self.answers = {}
        self._pass = tf.function(self._on_replicas)

    def __call__(self):
        """{name: number}: means of the measures, "loss" and scores of every evaluation split.

        Over at most `max_eval_steps` batches of each; the answers stay in `answers`, {split: {name: array}}.
        """
        results = {}
        for prefix, split in self.task.eval_splits.items():
            sums, answers = self.over(split, self.most)
            self.answers[split] = answers
            found = means_of(self.task, sums)
            if self.task.scores:
                found |= self.task.scores(answers, split)
            results |= {f"{prefix}{name}": value for name, value in found.items()}
        return results

    def over(self, split, most=-1):
        """One pass over a split, or over at most `most` batches of it.

        Returns {measure: [sum, sum of weights]} and the task's {answer: array [n, ...]} of n examples.
        """
        sums, kept = collections.defaultdict(lambda: np.zeros(2)), collections.defaultdict(list)
        batches = iter(self.task.eval_batches(self.rows, split).take(most))
        while True:
            with readable():
                batch = next(batches, None)
            if batch is None:
                return sums, {name: np.concatenate(parts) for name, parts in kept.items()}
            measures, answers = self._pass(share_out(self.strategy, batch))
            for name, value in measures.items():
                sums[name] += value.numpy()
            for name, value in answers.items():
                kept[name].append(value.numpy()[answers["row_numbers"].numpy() > 0])

    def _on_replicas(self, batch):
        return on_first_replica(self.strategy, self.strategy.run(self._on_replica, args=(batch,)))

    def _on_replica(self, batch):
        batch = batch if isinstance(self.strategy, tf.distribute.TPUStrategy) else trimmed(batch)
        outputs = self.model(batch)
        measures = self.task.measures(outputs, batch)
        sums = {name: tf.stack([tf.reduce_sum(v * w), tf.reduce_sum(w)]) for name, (v, w) in measures.items()}
        return total(sums), gathered(self.task.answers(outputs, batch)) if self.task.answers else {}


def _step(learner, batches, step):
    try:
        with readable():
            batch = next(batches)
        return learner.step(batch)
    except (tf.errors.ResourceExhaustedError, MemoryError) as error:
        raise TrainingError(
            f"Memory ran out in step {step} with train_batch_size {learner.config.train_batch_size} "
            f"({reason_of(error)}). Raise num_accumulation_steps (the result stays the same), "
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
        self.task, self.folder, self.pending, self.since = task, folder, [], time.monotonic()

    def add(self, step, result):
        self.pending.append((step, result))

    def write(self, step, *, expect_finite):
        """Writes one line of metrics over the steps since the last one; returns its short form."""
        results = [(number, tf.nest.map_structure(lambda x: x.numpy(), result)) for number, result in self.pending]
        if expect_finite:
            self._expect_finite(results)
        summed = {
            name: sum(np.float64(result["measures"][name]) for _, result in results)
            for name in results[0][1]["measures"]
        }
        seconds = time.monotonic() - self.since
        values = means_of(self.task, summed)
        values["learning_rate"] = float(results[-1][1]["learning_rate"])
        values["gradient_norm"] = float(np.mean([result["gradient_norm"] for _, result in results]))
        values["tokens_per_second"] = float(sum(result["tokens"] for _, result in results)) / seconds
        self.folder.log(step, values)
        self.pending, self.since = [], time.monotonic()
        return f"loss {values['loss']:.3f}  {values['tokens_per_second']:.0f} tokens/s"

    def _expect_finite(self, results):
        for step, result in results:
            if not np.isfinite(result["gradient_norm"]):
                kept = sorted(os.listdir(self.folder.checkpoints)) if os.path.isdir(self.folder.checkpoints) else []
                last = [name.removesuffix(".index") for name in kept if name.endswith(".index")]
                raise TrainingError(
                    f"The loss or its gradient is not a number in step {step}. Kept: "
                    f"{', '.join(last) or 'no checkpoint'}. Start again in another output_dir with a lower "
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

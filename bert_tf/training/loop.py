"""The training loop: steps, evaluations, checkpoints; resumes, stops on signals and reports progress."""

import contextlib
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import Interrupted, TrainingError, reason_of
from bert_tf.runtime import stop_signals
from bert_tf.runtime.progress import progress
from bert_tf.training import checkpoint_paths, input_streams, nonfinite
from bert_tf.training.checkpointing import TrainState
from bert_tf.training.distribute import any_process, barrier, is_chief, rows_of_process, spans_processes
from bert_tf.training.early_stopping import EarlyStopping
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.metrics_log import MetricsLog
from bert_tf.training.run_directory import RunFolder
from bert_tf.training.task import Batch, Task
from bert_tf.training.train_step import TrainStep

FIRST_SAVE_SECONDS, SAVE_SECONDS = 120.0, 1800.0  # a checkpoint is due by then, whatever the step
EARLY_STEPS = 5  # before the first estimate of the training time


def train(
    task: Task,
    model: keras.Model,
    config: TrainConfig,
    strategy: tf.distribute.Strategy,
    folder: RunFolder,
    evaluator: Evaluator | None = None,
    evaluates_start: bool = False,
    warns_half_way: Callable[[Mapping[str, float]], None] | None = None,
) -> int:
    """Trains the model up to `config.num_train_steps`, or for `config.budget_minutes`.

    Resumes from the newest complete checkpoint of the run folder: the same command produces bitwise the same weights
    however often it was killed and restarted, except with a time budget. Saves every `save_checkpoints_steps`; a single
    process also saves after its first two minutes and after half an hour without a checkpoint. Evaluates when
    `EarlyStopping.is_due`; may stop early with `early_stop_patience`; with `keep_best` the model and the last
    checkpoint end with the weights of the best evaluation. Pass an `evaluator` to trace it only once if you use it
    again. evaluates_start: evaluate before the first step, too, as step 0; its weights are kept if none are better.
    warns_half_way: called with the results of the first evaluation in the second half of training.
    Returns the step of the final weights. Raises TrainingError (Diverged if the loss is not finite), and Interrupted
    after SIGTERM or Ctrl-C, with everything saved.
    """
    loop = TrainingLoop(task, model, config, strategy, folder, evaluator or Evaluator(task, model, config, strategy))
    loop.evaluates_start, loop.warns_half_way = evaluates_start, warns_half_way
    try:
        total = None if config.budget_minutes else config.num_train_steps
        with stop_signals.deferred() as signals, progress("training steps", total) as report:
            step = loop.run(signals, report)
            if any_process(strategy, bool(signals)):
                raise _interrupted(step, signals)
    finally:
        loop.close()
    sentences, summary = loop.early_stopping.summary(step)
    for sentence in sentences:
        print(sentence, flush=True)
    if summary:
        folder.update(selection=summary)
    return loop.early_stopping.best_step(step)


class TrainingLoop:
    """A training run: its parts, and what happens after each step.

    Attributes:
        evaluates_start, warns_half_way: see `train`.
        saves_at: clock time when a checkpoint is due, whatever the step.
        saved: the step of the last checkpoint, 0 before the first.
    """

    evaluates_start = False
    warns_half_way: Callable[[Mapping[str, float]], None] | None = None
    saves_at = math.inf
    saved = 0
    _compiled: frozenset[tuple[Any, ...]] = frozenset()

    def __init__(
        self,
        task: Task,
        model: keras.Model,
        config: TrainConfig,
        strategy: tf.distribute.Strategy,
        folder: RunFolder,
        evaluator: Evaluator,
    ) -> None:
        self.task, self.config, self.folder = task, config, folder
        self.streams = input_streams.number_of_streams(task, config, folder.checkpoints)
        rows = rows_of_process(strategy, config.train_batch_size)
        self.batches = input_streams.open_input(task, config, self.streams, rows)
        with strategy.scope():
            self.train_step = TrainStep(task, model, config, strategy)
        self.early_stopping = EarlyStopping(task, config, self.train_step.variables, folder, strategy)
        parts = {**self.train_step.state(), **self.batches.parts(), **self.early_stopping.state()}
        self.state = TrainState(
            folder.checkpoints, parts, writes=is_chief(strategy), max_to_keep=config.keep_checkpoint_max
        )
        self.early, self.budget = EARLY_STEPS, self.train_step.budget
        self.log, self.evaluate = MetricsLog(task, folder, self._explain), evaluator

    def run(self, signals: Sequence[int], report: Callable[..., None]) -> int:
        """Trains to the last step and returns it; `signals` receives the stop signals."""
        step = self.saved = self.state.restore()
        if step:
            self.batches.restore(checkpoint_paths.path_of(self.folder.checkpoints, step))
        while self.train_step.micro_batches < self.folder.run.get("micro_batches", 1):  # as before the stop
            if not self.train_step.halve_micro_batch_size():
                break
        self.folder.forget_metrics_after(step)
        nonfinite.forget(self.folder)
        self.early = step + EARLY_STEPS
        if step and self.folder.is_chief and not self._is_last(step):
            total = f"with {self.budget} used" if self.budget.minutes else f"of {self.config.num_train_steps:,}"
            print(f"Continuing after step {step:,} {total}.", flush=True)
        report(step)
        if self.early_stopping.was_interrupted(step):
            self._evaluate(step)
            if self._is_last(step):
                self._save(step)
        self._report_all_reduce()
        if not step and self.evaluates_start:
            self._evaluate(0)
        self.log.restart_clock()
        self.saves_at = time.monotonic() + FIRST_SAVE_SECONDS
        while not self._is_last(step):
            self.train_step.unfreeze(step)
            count = self._steps_at_once(step)
            compiles = self._compiles(step, min(count, 2), *self.train_step.active)
            with self._interruptible(step) if compiles else contextlib.nullcontext():
                before, results = step, self._steps(step, count, stop_requested=bool(signals))
            self.budget.count()
            for step, result in enumerate(results, before + 1):
                self.log.add(step, result)
            stops = _agree_to_stop(signals, results[-1])
            try:
                is_saved = self._after(step, before, report, is_stopping=bool(stops))
            except Interrupted as stop:  # during an evaluation
                if step != self.saved:
                    self._save(step, awaits_evaluation=True)
                stops = [stop.exit_code - 128]
            else:
                if signals and not stops and not spans_processes(self.train_step.strategy):  # arrived since then
                    stops = list(signals)
                    if not is_saved:
                        self._save(step)
            if stops:
                barrier(self.train_step.strategy)
                raise _interrupted(step, stops)
        return step

    def _compiles(self, step: int, *form: Any) -> bool:
        """Returns whether something of this form is new; saves first, because compiling it may take minutes."""
        if form in self._compiled or spans_processes(self.train_step.strategy):
            return False
        self._compiled |= {form}
        if step != self.saved:
            self._save(step, awaits_evaluation=self.early_stopping.was_interrupted(step))
        return True

    @contextlib.contextmanager
    def _interruptible(self, step: int) -> Iterator[None]:
        """Lets a signal stop the block at once: nothing is lost, because `step` is saved."""
        try:
            with stop_signals.undeferred():
                yield
        except KeyboardInterrupt as stop:
            raise _interrupted(step, [*stop.args, signal.SIGINT][:1]) from None

    def _report_all_reduce(self) -> None:
        size, replicas = self.train_step.all_reduced_bytes(), self.train_step.strategy.num_replicas_in_sync
        self.folder.update(replicas=replicas, all_reduced_bytes=size)
        if size and self.folder.is_chief:
            precision = self.config.all_reduce_precision
            print(f"All-reduce per step: {size / 1e6:,.1f} MB of {precision}, {replicas} replicas.", flush=True)

    def _steps_at_once(self, step: int) -> int:
        """Number of steps after this one until something else is due."""
        if step < self.early:
            return 1
        most = self.train_step.iterations_per_loop
        if not self.budget.minutes:
            most = min(most, self.config.num_train_steps - step)
        return next((number for number in range(1, most) if self._is_due(step + number)), most)

    def _is_due(self, step: int) -> bool:
        """Returns whether something follows a step: an evaluation, a checkpoint or unfreezing."""
        unfreezes = self.config.unfreeze_steps and step % self.config.unfreeze_steps == 0
        return unfreezes or self.early_stopping.is_due(step) or step % self.config.save_checkpoints_steps == 0

    def _steps(self, step: int, count: int, *, stop_requested: bool) -> Sequence[Mapping[str, Any]]:
        """Takes steps after `step`; if memory runs out, with smaller micro-batches if allowed."""
        with self.task.reading():
            batches = [next(self.batches) for _ in range(count)]
        while True:
            try:
                return self.train_step.steps(batches, stop_requested=stop_requested)
            except (tf.errors.ResourceExhaustedError, MemoryError) as error:
                # all gradients are computed before the first weight changes: nothing has happened yet
                if not self.train_step.halve_micro_batch_size():
                    raise _out_of_memory(self.train_step, step + 1, error) from None
                self._report_micro_batches(step + 1)

    def _report_micro_batches(self, step: int) -> None:
        parts = self.train_step.micro_batches
        self.folder.update(micro_batches=parts)
        if self.folder.is_chief:
            print(f"Memory ran out in step {step:,}: {parts} micro-batches per step from here on.", flush=True)

    def _is_last(self, step: int) -> bool:
        is_over = self.budget.is_over if self.budget.minutes else step >= self.config.num_train_steps
        return is_over or self.early_stopping.should_stop

    def _after(self, step: int, before: int, report: Callable[..., None], *, is_stopping: bool) -> bool:
        """Logs metrics and runs evaluations and saves due since the step `before`; returns whether it saved."""
        interval = max(1, min(100, self.config.num_train_steps // 100))  # between log lines
        is_due = self.early_stopping.is_due(step)
        evaluates = is_due and not is_stopping
        saves = is_stopping or step % self.config.save_checkpoints_steps == 0 or self._has_lasted()
        if evaluates or saves or self._is_last(step) or step // interval != before // interval:
            report(step, self.log.write(step) + f"  {self.budget}" * bool(self.budget.minutes))
        elif step <= self.early:
            self.log.wait()
            report(step)
        if evaluates:
            self._evaluate(step)
        saves |= self._is_last(step) or self.saved == step  # saved without the evaluation's results
        if saves:
            self._save(step, awaits_evaluation=is_due and is_stopping)
        if evaluates or saves:
            self.log.restart_clock()
            self.budget.restart_clock()
        return saves

    def _has_lasted(self) -> bool:
        """Returns whether a checkpoint is due by the clock; never with several processes, whose clocks differ."""
        return time.monotonic() > self.saves_at and not spans_processes(self.train_step.strategy)

    def _evaluate(self, step: int) -> None:
        compiles = self._compiles(step, "evaluation")
        with self.train_step.average.in_model() if step else contextlib.nullcontext():
            with self._interruptible(step) if compiles else contextlib.nullcontext():
                results = self.evaluate()
            self.early_stopping.add(step, results)  # which may save the weights
        self.folder.log(step, {f"eval_{name}": value for name, value in results.items()})
        names = [name for name in results if not name.endswith(tuple(self.task.objectives))]
        if self.folder.is_chief:
            data = self.folder.run.get("evaluated_on", "held-out")
            what = "held out" if data.startswith("held-out") else f"on {data}"
            print(f"Step {step}, {what}: " + "  ".join(f"{name} {results[name]:.4f}" for name in names), flush=True)
            share = float(self.budget.share()) if self.budget.minutes else step / self.config.num_train_steps
            if self.warns_half_way and share >= 0.5:
                self.warns_half_way(results)
                self.warns_half_way = None

    def _save(self, step: int, *, awaits_evaluation: bool = False) -> None:
        """Saves; the last checkpoint has the final weights, unless its evaluation is still to come."""
        if self._is_last(step) and not awaits_evaluation:
            self.train_step.average.put_into_model()
            self.early_stopping.restore_best(step)
        if self.streams > 1:  # in all processes, before the checkpoint's index
            self.batches.save(checkpoint_paths.path_of(self.folder.checkpoints, step))
            barrier(self.train_step.strategy)
        self.state.save(step)
        self.saved = step
        self.saves_at = time.monotonic() + SAVE_SECONDS
        if self.budget.minutes:
            self.folder.update(budget_seconds=round(float(self.budget.used.numpy()), 3))
        self.early_stopping.remove_outdated()

    def _explain(self, step: int) -> str:
        """Explains why a step was not finite: reads its batch again and checks its layers."""
        names = map(os.path.basename, checkpoint_paths.newest_first(self.folder.checkpoints))
        files = f"kept: {', '.join(names) or 'no checkpoint'}"
        cause = nonfinite.Cause()
        if self.folder.is_chief:
            cause = nonfinite.explain(self.train_step, self._batch_of(step), step, self.folder)
            files = f"see {nonfinite.REPORT} and the batch, {nonfinite.ROWS}, in {self.folder.path}; {files}"
        return f"Training stopped in step {step} because {cause} ({files}): {cause.remedy}."

    def _batch_of(self, step: int) -> Batch:
        """The batch of an earlier step, read from the newest checkpoint's data position, or from the start."""
        rows = range(self.config.train_batch_size)
        batches = input_streams.open_input(self.task, self.config, self.streams, rows)
        start = self.state.rewind(**batches.parts())
        if start:
            batches.restore(checkpoint_paths.path_of(self.folder.checkpoints, start))
        for _ in range(start, step):
            batch = next(batches)
        return batch

    def close(self) -> None:
        """Removes temporary files."""
        self.state.close()
        self.early_stopping.close()


def _agree_to_stop(signals: Sequence[int], result: Mapping[str, Any]) -> list[int]:
    """The signals to stop for after a step; all workers stop if one had received a signal before it."""
    if "stop_requests" not in result:
        return list(signals)
    return (list(signals) or [signal.SIGTERM]) if result["stop_requests"].numpy() > 0 else []


def _out_of_memory(train_step: TrainStep, step: int, error: BaseException) -> TrainingError:
    return TrainingError(
        f"Memory ran out in step {step} with train_batch_size {train_step.config.train_batch_size} "
        f"({reason_of(error)}). Raise num_accumulation_steps or pass auto, or use gradient_checkpointing (same "
        "result), or lower train_batch_size or max_seq_length."
    )


def _interrupted(step: int, signals: Sequence[int]) -> Interrupted:
    sentence = f"Stopped after step {step}, which is saved; run the same command again to continue."
    return Interrupted(sentence if step else "Stopped before the first step; run the same command again.", *signals[:1])

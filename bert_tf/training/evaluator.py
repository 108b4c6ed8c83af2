"""Evaluation on held-out examples, during and after training."""

from __future__ import annotations

import collections
import contextlib
import math
from typing import Any

import numpy as np

from bert_tf.config.train_config import TrainConfig
from bert_tf.data.pipeline import iterate
from bert_tf.errors import Interrupted, TrainingError, reason_of
from bert_tf.model.packing import PackingSpec, local_costs
from bert_tf.runtime import backend, stop_signals
from bert_tf.runtime.lazy import keras, tf
from bert_tf.training.distribute import (
    all_gather,
    all_reduce_sum,
    needs_static_shapes,
    on_replicas,
    shard_batch,
    spans_processes,
)
from bert_tf.training.metric_sums import averages, sum_metrics
from bert_tf.training.task import Batch, Task

STOPPED = "Stopped in an evaluation; run the same command again to continue."


class Evaluator:
    """Evaluates a model on held-out examples; traced once, called any number of times.

    Attributes:
        predictions: {split: {name: array [n, ...]}} of the last call.
        packing: how texts share rows; None if they do not.
    """

    def __init__(self, task: Task, model: keras.Model, config: TrainConfig, strategy: tf.distribute.Strategy) -> None:
        self.task, self.model, self.strategy = task, model, strategy
        self.batch_size = (
            math.ceil(config.eval_batch_size / strategy.num_replicas_in_sync) * strategy.num_replicas_in_sync
        )
        self.max_batches = config.max_eval_steps
        self.predictions: dict[str, dict[str, np.ndarray]] = {}
        self._batches: dict[str, tf.data.Dataset] = {}
        self.packing = None if needs_static_shapes(strategy, config.jit_compile) else PackingSpec(local_costs())
        self._evaluate_batch = on_replicas(strategy, self._on_replica)
        self._sums_and_predictions = self._forward
        if backend.should_jit(config.jit_compile):
            self._sums_and_predictions = tf.function(self._forward, jit_compile=True, autograph=False)

    def __call__(self) -> dict[str, float]:
        """Returns {name: number}: mean metrics, "loss" and scores of every evaluation split.

        Evaluates at most `max_eval_steps` batches of each.
        """
        results: dict[str, float] = {}
        for prefix, split in self.task.eval_splits.items():
            sums, predictions = self.evaluate_split(split, self.max_batches)
            self.predictions[split] = predictions
            values = averages(self.task, sums) | self.task.scores(predictions, split)
            results |= {f"{prefix}{name}": value for name, value in values.items()}
        return results

    def batches(self, split: str) -> tf.data.Dataset:
        """One pass over a split in evaluation batches; its pipeline is built once."""
        if split not in self._batches:
            self._batches[split] = self.task.eval_batches(self.batch_size, split)
        return self._batches[split]

    def evaluate_split(self, split: str, max_batches: int = -1) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Makes one pass over a split, or over at most `max_batches` batches of it.

        Returns {metric: [sum, sum of weights]} and the task's predictions for n examples, {name: array [n, ...]}.
        Raises Interrupted after a signal; signals are deferred here if several processes train together.
        """
        with stop_signals.deferred() if spans_processes(self.strategy) else contextlib.nullcontext():
            return self._evaluate_split(split, max_batches)

    def _evaluate_split(self, split: str, max_batches: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        sums: dict[str, np.ndarray] = collections.defaultdict(lambda: np.zeros(2))
        chunks: dict[str, list[np.ndarray]] = collections.defaultdict(list)
        batches = iterate(self.batches(split).take(max_batches))
        while True:
            with self.task.reading():
                batch = next(batches, None)
            if batch is None:
                return sums, {name: np.concatenate(parts) for name, parts in chunks.items()}
            metrics, predictions = self._batch_or_stop(batch)
            for name, value in metrics.items():
                sums[name] += value.numpy()
            for name, value in predictions.items():
                chunks[name].append(value.numpy()[predictions["row_numbers"].numpy() > 0])

    def _batch_or_stop(self, batch: Batch) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """The results of a batch; raises Interrupted after a signal, in all processes if one has received it."""
        signals = list(stop_signals.requested())
        stop = [tf.constant(float(bool(signals)))] if spans_processes(self.strategy) else []
        if signals and not stop:
            raise Interrupted(STOPPED, signals[0])
        try:
            *results, requests = self._evaluate_batch(shard_batch(self.strategy, batch), *stop)
        except (tf.errors.ResourceExhaustedError, MemoryError) as error:
            raise TrainingError(
                f"Memory ran out in evaluation with eval_batch_size {self.batch_size} ({reason_of(error)}): lower "
                "eval_batch_size or max_seq_length."
            ) from None
        if any(number.numpy() > 0 for number in requests):
            raise Interrupted(STOPPED, *signals[:1])
        metrics, predictions = results
        return metrics, predictions

    def _on_replica(self, batch: Batch, *stop: tf.Tensor) -> Any:
        sums, predictions = self._sums_and_predictions(batch)
        return all_reduce_sum(sums), all_gather(predictions), [all_reduce_sum(requested) for requested in stop]

    def _forward(self, batch: Batch) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        outputs = self.model(batch, packing=self.packing)
        return sum_metrics(self.task.metrics(outputs, batch)), self.task.predictions(outputs, batch)

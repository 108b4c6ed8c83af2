"""Log of training metrics: means over the steps since the previous line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bert_tf.errors import TrainingError
from bert_tf.runtime.lazy import tf
from bert_tf.training.metric_sums import averages
from bert_tf.training.run_directory import RunFolder
from bert_tf.training.task import Task


class Diverged(TrainingError):
    """The loss or its gradient is not finite: the settings do not work for this model and data."""


class MetricsLog:
    """Collects the results of steps and logs their means, without waiting for every step."""

    def __init__(self, task: Task, folder: RunFolder, explain: Callable[[int], str]) -> None:
        self.task, self.folder, self.explain = task, folder, explain  # explains why a step's loss is not finite
        self.pending: list[tuple[int, Mapping[str, Any]]] = []
        self.restart_clock()

    def restart_clock(self) -> None:
        """Restarts the clock: evaluating and saving do not count as training."""
        self.start = time.monotonic()

    def add(self, step: int, result: Mapping[str, Any]) -> None:
        """Adds the result of a step, without waiting for it."""
        self.pending.append((step, result))

    def wait(self) -> None:
        """Waits for the step added last."""
        self.pending[-1][1]["gradient_norm"].numpy()

    def write(self, step: int) -> str:
        """Logs the metrics of the steps since the last call; returns a short summary. Raises Diverged."""
        results = [(number, tf.nest.map_structure(lambda x: x.numpy(), result)) for number, result in self.pending]
        for number, result in results:
            if result["diverged"]:
                raise Diverged(self.explain(number))
        sums = {
            name: np.sum([np.float64(result["metrics"][name]) for _, result in results], axis=0)
            for name in results[0][1]["metrics"]
        }
        seconds = time.monotonic() - self.start
        values = averages(self.task, sums)
        values["learning_rate"] = float(results[-1][1]["learning_rate"])
        values["gradient_norm"] = float(np.mean([result["gradient_norm"] for _, result in results]))
        values["tokens_per_second"] = float(sum(result["tokens"] for _, result in results)) / seconds
        self.folder.log(step, values)
        self.pending = []
        self.restart_clock()
        return f"loss {values['loss']:.3f}  {values['tokens_per_second']:.0f} tokens/s"

"""Task: the interface that training and evaluation use."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.runtime.lazy import tf

Batch = Mapping[str, "tf.Tensor"]
Predictions = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """A metric minimized by training: its mean over the global batch, times `factor`.

    The mean is the sum of values * weights over all replicas and micro-batches, divided by the sum of weights over
    all of them plus `epsilon`.
    """

    factor: float = 1.0
    epsilon: float = 0.0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Marks a loss that compares the rows of the global batch with each other, as in-batch negatives do.

    Micro-batches and replicas do not change such a loss: `training.train_step` combines the rows of all of them.

    Attributes:
        output: the model output read by `metrics`, float32 [B, ...].
        columns: the batch entries read by `metrics`.
    """

    output: str
    columns: tuple[str, ...]


class Learnable(abc.ABC):
    """The part of a task that a training step needs. B rows per batch.

    Attributes:
        objectives: {metric: Objective}, the terms of the loss.
        comparison: how the loss compares the rows of a batch; None if it is a mean over rows.
        variables: {name: variable} to train in addition to the model.
        needs_probe: whether `training_metrics` reads the activations of a pass with all tokens visible.
    """

    objectives: Mapping[str, Objective]
    comparison: Comparison | None = None
    variables: Mapping[str, tf.Variable] = types.MappingProxyType({})
    needs_probe: bool = False

    @abc.abstractmethod
    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """{metric: weights} for each metric of `objectives`, from the batch only."""

    @abc.abstractmethod
    def metrics(self, outputs: Any, batch: Batch) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """{metric: (values, weights)}, float32 tensors of one shape: losses, and scores defined as means."""

    def training_metrics(
        self, outputs: Any, batch: Batch, probe: Any, packing: Any
    ) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """`metrics` of a training step, plus additional loss terms.

        probe: an `activation_probe.Probe` if `needs_probe`. packing: the pass's `PackingSpec` or None.
        """
        return self.metrics(outputs, batch)

    def row_texts(self, batch: Batch) -> list[str]:
        """Each row of a batch as one text, for display; [] if it contains no texts."""
        return []


class Task(Learnable):
    """A model to learn, its data and its scores. B rows per batch.

    Attributes:
        name: the task in `tasks.catalog`.
        eval_splits: {prefix: split} of the splits with known labels; the prefix is prepended to score names.
        criterion: the evaluation result, with its prefix, that decides which checkpoint or run is best; higher is
            better. Empty if there is none, as without evaluation splits.
        head: the `Head` of a fine-tuned model.
    """

    name: str
    head: Any = None
    eval_splits: Mapping[str, str] = {"": "eval"}
    criterion: str = ""

    @abc.abstractmethod
    def train_batches(self, batch_size: int, seed: int) -> tf.data.Dataset:
        """An infinite dataset of batches: dictionaries of tensors with static shapes [B, ...]."""

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """A context for reading batches that turns errors from damaged files into a UserError."""
        return contextlib.nullcontext()

    @property
    def train_shards(self) -> int:
        """The number of files to divide among streams (`training.input_streams`); 1 for a single stream."""
        return 1

    def stream_batches(self, stream: int, streams: int, size: int, seed: int) -> tf.data.Dataset:
        """A stream's `size` rows of each batch, infinite, if there are several train_shards."""
        raise NotImplementedError

    @abc.abstractmethod
    def eval_batches(self, batch_size: int, split: str) -> tf.data.Dataset:
        """One pass over a split in its order, the last batch padded with rows of weight 0."""

    def predictions(self, outputs: Any, batch: Batch) -> dict[str, tf.Tensor]:
        """{name: float32 [B, ...]}; {} for a task whose scores are only means.

        Includes "row_numbers": 1, 2, ... in the order of the split, 0 for padding rows.
        """
        return {}

    def scores(self, predictions: Predictions, split: str) -> dict[str, float]:
        """{score: number} for scores that are not means over examples (F1, correlations), over a whole split.

        predictions: arrays [n, ...] returned by `predictions`, all batches concatenated, without padding.
        """
        return {}

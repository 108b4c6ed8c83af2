"""What training needs of a task; `tasks.task.Task` is one."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

Batch = Mapping[str, tf.Tensor]


class Objective(Protocol):
    """A metric that is minimized: its mean over the global batch, times `factor`; see `tasks.task.Objective`."""

    @property
    def factor(self) -> float:
        """The weight of the metric in the loss."""

    @property
    def epsilon(self) -> float:
        """A number that is added to the sum of weights."""


class Comparison(Protocol):
    """What a loss needs that compares the rows of a batch with each other; see `tasks.task.Comparison`."""

    @property
    def output(self) -> str:
        """The output of the model that is compared, float32 [B, ...]."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The entries of a batch that `metrics` reads."""


class TrainableTask(Protocol):
    """The part of `tasks.task.Task` that training calls; documented there."""

    @property
    def objectives(self) -> Mapping[str, Objective]:
        """The metrics that the loss consists of."""

    @property
    def comparison(self) -> Comparison | None:
        """What is compared between rows; None where the loss is a mean over rows."""

    @property
    def eval_splits(self) -> Mapping[str, str]:
        """{prefix of the results: split}."""

    @property
    def criterion(self) -> str:
        """The result that selects the best weights, or ""."""

    def train_batches(self, batch_size: int, seed: int) -> tf.data.Dataset:
        """Returns an endless dataset of batches."""

    @property
    def shards(self) -> Sequence[str]:
        """The files of all records; () where there are none."""

    @property
    def train_shards(self) -> int:
        """The number of files to divide among streams (`training.input_streams`); 1: there is one stream."""

    def stream_batches(self, stream: int, streams: int, size: int, seed: int) -> tf.data.Dataset:
        """Returns an endless dataset of `size` rows of each batch, from this stream's share of the shards."""

    def eval_batches(self, batch_size: int, split: str) -> tf.data.Dataset:
        """Returns one pass over a split."""

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns {metric: weights} for each objective."""

    def metrics(self, outputs: Any, batch: Batch) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """Returns {metric: (values, weights)}."""

    def predictions(self, outputs: Any, batch: Batch) -> dict[str, tf.Tensor]:
        """Returns {name: [B, ...]}, with "row_numbers" unless it is empty."""

    def scores(self, predictions: Mapping[str, np.ndarray], split: str) -> dict[str, float]:
        """Returns {score: number} of the predictions for a whole split."""

    def row_texts(self, batch: Batch) -> list[str]:
        """Returns the tokens of each row as text, or []."""

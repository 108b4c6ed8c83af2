"""The batches of training from many shards: a batch consists of lanes, each of which reads shards of its own.

L lanes, B rows of a batch: lane l fills the rows from l * B / L on. A process reads the lanes of its own replicas' rows
and no other shards; what a lane reads depends on its number alone. The batches are hence the same for any number of
processes, and one can resume what several began. Where a lane has read all its shards, it begins again on its own.
"""

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from bert_tf.config.train_config import TrainConfig
from bert_tf.data.pipeline import iterate
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime import files
from bert_tf.training import checkpoint_paths
from bert_tf.training.trainable_task import Batch, TrainableTask

SHARDS_PER_LANE = 16  # at least, where nobody gives a number
MOST_LANES = 64  # where nobody gives a number: a process that reads all of them has 2 files of each open


def number_of_lanes(task: TrainableTask, config: TrainConfig, folder: str) -> int:
    """Those of the newest checkpoint in a folder, else `config.input_lanes`, else what suits the number of shards.

    Raises UserError for a number that does not divide the batch, or above that of the shards.
    """
    newest = checkpoint_paths.newest_first(folder)
    if newest:
        return max(1, len(checkpoint_paths.lanes_of(newest[0])))
    shards, lanes = task.train_shards, config.input_lanes
    if not lanes:
        most = min(shards // SHARDS_PER_LANE, MOST_LANES)
        return math.gcd(config.train_batch_size, 1 << max(0, most.bit_length() - 1))
    if config.train_batch_size % lanes or lanes > shards:
        raise UserError(
            f"input_lanes is {lanes}; expected a divisor of train_batch_size ({config.train_batch_size}) up to the "
            f"number of shards ({shards})."
        )
    return lanes


class WholeInput:
    """The batches of a task as one stream, which every process reads; its position is in the checkpoint."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self.batches = batches

    def __next__(self) -> Batch:
        return next(self.batches)

    def parts(self) -> dict[str, Any]:
        """What the checkpoint of the run must contain."""
        return {"data": self.batches}

    def save(self, prefix: str) -> None:
        """Nothing: see `parts`."""

    def restore(self, prefix: str) -> None:
        """Nothing: see `parts`."""


class LaneInput:
    """The lanes that the rows of a process come from; rows of other processes are zeros.

    Args:
        lanes: {number of the lane: its batches}, of those that this process reads.
        count: L.
        writes: the numbers of those whose position this process saves.
    """

    def __init__(self, lanes: Mapping[int, Iterator[Batch]], count: int, writes: range) -> None:
        self.lanes, self.count, self.writes = lanes, count, writes

    def __next__(self) -> Batch:
        parts = {lane: next(batches) for lane, batches in self.lanes.items()}
        some = next(iter(parts.values()))
        zeros = {name: tf.zeros_like(x) for name, x in some.items()}
        rows = [parts.get(lane, zeros) for lane in range(self.count)]
        return {name: tf.concat([part[name] for part in rows], 0) for name in some}

    def parts(self) -> dict[str, Any]:
        """Nothing: the positions of lanes are in files of their own."""
        return {}

    def save(self, prefix: str) -> None:
        """Saves the positions of lanes beside the checkpoint of this prefix; before its index, which makes it whole."""
        files.make_folder(os.path.dirname(prefix))
        for lane in self.writes:
            tf.train.Checkpoint(data=self.lanes[lane]).write(checkpoint_paths.lane_path(prefix, lane))

    def restore(self, prefix: str) -> None:
        """Continues from the positions of a checkpoint. Raises UserError if they cannot be read."""
        for lane, batches in self.lanes.items():
            path = checkpoint_paths.lane_path(prefix, lane)
            try:
                tf.train.Checkpoint(data=batches).read(path).assert_consumed()
            except Exception as error:  # a damaged file raises anything
                raise UserError(
                    f"{path} cannot be read ({reason_of(error)}): remove the files of this checkpoint, so that an "
                    "earlier one is taken."
                ) from None


def open_input(task: TrainableTask, config: TrainConfig, lanes: int, rows: range) -> WholeInput | LaneInput:
    """The batches of training from the beginning, for a process that needs the given rows of each."""
    size, seed = config.train_batch_size, config.random_seed
    if lanes == 1:
        return WholeInput(iterate(task.train_batches(size, seed)))
    of_lane = size // lanes
    needed = range(rows.start // of_lane, math.ceil(rows.stop / of_lane))
    first_rows_inside = range(math.ceil(rows.start / of_lane), math.ceil(rows.stop / of_lane))
    batches = {lane: iterate(task.lane_batches(lane, lanes, of_lane, seed)) for lane in needed}
    return LaneInput(batches, lanes, first_rows_inside)

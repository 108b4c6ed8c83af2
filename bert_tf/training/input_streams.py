"""Training batches from many shards: a batch consists of streams, each reading its own shards.

S streams, B rows per batch: stream s fills the rows from s * B / S on. A process reads only the streams and shards of
its replicas' rows; the content of a stream depends only on its number. Batches are therefore the same for any number
of processes, and one process can resume a run started by several. A stream that has read all its shards starts over.
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
from bert_tf.training.task import Batch, Task

SHARDS_PER_STREAM = 16  # minimum, if no number is specified
MAX_STREAMS = 64  # if no number is specified: a process reading all of them has 2 files of each open


def number_of_streams(task: Task, config: TrainConfig, folder: str) -> int:
    """Returns the count in a folder's newest checkpoint, else `config.input_streams`, else one derived from the shards.

    Raises UserError if the number does not divide the batch or exceeds the number of shards.
    """
    newest = checkpoint_paths.newest_first(folder)
    if newest:
        return max(1, len(checkpoint_paths.streams_of(newest[0])))
    shards, streams = task.train_shards, config.input_streams
    if not streams:
        most = min(shards // SHARDS_PER_STREAM, MAX_STREAMS)
        return math.gcd(config.train_batch_size, 1 << max(0, most.bit_length() - 1))
    if config.train_batch_size % streams or streams > shards:
        raise UserError(
            f"input_streams is {streams}; expected a divisor of train_batch_size ({config.train_batch_size}) up to the "
            f"number of shards ({shards})."
        )
    return streams


class WholeInput:
    """A task's batches as one stream, read by every process; its position is in the checkpoint."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self.batches = batches

    def __next__(self) -> Batch:
        return next(self.batches)

    def parts(self) -> dict[str, Any]:
        """The objects to include in the run's checkpoint."""
        return {"data": self.batches}

    def save(self, prefix: str) -> None:
        """Does nothing: see `parts`."""

    def restore(self, prefix: str) -> None:
        """Does nothing: see `parts`."""


class StreamInput:
    """The streams of a process's rows; rows of other processes are zeros.

    Args:
        streams: {stream number: batches} of the streams this process reads.
        count: S.
        writes: the numbers of the streams whose positions this process saves.
    """

    def __init__(self, streams: Mapping[int, Iterator[Batch]], count: int, writes: range) -> None:
        self.streams, self.count, self.writes = streams, count, writes

    def __next__(self) -> Batch:
        parts = {stream: next(batches) for stream, batches in self.streams.items()}
        some = next(iter(parts.values()))
        zeros = {name: tf.zeros_like(x) for name, x in some.items()}
        rows = [parts.get(stream, zeros) for stream in range(self.count)]
        return {name: tf.concat([part[name] for part in rows], 0) for name in some}

    def parts(self) -> dict[str, Any]:
        """Nothing: stream positions are in separate files."""
        return {}

    def save(self, prefix: str) -> None:
        """Saves stream positions with the checkpoint of this prefix, before its index, which completes it."""
        files.make_folder(os.path.dirname(prefix))
        for stream in self.writes:
            tf.train.Checkpoint(data=self.streams[stream]).write(checkpoint_paths.stream_path(prefix, stream))

    def restore(self, prefix: str) -> None:
        """Continues from the positions of a checkpoint. Raises UserError if they cannot be read."""
        for stream, batches in self.streams.items():
            path = checkpoint_paths.stream_path(prefix, stream)
            try:
                tf.train.Checkpoint(data=batches).read(path).assert_consumed()
            except Exception as error:  # a damaged file raises anything
                raise UserError(
                    f"{path} cannot be read ({reason_of(error)}): remove the files of this checkpoint, so that an "
                    "earlier one is taken."
                ) from None


def open_input(task: Task, config: TrainConfig, streams: int, rows: range) -> WholeInput | StreamInput:
    """The training batches from the beginning, for a process that needs the given rows of each."""
    size, seed = config.train_batch_size, config.random_seed
    if streams == 1:
        return WholeInput(iterate(task.train_batches(size, seed)))
    of_stream = size // streams
    needed = range(rows.start // of_stream, math.ceil(rows.stop / of_stream))
    first_rows_inside = range(math.ceil(rows.start / of_stream), math.ceil(rows.stop / of_stream))
    batches = {stream: iterate(task.stream_batches(stream, streams, of_stream, seed)) for stream in needed}
    return StreamInput(batches, streams, first_rows_inside)

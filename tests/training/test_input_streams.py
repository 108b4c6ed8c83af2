"""Lanes of the input: the same batches for any number of processes, each of which reads only what it needs."""

import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf
import tiny
from training_steps import trained

from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError
from bert_tf.training import checkpoint_paths, input_streams

CONFIG = TrainConfig(train_batch_size=8, eval_batch_size=4, learning_rate=0.01, num_train_steps=4, num_warmup_steps=0)


class Numbers:
    """A task with streams: the rows of stream l are l * 1000, l * 1000 + 1, ..., shuffled."""

    train_shards = 64

    def __init__(self):
        self.opened = []

    def train_batches(self, size, seed):
        return tf.data.Dataset.range(100).repeat().batch(size).map(lambda x: {"row": x})

    def stream_batches(self, stream, count, size, seed):
        self.opened.append(stream)
        dataset = tf.data.Dataset.range(stream * 1000, stream * 1000 + 40).shuffle(20, seed=seed + stream).repeat()
        return dataset.batch(size, drop_remainder=True).map(lambda x: {"row": x})


def inputs(processes, count=4, task=None):
    """The input of each of several processes."""
    task = task or Numbers()
    rows = [range(8 * number // processes, 8 * (number + 1) // processes) for number in range(processes)]
    return [input_streams.open_input(task, CONFIG, count, each) for each in rows], rows


def rows_of(processes, rows):
    """A global batch, from the rows that each process needs."""
    return np.concatenate(
        [next(one)["row"].numpy()[each.start : each.stop] for one, each in zip(processes, rows, strict=True)]
    )


@pytest.mark.parametrize("processes", [2, 4, 8])
def test_batches_do_not_depend_on_the_number_of_processes(processes):
    alone, several = inputs(1), inputs(processes)
    for _ in range(30):  # beyond the end of a stream's records
        expected = rows_of(*alone)
        np.testing.assert_array_equal(rows_of(*several), expected)
    assert [row // 1000 for row in expected] == [0, 0, 1, 1, 2, 2, 3, 3]
    prefix = f"ram://lanes_{processes}/ckpt-30"  # a store
    for one in several[0]:
        one.save(prefix)
    assert len(checkpoint_paths.streams_of(prefix)) == 4
    again = inputs(2)
    for one in again[0]:
        one.restore(prefix)
    for _ in range(3):
        np.testing.assert_array_equal(rows_of(*again), rows_of(*alone))


def test_process_opens_only_its_own_lanes_and_saves_each_once():
    opened, saved = [], []
    for processes in (2, 3, 8):
        task = Numbers()
        ours, _ = inputs(processes, task=task)
        opened.append(task.opened)
        saved.append(sorted(stream for one in ours for stream in one.writes))
    assert opened == [[0, 1, 2, 3], [0, 1, 2, 2, 3], [0, 0, 1, 1, 2, 2, 3, 3]]  # 8 rows of 3 processes: 2, 3, 3
    assert saved == [[0, 1, 2, 3]] * 3


def test_number_of_streams_follows_the_shards_and_stays_that_of_the_checkpoint(tmp_path):
    task, folder = Numbers(), str(tmp_path)
    for shards, size, expected in ((1, 8, 1), (31, 8, 1), (64, 8, 4), (5000, 4096, 64), (5000, 24, 8)):
        task.train_shards = shards
        config = dataclasses.replace(CONFIG, train_batch_size=size)
        assert input_streams.number_of_streams(task, config, folder) == expected
    assert input_streams.number_of_streams(task, dataclasses.replace(CONFIG, input_streams=2), folder) == 2
    with pytest.raises(UserError, match=r"input_streams is 3; expected a divisor of train_batch_size \(8\)"):
        input_streams.number_of_streams(task, dataclasses.replace(CONFIG, input_streams=3), folder)
    (tmp_path / "ckpt-3.index").touch()
    assert input_streams.number_of_streams(task, CONFIG, folder) == 1, "of a run that began without streams"


def test_damaged_position_is_one_sentence(tmp_path):
    ours = inputs(1)[0][0]
    ours.save(str(tmp_path / "ckpt-1"))
    (tmp_path / "ckpt-1.lane-00002.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(UserError, match="ckpt-1.lane-00002 cannot be read .*: remove the files of this checkpoint"):
        ours.restore(str(tmp_path / "ckpt-1"))


def train(folder, steps):
    """The weights after training a tiny task with two streams."""
    batches = [tiny.batch(seed=seed) for seed in range(12)]
    task = tiny.task(batches, records={"train_files": ["a", "b"]})
    stacked = {name: np.stack([tiny.tensors(batch)[name] for batch in batches]) for name in batches[0]}
    rows = tf.data.Dataset.from_tensor_slices(stacked)
    task.stream_batches = lambda stream, count, size, seed: rows.shuffle(12, seed=seed + stream).repeat()
    config = dataclasses.replace(CONFIG, num_train_steps=4, save_checkpoints_steps=steps, input_streams=2)
    return trained(folder, config, task)[1]


@pytest.mark.slow
@pytest.mark.eager
def test_run_with_lanes_resumes_bitwise_and_a_checkpoint_without_index_is_not_taken(tmp_path):
    whole = train(tmp_path / "whole", steps=4)
    checkpoints = tmp_path / "killed/checkpoints"
    train(tmp_path / "killed", steps=1)
    assert len(os.listdir(checkpoints)) == 1 + 3 * (2 + 2 * 2), "the last three, each with two streams"
    for step in (3, 4):  # killed before the index was written
        (checkpoints / f"ckpt-{step}.index").unlink()
    resumed = train(tmp_path / "killed", steps=2)
    assert all(np.array_equal(array, resumed[name]) for name, array in whole.items())

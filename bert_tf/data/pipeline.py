"""dataset -> dataset functions shared by all tasks: read, shuffle, seed, batch.

B rows of a batch, T = max_seq_length positions. All randomness comes from a given seed; every iterator made here can be
saved and restored by `tf.train.Checkpoint` and continues exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bert_tf.data.hashed_bits import random_bits
from bert_tf.runtime.lazy import tf

SHUFFLE_ROUNDS = 16  # the default of 4 leaves positions that depend on the order of the file (correlation 0.18)
SEEDS = 7  # a separate stream of random bits, see data.hashed_bits
MEGA_BATCH, LEAST_MEGA_BATCHES = 50, 4  # most batches sorted by length together; fewest such groups in an epoch
STREAMS = 8  # a separate stream of random bits, like SEEDS
SHUFFLED = 10_000  # records
GROUPS = 1  # part of the seed for the order of batches


def no_autograph(function: Callable) -> Callable:
    """Excludes a `map` function from AutoGraph: translating their sources would take a third of the startup time."""
    return tf.autograph.experimental.do_not_convert(function)


def seed_of_stream(seed: int, stream: int) -> int:
    """A seed below 2 ** 31 for one of several streams of a run."""
    with tf.init_scope():
        return int(random_bits(seed, STREAMS, stream).numpy().item() & 0x7FFFFFF0)


def shuffle(dataset: tf.data.Dataset, *, seed: int, buffer: int = SHUFFLED) -> tf.data.Dataset:
    """Shuffles within a buffer, which becomes part of a saved iterator: keep it small."""
    return dataset.shuffle(buffer, seed=seed, reshuffle_each_iteration=True)


def batch_indices(
    count: int, size: int, *, seed: int | None = None, lengths: np.ndarray | None = None
) -> tf.data.Dataset:
    """The indices of the examples in each batch: dataset of int64 [size].

    count: the number of examples. seed: with a number, the dataset is endless: every example once per epoch, each epoch
    in a new order; a batch may span two epochs. No buffer: the whole state is one number. With None, one pass in order;
    the last batch is padded with `count`.
    lengths: example lengths, int [count]; with a seed, batches contain examples of similar length (`_grouped`).
    """
    offsets = tf.range(size, dtype=tf.int64)
    if seed is None:
        starts = tf.data.Dataset.range(0, count, size)
        return starts.map(no_autograph(lambda start: tf.minimum(start + offsets, count)))
    starts = tf.data.Dataset.range(0, tf.int64.max - size, size)
    if lengths is not None:
        return starts.map(no_autograph(_grouped(lengths, size, seed)))
    return starts.map(no_autograph(lambda start: _shuffled(start + offsets, count, seed)))


def _shuffled(positions: tf.Tensor, count: int, seed: int) -> tf.Tensor:  # int64 [n] -> int64 [n]
    """The examples at these positions of an endless stream of epochs, each shuffled differently."""
    epochs, indices = positions // count, positions % count
    run_seeds = tf.zeros_like(positions) + tf.constant(seed, tf.int64)
    seeds = tf.stack([epochs, run_seeds, run_seeds], -1)  # [n, 3]
    # The raw op, because tf.random.experimental.index_shuffle does not take a seed per index.
    return tf.raw_ops.RandomIndexShuffle(
        index=indices, seed=seeds, max_index=tf.zeros_like(positions) + (count - 1), rounds=SHUFFLE_ROUNDS
    )


def _grouped(lengths: np.ndarray, size: int, seed: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function from a batch's start in the stream of `_shuffled` to its examples, all of similar length.

    The batches that begin in an epoch are divided into mega-batches. The examples of each are sorted by length and
    split into batches, in random order: like `group_by_length` in Hugging Face transformers, which puts the longest
    first. A mega-batch depends on nothing before it, so the state of the dataset stays one number.
    """
    count, table = len(lengths), tf.constant(lengths, tf.int64)
    most = max(1, min(count // (size * LEAST_MEGA_BATCHES), MEGA_BATCH))

    def indices(start: tf.Tensor) -> tf.Tensor:
        epoch, number = start // count, start // size
        first, last = (-(-each * count // size) for each in (epoch, epoch + 1))  # batches that begin in the epoch
        batches = last - first
        groups = -(-batches // most)  # mega-batches of the epoch
        group = ((number - first + 1) * groups - 1) // batches
        begin, end = (first + batches * each // groups for each in (group, group + 1))
        examples = _shuffled(tf.range(begin * size, end * size), count, seed)
        examples = tf.gather(examples, tf.argsort(tf.gather(table, examples), stable=True))
        row = tf.raw_ops.RandomIndexShuffle(
            index=number - begin, seed=[begin, seed, GROUPS], max_index=end - begin - 1, rounds=SHUFFLE_ROUNDS
        )
        return tf.ensure_shape(tf.reshape(examples, [-1, size])[row], [size])

    return indices


def indexed_batches(
    count: int,
    size: int,
    make_batch: Callable[[tf.Tensor], dict[str, Any]],
    *,
    seed: int | None = None,
    lengths: np.ndarray | None = None,
    rows: int = 1,
) -> tf.data.Dataset:
    """`make_batch(indices)` for each batch of `batch_indices`: {name: tensor [size * rows, ...]}, with static size."""
    dataset = batch_indices(count, size, seed=seed, lengths=lengths)
    dataset = dataset.map(no_autograph(make_batch), num_parallel_calls=2, deterministic=True)
    static = {name: [size * rows, *spec.shape[1:]] for name, spec in dataset.element_spec.items()}
    with_shapes = no_autograph(lambda batch: {name: tf.ensure_shape(x, static[name]) for name, x in batch.items()})
    return dataset.map(with_shapes).prefetch(2)


def with_seeds(dataset: tf.data.Dataset, *, seed: int) -> tf.data.Dataset:
    """Dataset of elements -> dataset of (element, seed int64 scalar): a different seed for each element.

    The seeds depend only on `seed` and the position in the dataset; a repeating dataset has new ones in each epoch.
    They are consecutive numbers; the first one depends on `seed`. `random_bits` hashes them.
    """
    first = random_bits(seed, SEEDS, 0).numpy().item() >> 2  # in [0, 2 ** 62): adding to it does not overflow
    seeds = tf.data.Dataset.range(first, tf.int64.max)  # Dataset.counter() would run a function for each element
    return tf.data.Dataset.zip(dataset, seeds)


def record_seeds(record_ids: tf.Tensor, *, seed: int) -> tf.Tensor:
    """Seeds that are the same in every epoch (static masking): record_ids int64 [B] -> seeds int64 [B]."""
    with tf.init_scope():  # eager, also while a map is being traced
        first = random_bits(seed, SEEDS, 1).numpy().item() >> 2
    return record_ids + first


def batch_dataset(dataset: tf.data.Dataset, size: int, *, pad_rows: bool = False) -> tf.data.Dataset:
    """Batches of exactly `size` elements; every tensor has a static first dimension.

    pad_rows: False drops an incomplete batch at the end (training). True fills it with rows of zeros, empty strings and
    False (evaluation): the task must weight these rows 0.
    """
    if not pad_rows:
        return dataset.batch(size, drop_remainder=True)

    def pad(tensor: tf.Tensor) -> tf.Tensor:
        missing = size - tf.shape(tensor)[0]
        filler = tf.fill(tf.concat([[missing], tf.shape(tensor)[1:]], 0), tf.zeros([], tensor.dtype))
        return tf.ensure_shape(tf.concat([tensor, filler], 0), [size, *tensor.shape[1:]])

    def pad_batch(*batch: Any) -> Any:
        return tf.nest.map_structure(pad, batch if len(batch) > 1 else batch[0])

    return dataset.batch(size).map(no_autograph(pad_batch))


def iterate(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Returns an iterator without TensorFlow's autotuning, whose thread could delay its end by a minute."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return iter(dataset.with_options(options))

"""dataset -> dataset functions that every task shares: read, shuffle, seed, batch.

B rows of a batch, T = max_seq_length positions. All randomness comes from a given seed; every iterator made here can be
saved and restored by `tf.train.Checkpoint` and then continues bit for bit.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.data.mlm_masking import random_bits

INTERLEAVED_FILES = 8  # read alternately while training, so that neighbours come from different shards
SHUFFLE_ROUNDS = 16  # the default of 4 leaves positions that depend on the order of the file (correlation 0.18)
SEEDS = 7  # a stream of random bits of its own, see bert_tf.data.mlm_masking


def read_records(files: Sequence[str], *, seed: int | None = None, forever: bool = False) -> tf.data.Dataset:
    """TFRecord files (or .gz, but all of a kind) -> dataset of serialized records (string scalars).

    seed: None reads the files one after the other; a number reads them in a new order each epoch, several interleaved.
    forever: starts again at the end, for training. The order is that of the first iterator; make the dataset anew for
    another iterator that should give the same.
    """
    compression = "GZIP" if files[0].endswith(".gz") else None
    dataset = tf.data.Dataset.from_tensor_slices(tf.constant(list(files)))
    if seed is None:
        dataset = tf.data.TFRecordDataset(dataset, compression)
    else:
        dataset = dataset.shuffle(len(files), seed=seed, reshuffle_each_iteration=True)
        cycle_length = min(INTERLEAVED_FILES, len(files))
        read = functools.partial(tf.data.TFRecordDataset, compression_type=compression)
        dataset = dataset.interleave(read, cycle_length=cycle_length, num_parallel_calls=1)
    return dataset.repeat() if forever else dataset


# Without it TensorFlow translates the source of every function passed to a map, a third of the time to start.
no_autograph = tf.autograph.experimental.do_not_convert


def shuffle(dataset: tf.data.Dataset, *, seed: int, buffer: int = 10_000) -> tf.data.Dataset:
    """Shuffles within a buffer, which becomes part of a saved iterator: keep it small."""
    return dataset.shuffle(buffer, seed=seed, reshuffle_each_iteration=True)


def batch_indices(count: int, size: int, *, seed: int | None = None) -> tf.data.Dataset:
    """The indices of the examples in each batch: dataset of int64 [size].

    count: the number of examples. seed: a number gives an endless dataset, every example once per epoch, each epoch in
    a new order; a batch may hold the end of one epoch and the beginning of the next. No buffer: the whole state is one
    number. None gives one pass in order, filled up with `count` where the last batch has no more examples.
    """
    offsets = tf.range(size, dtype=tf.int64)
    if seed is None:
        starts = tf.data.Dataset.range(0, count, size)
        return starts.map(no_autograph(lambda start: tf.minimum(start + offsets, count)))

    def shuffled_indices(start: tf.Tensor) -> tf.Tensor:
        epochs, indices = (start + offsets) // count, (start + offsets) % count
        run_seeds = tf.fill([size], tf.constant(seed, tf.int64))
        seeds = tf.stack([epochs, run_seeds, run_seeds], -1)  # [size, 3]
        # The raw op, as tf.random.experimental.index_shuffle takes no seed for each index.
        return tf.raw_ops.RandomIndexShuffle(
            index=indices, seed=seeds, max_index=[count - 1] * size, rounds=SHUFFLE_ROUNDS
        )

    return tf.data.Dataset.range(0, tf.int64.max - size, size).map(no_autograph(shuffled_indices))


def indexed_batches(
    count: int, size: int, make_batch: Callable[[tf.Tensor], dict[str, Any]], *, seed: int | None = None
) -> tf.data.Dataset:
    """`make_batch(indices)` for each batch of `batch_indices`: {name: tensor [size, ...]}, `size` static."""
    dataset = batch_indices(count, size, seed=seed)
    dataset = dataset.map(no_autograph(make_batch), num_parallel_calls=2, deterministic=True)
    static = {name: [size, *spec.shape[1:]] for name, spec in dataset.element_spec.items()}

    def with_static_shapes(batch: dict[str, Any]) -> dict[str, Any]:
        return {name: tf.ensure_shape(x, static[name]) for name, x in batch.items()}

    return dataset.map(no_autograph(with_static_shapes)).prefetch(2)


def with_seeds(dataset: tf.data.Dataset, *, seed: int) -> tf.data.Dataset:
    """Dataset of elements -> dataset of (element, seed int64 scalar): a different seed for each element.

    The seeds depend on `seed` and the position in the dataset alone; a dataset that repeats has new ones in each epoch.
    They are consecutive numbers, the first of which depends on `seed`: `mlm_masking.random_bits` hashes them.
    """
    first = random_bits(seed, SEEDS, 0).numpy().item() >> 2  # in [0, 2 ** 62): adding to it does not overflow
    seeds = tf.data.Dataset.range(first, tf.int64.max)  # Dataset.counter() would run a function for each element
    return tf.data.Dataset.zip(dataset, seeds)


def record_seeds(record_ids: tf.Tensor, *, seed: int) -> tf.Tensor:
    """The same seeds in every epoch (static masking): record_ids int64 [B] -> seeds int64 [B]."""
    with tf.init_scope():  # eager, also while a map is being traced
        first = random_bits(seed, SEEDS, 1).numpy().item() >> 2
    return record_ids + first


def batch_dataset(dataset: tf.data.Dataset, size: int, *, pad_rows: bool = False) -> tf.data.Dataset:
    """Batches of exactly `size` elements; every tensor has a static first dimension.

    pad_rows: False drops an incomplete batch at the end (training). True fills it with rows of zeros, empty strings and
    False (evaluation): the task must give these rows the weight 0.
    """
    if not pad_rows:
        return dataset.batch(size, drop_remainder=True)

    def pad(tensor: tf.Tensor) -> tf.Tensor:
        missing = size - tf.shape(tensor)[0]
        filler = tf.fill(tf.concat([[missing], tf.shape(tensor)[1:]], 0), _zero(tensor.dtype))
        return tf.ensure_shape(tf.concat([tensor, filler], 0), [size, *tensor.shape[1:]])

    def pad_batch(*batch: Any) -> Any:
        return tf.nest.map_structure(pad, batch if len(batch) > 1 else batch[0])

    return dataset.batch(size).map(no_autograph(pad_batch))


def _zero(dtype: tf.DType) -> tf.Tensor:
    return tf.constant("" if dtype == tf.string else 0, dtype) if dtype != tf.bool else tf.constant(False)


def parse_pretraining_records(records: tf.Tensor, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Parses records of `data.pretraining.records` into model inputs.

    Args:
        records: serialized, string [B]; an empty string is a row of zeros.
        max_seq_length: T; longer records are truncated.

    Returns:
        token_ids and segment_ids int32 [B, T] (segment 0 up to the first [SEP], 1 after it, 0 on padding), lengths
        int32 [B], next_sentence_labels int32 [B] (1: random next), next_sentence_weights float32 [B] (0 for rows of
        zeros) and record_ids int64 [B].
    """
    scalar = tf.io.FixedLenFeature([], tf.int64, default_value=0)
    features = tf.io.parse_example(
        records,
        {
            "token_ids": tf.io.RaggedFeature(tf.int64),
            "second_start": scalar,
            "next_sentence_label": scalar,
            "record_id": scalar,
        },
    )
    ragged = tf.cast(features["token_ids"], tf.int32)
    token_ids = ragged.to_tensor(shape=[records.shape[0], max_seq_length])  # [B, T]
    lengths = tf.minimum(tf.cast(ragged.row_lengths(), tf.int32), max_seq_length)  # [B]
    positions = tf.range(max_seq_length)[None, :]
    is_second = (positions >= tf.cast(features["second_start"], tf.int32)[:, None]) & (positions < lengths[:, None])
    return {
        "token_ids": token_ids,
        "segment_ids": tf.cast(is_second, tf.int32),
        "lengths": lengths,
        "next_sentence_labels": tf.cast(features["next_sentence_label"], tf.int32),
        "next_sentence_weights": tf.cast(lengths > 0, tf.float32),
        "record_ids": features["record_id"],
    }

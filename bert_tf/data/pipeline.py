"""dataset -> dataset functions that every task shares: read, shuffle, seed, batch.

B rows of a batch, T = max_seq_length positions. All randomness comes from a given seed; every iterator made here can be
saved and restored by `tf.train.Checkpoint` and then continues bit for bit.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.data.mlm_masking import random_bits
from bert_tf.errors import reason_of

INTERLEAVED_FILES = 8  # read alternately while training, so that neighbours come from different shards
SHUFFLE_ROUNDS = 16  # the default of 4 leaves positions that depend on the order of the file (correlation 0.18)
SEEDS = 7  # a stream of random bits of its own, see bert_tf.data.mlm_masking
MEGA_BATCH, LEAST_MEGA_BATCHES = 50, 4  # most batches sorted by length together, and least such in an epoch
LANES = 8  # a stream of random bits of its own, as SEEDS
SHUFFLED = 10_000  # records
GROUPS = 1  # part of the seed of their order


def read_records(
    files: Sequence[str],
    *,
    seed: int | None = None,
    forever: bool = False,
    interleaved: int = INTERLEAVED_FILES,
) -> tf.data.Dataset:
    """TFRecord files (or .gz, but all of a kind) -> dataset of serialized records (string scalars).

    seed: None reads the files one after the other; a number reads them in a new order each epoch, several interleaved.
    interleaved: how many.
    forever: starts again at the end, for training. The order is that of the first iterator; make the dataset anew for
    another iterator that should give the same.
    """
    compression = "GZIP" if files[0].endswith(".gz") else None
    dataset = tf.data.Dataset.from_tensor_slices(tf.constant(list(files)))
    if seed is None:
        dataset = tf.data.TFRecordDataset(dataset, compression)
    else:
        dataset = dataset.shuffle(len(files), seed=seed, reshuffle_each_iteration=True)
        cycle_length = min(interleaved, len(files))
        read = functools.partial(tf.data.TFRecordDataset, compression_type=compression)
        dataset = dataset.interleave(read, cycle_length=cycle_length, num_parallel_calls=1)
    return dataset.repeat() if forever else dataset


def first_damage(files: Sequence[str]) -> str:
    """What is wrong with the first damaged one of TFRecord files, all of which are read for it; "" for none."""
    for path in files:
        records = read_records([path])
        try:
            records.reduce(0, no_autograph(lambda count, _: count + 1))
        except tf.errors.DataLossError as error:
            readable = 0
            with contextlib.suppress(tf.errors.DataLossError):
                for _ in records:
                    readable += 1
            return f"{path} is damaged after {readable:,} records ({reason_of(error)}), and those that follow are lost"
    return ""


# Without it TensorFlow translates the source of every function passed to a map, a third of the time to start.
no_autograph = tf.autograph.experimental.do_not_convert


def seed_of_lane(seed: int, lane: int) -> int:
    """A seed for one of several streams of a run, below 2 ** 31."""
    with tf.init_scope():
        return int(random_bits(seed, LANES, lane).numpy().item() & 0x7FFFFFF0)


def shuffle(dataset: tf.data.Dataset, *, seed: int, buffer: int = SHUFFLED) -> tf.data.Dataset:
    """Shuffles within a buffer, which becomes part of a saved iterator: keep it small."""
    return dataset.shuffle(buffer, seed=seed, reshuffle_each_iteration=True)


def batch_indices(
    count: int, size: int, *, seed: int | None = None, lengths: np.ndarray | None = None
) -> tf.data.Dataset:
    """The indices of the examples in each batch: dataset of int64 [size].

    count: the number of examples. seed: a number gives an endless dataset, every example once per epoch, each epoch in
    a new order; a batch may hold the end of one epoch and the beginning of the next. No buffer: the whole state is one
    number. None gives one pass in order, filled up with `count` where the last batch has no more examples.
    lengths: of the examples, int [count]; with a seed, batches are of examples of like length (`_grouped`).
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
    """The examples at these positions of an endless stream of epochs, each in an order of its own."""
    epochs, indices = positions // count, positions % count
    run_seeds = tf.zeros_like(positions) + tf.constant(seed, tf.int64)
    seeds = tf.stack([epochs, run_seeds, run_seeds], -1)  # [n, 3]
    # The raw op, as tf.random.experimental.index_shuffle takes no seed for each index.
    return tf.raw_ops.RandomIndexShuffle(
        index=indices, seed=seeds, max_index=tf.zeros_like(positions) + (count - 1), rounds=SHUFFLE_ROUNDS
    )


def _grouped(lengths: np.ndarray, size: int, seed: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function from the start of a batch in the stream of `_shuffled` to its examples, all of like length.

    The batches that begin in an epoch are divided into mega-batches. The examples of each are sorted by length and cut
    into batches, which come in random order: `group_by_length` of Hugging Face transformers, where the longest come
    first. What a mega-batch holds depends on nothing before it, so that the state of the dataset stays one number.
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
    holds_model: bool = False,
) -> tf.data.Dataset:
    """`make_batch(indices)` for each batch of `batch_indices`: {name: tensor [size, ...]}, `size` static.

    holds_model: `make_batch` runs a kernel that holds a model, which never changes. To TensorFlow it is state, and
        it would refuse to save an iterator with it.
    """
    dataset = batch_indices(count, size, seed=seed, lengths=lengths)
    dataset = dataset.map(no_autograph(make_batch), num_parallel_calls=2, deterministic=True)
    static = {name: [size, *spec.shape[1:]] for name, spec in dataset.element_spec.items()}

    def with_static_shapes(batch: dict[str, Any]) -> dict[str, Any]:
        return {name: tf.ensure_shape(x, static[name]) for name, x in batch.items()}

    dataset = dataset.map(no_autograph(with_static_shapes)).prefetch(2)
    if not holds_model:
        return dataset
    options = tf.data.Options()
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return dataset.with_options(options)


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


def parse_masked_records(records: tf.Tensor, max_seq_length: int, max_predictions: int) -> dict[str, tf.Tensor]:
    """Parses records with masks (`data.pretraining.masked_records`) into model inputs and targets.

    Args:
        records: serialized, string [B]; an empty string is a row of zeros.
        max_seq_length: T, the length of the rows.
        max_predictions: P, the number of masked positions that a row has room for.

    Returns:
        As `parse_pretraining_records` but for record_ids, and masked_lm_positions and masked_lm_ids int32 [B, P] and
        masked_lm_weights float32 [B, P].
    """

    def zeros(size: int, dtype: tf.DType = tf.int64) -> tf.io.FixedLenFeature:
        return tf.io.FixedLenFeature([size], dtype, default_value=[0] * size)

    features = tf.io.parse_example(
        records,
        {
            **{name: zeros(max_seq_length) for name in ("input_ids", "input_mask", "segment_ids")},
            **{name: zeros(max_predictions) for name in ("masked_lm_positions", "masked_lm_ids")},
            "masked_lm_weights": zeros(max_predictions, tf.float32),
            "next_sentence_labels": zeros(1),
        },
    )
    whole = {name: tf.cast(value, tf.int32) for name, value in features.items() if value.dtype == tf.int64}
    lengths = tf.reduce_sum(whole["input_mask"], 1)  # [B]
    return {
        "token_ids": whole["input_ids"],
        "segment_ids": whole["segment_ids"],
        "lengths": lengths,
        "next_sentence_labels": whole["next_sentence_labels"][:, 0],
        "next_sentence_weights": tf.cast(lengths > 0, tf.float32),
        "masked_lm_positions": whole["masked_lm_positions"],
        "masked_lm_ids": whole["masked_lm_ids"],
        "masked_lm_weights": features["masked_lm_weights"],
    }


def parse_pretraining_records(records: tf.Tensor, max_seq_length: int, pad_id: int = 0) -> dict[str, tf.Tensor]:
    """Parses records of `data.pretraining.records` into model inputs.

    Args:
        records: serialized, string [B]; an empty string is a row of zeros.
        max_seq_length: T; longer records are truncated.
        pad_id: the token for padding.

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
    token_ids = ragged.to_tensor(pad_id, shape=[records.shape[0], max_seq_length])  # [B, T]
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

"""dataset -> dataset functions that every task shares: read, shuffle, seed, batch.

B rows of a batch, T = max_seq_length slots. All randomness comes from a seed that is given; every iterator made here
can be saved and restored by `tf.train.Checkpoint` and then goes on bit for bit.
"""

import functools

import tensorflow as tf

from bert_tf.data.mlm_masking import random_bits

FILES_AT_ONCE = 8  # read in turns while training, so that neighbours come from different shards
ROUNDS = 16  # of shuffling: the default of 4 leaves places that depend on the order of the file (correlation 0.18)
SEEDS = 7  # a stream of random bits of its own, see bert_tf.data.mlm_masking


def read_records(files, *, seed=None, forever=False):
    """TFRecord files (or .gz, but all of a kind) -> dataset of serialized records (string scalars).

    seed: None reads the files one after the other; a number reads them in a new order each epoch, several in turns.
    forever: starts again at the end, for training. The order is that of the first iterator; make the dataset anew for
    another iterator that shall give the same.
    """
    compression = "GZIP" if files[0].endswith(".gz") else None
    dataset = tf.data.Dataset.from_tensor_slices(tf.constant(list(files)))
    if seed is None:
        dataset = tf.data.TFRecordDataset(dataset, compression)
    else:
        dataset = dataset.shuffle(len(files), seed=seed, reshuffle_each_iteration=True)
        at_once = min(FILES_AT_ONCE, len(files))
        read = functools.partial(tf.data.TFRecordDataset, compression_type=compression)
        dataset = dataset.interleave(read, cycle_length=at_once, num_parallel_calls=1)
    return dataset.repeat() if forever else dataset


# Without it TensorFlow translates every function that a map meets from its source, a third of the time to start.
no_autograph = tf.autograph.experimental.do_not_convert


def shuffled(dataset, *, seed, buffer=10_000):
    """Shuffles within a buffer, which becomes part of a saved iterator: keep it small."""
    return dataset.shuffle(buffer, seed=seed, reshuffle_each_iteration=True)


def row_numbers(count, size, *, seed=None):
    """Which of `count` examples make each batch: dataset of int64 [size].

    seed: a number gives an endless dataset, every example once an epoch, each epoch in a new order; a batch may hold
    the end of one epoch and the beginning of the next. Nothing is kept in a buffer: its whole state is a number.
    None gives one pass in order, with `count` itself where the last batch has no more examples.
    """
    places = tf.range(size, dtype=tf.int64)
    if seed is None:
        starts = tf.data.Dataset.range(0, count, size)
        return starts.map(lambda start: tf.minimum(start + places, count))

    def shuffled_places(start):
        epochs, inside = (start + places) // count, (start + places) % count
        own = tf.fill([size], tf.constant(seed, tf.int64))
        seeds = tf.stack([epochs, own, own], -1)  # [size, 3]
        # The op itself, as tf.random.experimental.index_shuffle takes no seed for each index.
        return tf.raw_ops.RandomIndexShuffle(index=inside, seed=seeds, max_index=[count - 1] * size, rounds=ROUNDS)

    return tf.data.Dataset.range(0, tf.int64.max - size, size).map(no_autograph(shuffled_places))


def batches_of_rows(count, size, make, *, seed=None):
    """What `make` makes of the numbers in each batch of `row_numbers`: {name: tensor [size, ...]}, `size` static."""
    dataset = row_numbers(count, size, seed=seed).map(no_autograph(make), num_parallel_calls=2, deterministic=True)
    static = {name: [size, *spec.shape[1:]] for name, spec in dataset.element_spec.items()}
    return dataset.map(lambda batch: {name: tf.ensure_shape(x, static[name]) for name, x in batch.items()}).prefetch(2)


def with_seeds(dataset, *, seed):
    """Dataset of elements -> dataset of (element, seed int64 scalar): another seed for each element.

    The seeds depend on `seed` and the place in the dataset alone; over a dataset that repeats, each epoch has new ones.
    They are consecutive numbers from a place that `seed` decides: `masking.random_bits` hashes them.
    """
    first = random_bits(seed, SEEDS, 0).numpy().item() >> 2  # in [0, 2 ** 62): counting on does not overflow
    places = tf.data.Dataset.range(first, tf.int64.max)  # Dataset.counter() would run a function for each element
    return tf.data.Dataset.zip(dataset, places)


def record_seeds(record_ids, *, seed):
    """The same seeds in every epoch (static masking): record_ids int64 [B] -> seeds int64 [B]."""
    with tf.init_scope():  # eager, also where a map is being traced
        first = random_bits(seed, SEEDS, 1).numpy().item() >> 2
    return record_ids + first


def batched(dataset, size, *, pad_rows=False):
    """Batches of exactly `size` elements; every tensor has a static first dimension.

    pad_rows: False drops what is left at the end (training). True fills the last batch with rows of zeros, empty
    strings and False (evaluation): the task must give these rows the weight 0.
    """
    if not pad_rows:
        return dataset.batch(size, drop_remainder=True)

    def filled(tensor):
        missing = size - tf.shape(tensor)[0]
        filler = tf.fill(tf.concat([[missing], tf.shape(tensor)[1:]], 0), _zero(tensor.dtype))
        return tf.ensure_shape(tf.concat([tensor, filler], 0), [size, *tensor.shape[1:]])

    return dataset.batch(size).map(lambda *batch: tf.nest.map_structure(filled, batch if len(batch) > 1 else batch[0]))


def _zero(dtype):
    return tf.constant("" if dtype == tf.string else 0, dtype) if dtype != tf.bool else tf.constant(False)


def parse_pairs(records, max_seq_length):
    """Records of `data.pretraining.records` -> model inputs. records: serialized string [B]; an empty string is a
    row of zeros.

    Returns token_ids and segment_ids int32 [B, T] (segment 0 up to the first [SEP], 1 after it, 0 on padding), lengths
    int32 [B], next_sentence_labels int32 [B] (1: random next), next_sentence_weights float32 [B] (0 for rows of zeros)
    and record_ids int64 [B].
    """
    number = tf.io.FixedLenFeature([], tf.int64, default_value=0)
    features = tf.io.parse_example(
        records,
        {
            "token_ids": tf.io.RaggedFeature(tf.int64),
            "second_start": number,
            "next_sentence_label": number,
            "record_id": number,
        },
    )
    ragged = tf.cast(features["token_ids"], tf.int32)
    token_ids = ragged.to_tensor(shape=[records.shape[0], max_seq_length])  # [B, T]
    lengths = tf.minimum(tf.cast(ragged.row_lengths(), tf.int32), max_seq_length)  # [B]
    slots = tf.range(max_seq_length)[None, :]
    second = (slots >= tf.cast(features["second_start"], tf.int32)[:, None]) & (slots < lengths[:, None])
    return {
        "token_ids": token_ids,
        "segment_ids": tf.cast(second, tf.int32),
        "lengths": lengths,
        "next_sentence_labels": tf.cast(features["next_sentence_label"], tf.int32),
        "next_sentence_weights": tf.cast(lengths > 0, tf.float32),
        "record_ids": features["record_id"],
    }

"""Reads pre-training records for training: files -> serialized records -> inputs of the model.

B rows of a batch, T = max_seq_length positions.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence

from bert_tf.data.pipeline import no_autograph
from bert_tf.data.pretraining.record_files import CONTINUATIONS
from bert_tf.errors import UserError, reason_of
from bert_tf.runtime.lazy import tf

INTERLEAVED_FILES = 8  # read alternately in training, so that neighbors come from different shards


def read_records(
    files: Sequence[str], *, seed: int | None = None, interleaved: int = INTERLEAVED_FILES
) -> tf.data.Dataset:
    """TFRecord files (all plain or all .gz) -> dataset of serialized records (string scalars).

    seed: None reads the files one after the other; a number reads them in a new order each epoch, several interleaved.
    interleaved: their number.
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
    return dataset


def first_damage(files: Sequence[str]) -> str:
    """Reads all TFRecord files and describes the first damaged one; "" if there is none."""
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


@contextlib.contextmanager
def explain_damage(shards: Sequence[str]) -> Iterator[None]:
    """Turns TensorFlow's errors about damaged or missing records into a UserError, with the file if possible."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
        damage = first_damage(shards) if shards and isinstance(error, tf.errors.DataLossError) else ""
        raise UserError(
            f"{damage or f'The records cannot be read ({reason_of(error)})'}: "
            "remove the folder of the records and run the same command again."
        ) from None


def parse_masked_records(records: tf.Tensor, max_seq_length: int, max_predictions: int) -> dict[str, tf.Tensor]:
    """Parses records with masks (`data.pretraining.masked_records`) into model inputs and targets.

    Args:
        records: serialized, string [B]; an empty string is a row of zeros.
        max_seq_length: T, the length of the rows.
        max_predictions: P, the number of masked positions per row.

    Returns:
        Same as `parse_pretraining_records` without record_ids, plus masked_lm_positions, masked_lm_ids int32 [B, P] and
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


def parse_pretraining_records(
    records: tf.Tensor, max_seq_length: int, pad_id: int = 0, *, has_words: bool = False
) -> dict[str, tf.Tensor]:
    """Parses records of `data.pretraining.records` into model inputs.

    Args:
        records: serialized, string [B]; an empty string is a row of zeros.
        max_seq_length: T; longer records are truncated.
        pad_id: the padding token.
        has_words: whether the records mark ideographs that are one word.

    Returns:
        token_ids and segment_ids int32 [B, T] (segment 0 up to the first [SEP], 1 after it, 0 on padding), lengths
        int32 [B], next_sentence_labels int32 [B] (1: random next), next_sentence_weights float32 [B] (0 for rows of
        zeros) and record_ids int64 [B]; with has_words word_continuations bool [B, T].
    """
    scalar = tf.io.FixedLenFeature([], tf.int64, default_value=0)
    features = tf.io.parse_example(
        records,
        {
            "token_ids": tf.io.RaggedFeature(tf.int64),
            **({CONTINUATIONS: tf.io.RaggedFeature(tf.int64)} if has_words else {}),
            "second_start": scalar,
            "next_sentence_label": scalar,
            "record_id": scalar,
        },
    )
    ragged, shape = tf.cast(features["token_ids"], tf.int32), [records.shape[0], max_seq_length]
    token_ids = ragged.to_tensor(pad_id, shape=shape)  # [B, T]
    lengths = tf.minimum(tf.cast(ragged.row_lengths(), tf.int32), max_seq_length)  # [B]
    positions = tf.range(max_seq_length)[None, :]
    is_second = (positions >= tf.cast(features["second_start"], tf.int32)[:, None]) & (positions < lengths[:, None])
    batch = {
        "token_ids": token_ids,
        "segment_ids": tf.cast(is_second, tf.int32),
        "lengths": lengths,
        "next_sentence_labels": tf.cast(features["next_sentence_label"], tf.int32),
        "next_sentence_weights": tf.cast(lengths > 0, tf.float32),
        "record_ids": features["record_id"],
    }
    if has_words:
        batch[CONTINUATIONS] = features[CONTINUATIONS].to_tensor(shape=shape) > 0
    return batch

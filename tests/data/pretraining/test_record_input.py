"""Records as training reads them: order, inputs of the model, masks, and resuming from a saved iterator."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.pretraining.record_files import serialize_records
from bert_tf.data.pretraining.record_input import first_damage, parse_pretraining_records, read_records


def serialize_record(token_ids, *numbers):
    """One record: its tokens, second_start, next_sentence_label and record_id."""
    columns = (np.array([number]) for number in (len(token_ids), *numbers))
    return serialize_records(np.array(token_ids), *columns)[0]


@pytest.fixture
def files(request, tmp_path):
    """Two record files of 10 records each; record n holds [CLS] n+10 [SEP] n+50 n+50 [SEP]."""
    suffix = getattr(request, "param", "")
    paths = [str(tmp_path / name) + suffix for name in ("a.tfrecord", "b.tfrecord")]
    for number, path in enumerate(paths):
        with tf.io.TFRecordWriter(path, "GZIP" if suffix else None) as writer:
            for n in range(number * 10, number * 10 + 10):
                writer.write(serialize_record([1, n + 10, 2, n + 50, n + 50, 2], 3, n % 2, n))
    return paths


def ids(dataset, count=None):
    serialized = dataset if count is None else dataset.take(count)
    return [int(parse_pretraining_records(tf.reshape(one, [1]), 8)["record_ids"][0]) for one in serialized]


def eagerly(function, value):
    return function(value)


def inside_a_dataset(function, value):
    return next(iter(tf.data.Dataset.from_tensors(value).map(function)))


@pytest.mark.parametrize("run", [eagerly, inside_a_dataset])
def test_pairs_are_parsed_into_padded_rows_with_segments(run):
    serialized = tf.constant(
        [serialize_record([1, 5, 2, 6, 7, 2], 3, 1, 77), serialize_record([1, 5, 2], 3, 0, 78), b""]
    )
    batch = run(lambda records: parse_pretraining_records(records, 8), serialized)
    assert batch["token_ids"].numpy().tolist() == [[1, 5, 2, 6, 7, 2, 0, 0], [1, 5, 2, 0, 0, 0, 0, 0], [0] * 8]
    assert batch["segment_ids"].numpy().tolist() == [[0, 0, 0, 1, 1, 1, 0, 0], [0] * 8, [0] * 8]
    assert batch["lengths"].numpy().tolist() == [6, 3, 0]
    assert batch["next_sentence_labels"].numpy().tolist() == [1, 0, 0]
    assert batch["next_sentence_weights"].numpy().tolist() == [1, 1, 0]
    assert batch["record_ids"].numpy().tolist() == [77, 78, 0]


@pytest.mark.parametrize("files", ["", ".gz"], indirect=True)
def test_records_are_read_in_order_without_seed(files):
    assert ids(read_records(files)) == list(range(20))


def test_first_damaged_file_is_named_with_the_records_before_the_damage(tmp_path):
    paths = [str(tmp_path / f"{number}.tfrecord") for number in range(3)]
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            for number in range(5):
                writer.write(b"%d" % number)
    assert first_damage(paths) == ""
    content = bytearray((tmp_path / "1.tfrecord").read_bytes())
    content[3 * len(content) // 5 + 12] ^= 255  # a byte of the fourth record
    (tmp_path / "1.tfrecord").write_bytes(content)
    assert first_damage(paths).startswith(f"{paths[1]} is damaged after 3 records (corrupted record at ")

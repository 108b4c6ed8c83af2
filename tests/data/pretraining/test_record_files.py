"""Records are encoded as TensorFlow encodes them, byte for byte."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.pretraining import record_files
from bert_tf.errors import UserError


@pytest.mark.parametrize("number, has_words", [(0, False), (3 << 32, True), ((1 << 20) << 32, False)])
def test_bytes_are_those_of_tensorflow(tmp_path, number, has_words):
    generator = np.random.default_rng(0)
    lengths = np.array([1, 2, 5, 128, 300, 7])
    ids = generator.choice([0, 1, 127, 128, 16383, 16384, 30521, 2_097_151, 2_097_152], lengths.sum())
    seconds, labels, numbers = lengths // 2, np.arange(6) % 2, number + np.array([0, 127, 128, 16383, 16384, 1 << 21])
    ours, expected = str(tmp_path / "ours"), str(tmp_path / "expected")
    words = ids % 2 == 0 if has_words else None
    records = record_files.serialize_records(ids, lengths, seconds, labels, numbers, words)
    record_files.write_records(ours, [records])
    with tf.io.TFRecordWriter(expected) as writer:
        for row, second, label, each in zip(
            np.split(ids, np.cumsum(lengths)[:-1]), seconds, labels, numbers, strict=True
        ):
            example = tf.train.Example()
            for name, values in (
                ("token_ids", row),
                ("second_start", [second]),
                ("next_sentence_label", [label]),
                ("record_id", [each]),
                *([("word_continuations", row % 2 == 0)] if has_words else []),
            ):
                example.features.feature[name].int64_list.value.extend(map(int, values))
            writer.write(example.SerializeToString(deterministic=True))
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "expected").read_bytes()


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_records_are_read_up_to_the_damage(tmp_path, name):
    path, records = tmp_path / name, [number.to_bytes(4) * 5 for number in range(2 * record_files.BLOCK + 8)]
    record_files.write_records(str(path), [records], compress=name.endswith(".gz"))
    assert list(record_files.read_records(str(path))) == records
    assert [each.numpy() for each in tf.data.TFRecordDataset(str(path), "GZIP" if ".gz" in name else "")] == records
    whole = path.read_bytes()
    for damaged, count in ((whole[:-1], len(records) - (".gz" not in name)), (whole[:20], 0)):
        path.write_bytes(damaged)
        read = []
        with pytest.raises(UserError, match=rf"{name} is damaged after {count:,} records"):
            read.extend(record_files.read_records(str(path)))
    if ".gz" not in name:
        path.write_bytes(whole[: 4 * 36 + 15] + b"?" + whole[4 * 36 + 16 :])
        with pytest.raises(UserError, match="damaged after 4 records"):
            list(record_files.read_records(str(path)))

"""Records of google-research/bert, with their masks, are read as they are."""

import os

import faults
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.pretraining import masked_records, record_input
from bert_tf.errors import UserError

LENGTH, PREDICTIONS = 8, 3


def write(path, rows, **changes):
    """Rows as `write_instance_to_example_files` of the original writes them; row n has the tokens 2 n+5 4 3 7 3."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for n in rows:
            features = {
                "input_ids": [2, n + 5, 4, 3, 7, 3, 0, 0],
                "input_mask": [1] * 6 + [0] * 2,
                "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
                "masked_lm_positions": [2, 0, 0],
                "masked_lm_ids": [9, 0, 0],
                "next_sentence_labels": [n % 2],
            } | changes
            example = tf.train.Example()
            for name, values in features.items():
                example.features.feature[name].int64_list.value.extend(values)
            example.features.feature["masked_lm_weights"].float_list.value.extend([1.0, 0.0, 0.0])
            writer.write(example.SerializeToString())
    return str(path)


def opened(folder, **changes):
    settings = {"max_seq_length": LENGTH, "max_predictions_per_seq": PREDICTIONS, "size": 20} | changes
    return masked_records.open_masked(masked_records.find(str(folder)), **settings)


def test_rows_keep_their_masks(tmp_path):
    write(tmp_path / "a.tfrecord", range(4))
    write(tmp_path / "b_eval.tfrecord", range(2))
    manifest = opened(tmp_path)
    assert manifest["eval_files"] == [str(tmp_path / "b_eval.tfrecord")]
    assert manifest["token_counts"][[9, 4, 3]].tolist() == [4, 0, 8]  # [MASK] is 4, and 9 is behind it
    records = [*tf.data.TFRecordDataset(manifest["train_files"]), tf.constant("")]
    batch = record_input.parse_masked_records(tf.stack(records), LENGTH, PREDICTIONS)
    assert batch["token_ids"][1].numpy().tolist() == [2, 6, 4, 3, 7, 3, 0, 0]
    assert batch["segment_ids"][1].numpy().tolist() == [0, 0, 0, 0, 1, 1, 0, 0]
    assert batch["lengths"].numpy().tolist() == [6, 6, 6, 6, 0]
    assert batch["next_sentence_labels"].numpy().tolist() == [0, 1, 0, 1, 0]
    assert batch["next_sentence_weights"].numpy().tolist() == [1, 1, 1, 1, 0]
    assert batch["masked_lm_positions"][0].numpy().tolist() == [2, 0, 0]
    assert batch["masked_lm_ids"][0].numpy().tolist() == [9, 0, 0]
    assert np.array_equal(batch["masked_lm_weights"][3:], [[1, 0, 0], [0, 0, 0]])


def test_last_of_several_files_is_held_out(tmp_path):
    paths = [write(tmp_path / f"part-{number}.tfrecord", range(2)) for number in range(3)]
    manifest = opened(tmp_path)
    assert (manifest["train_files"], manifest["eval_files"]) == (paths[:2], paths[2:])
    assert manifest["warnings"] == []


def test_opening_thousands_of_files_looks_into_a_few(tmp_path):
    first = write(tmp_path / "part-0000.tfrecord", [0, 1] * (masked_records.COUNTED // 8))
    for number in range(1, 100):
        os.link(first, tmp_path / f"part-{number:04}.tfrecord")
    opened_files = []
    with faults.on_call(masked_records, "_rows", opened_files.append):
        manifest = opened(tmp_path)
    assert len(manifest["train_files"]) == 99
    assert len(set(opened_files)) < masked_records.OPENED + 6 and os.path.basename(max(opened_files)) > "part-0090"


@pytest.mark.parametrize(
    "changes, settings, message",
    [
        ({"input_ids": []}, {}, "a.tfrecord has no input_ids: it is not a TFRecord file of google-research/bert"),
        ({}, {"max_seq_length": 128}, "a.tfrecord has rows with max_seq_length=8, not 128: pass that"),
        ({}, {"max_predictions_per_seq": 20}, "rows with max_predictions_per_seq=3, not 20"),
        ({}, {"size": 8}, "Record 0 has the id 9, and the vocabulary 8 tokens"),
    ],
)
def test_records_that_do_not_fit_are_named(tmp_path, changes, settings, message):
    write(tmp_path / "a.tfrecord", range(2), **changes)
    with pytest.raises(UserError, match=message):
        opened(tmp_path, **settings)


def test_damaged_file_is_named_with_the_records_before_it(tmp_path):
    path = write(tmp_path / "a.tfrecord", range(5))
    content = (tmp_path / "a.tfrecord").read_bytes()
    (tmp_path / "a.tfrecord").write_bytes(content[:-30])
    with pytest.raises(UserError, match=f"{path} is damaged after 4 records"):
        opened(tmp_path)

"""Vectors as files: what each format holds, in the order of the texts; written atomically."""

import json
import os
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.extras.features import feature_files
from bert_tf.heads.vectors.text_vectors import Shape, TextVectors

TOKENS = Shape(unit="token", layers=(-1, "embeddings"), width=3)
TEXTS = [
    TextVectors(
        np.arange(12, dtype=np.float32).reshape(2, 2, 3) / 7, ("[CLS]", "é"), *np.array([[-1, 0], [-1, 1], [0, 1]])
    ),
    TextVectors(np.zeros((0, 2, 3), np.float32), (), *np.zeros((3, 0), int)),
    TextVectors(np.full((1, 2, 3), 1e-7, np.float32), ("longer",), *np.array([[3], [9], [0]])),
]
WHOLE = Shape(unit="sentence", layers=("last",), width=3, has_ids=True)


def write(path, shape, texts, ids=(None, None, None), **options):
    with feature_files.writer(str(path), shape, **options) as add:
        for number, (text, identifier) in enumerate(zip(texts, ids, strict=True)):
            add(number, text, identifier)
    return path


def whole(values):
    return TextVectors(np.array(values, np.float32).reshape(1, 1, 3))


def test_jsonl_matches_the_original_rounded_to_6_digits(tmp_path):
    lines = write(tmp_path / "a.jsonl", TOKENS, TEXTS).read_text(encoding="utf-8").splitlines()
    assert lines[0] == (
        '{"linex_index": 0, "features": [{"token": "[CLS]", "layers": [{"index": -1, "values": [0.0, 0.142857, '
        '0.285714]}, {"index": "embeddings", "values": [0.428571, 0.571429, 0.714286]}]}, {"token": "é", "layers": '
        '[{"index": -1, "values": [0.857143, 1.0, 1.142857]}, {"index": "embeddings", "values": [1.285714, 1.428571, '
        "1.571429]}]}]}"
    )
    assert json.loads(lines[1]) == {"linex_index": 1, "features": []}
    word = json.loads(feature_files.json_line(2, TEXTS[2], Shape(unit="word", layers=(-1, -2), width=3)))
    assert word["features"][0] | {"layers": 0} == {"token": "longer", "layers": 0, "start": 3, "end": 9}
    line = feature_files.json_line(4, whole([1, 2, 0.5]), WHOLE, "q7")
    assert json.loads(line) == {"linex_index": 4, "id": "q7", "layers": [{"index": "last", "values": [1, 2, 0.5]}]}


def test_arrays_hold_all_tokens_and_text_offsets(tmp_path):
    actual = dict(np.load(write(tmp_path / "a.npz", TOKENS, TEXTS)))
    np.testing.assert_array_equal(actual["vectors"], np.concatenate([text.vectors for text in TEXTS]))
    assert actual["vectors"].dtype == np.float32 and actual["vectors"].shape == (3, 2, 3)
    assert {name: values.tolist() for name, values in actual.items() if name != "vectors"} == {
        "layers": ["-1", "embeddings"],
        "splits": [0, 2, 2, 3],
        "tokens": ["[CLS]", "é", "longer"],
        "starts": [-1, 0, 3],
        "ends": [-1, 1, 9],
        "segments": [0, 1, 0],
    }
    sentences = dict(np.load(write(tmp_path / "b.npz", WHOLE, [whole([1, 2, 3]), whole([4, 5, 6])], ids="xé")))
    assert {name: values.tolist() for name, values in sentences.items()} == {
        "vectors": [[1, 2, 3], [4, 5, 6]],
        "ids": ["x", "é"],
        "layers": ["last"],
    }


def test_parquet_has_a_row_per_token_and_a_column_per_layer(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(write(tmp_path / "a.parquet", TOKENS, TEXTS))
    assert table.column_names == ["index", "token", "start", "end", "segment", "vector -1", "vector embeddings"]
    assert table["index"].to_pylist() == [0, 0, 2] and table["token"].to_pylist() == ["[CLS]", "é", "longer"]
    assert table["start"].to_pylist() == [-1, 0, 3] and table["segment"].to_pylist() == [0, 1, 0]
    np.testing.assert_array_equal(table["vector embeddings"].to_pylist()[1], TEXTS[0].vectors[1, 1])
    count = feature_files.ROWS_AT_ONCE + 1
    path = write(tmp_path / "b.parquet", WHOLE, [whole([1, 2, 3])] * count, ids=[f"x{n}" for n in range(count)])
    sentences = parquet.read_table(path).to_pylist()
    assert len(sentences) == count and sentences[2] == {"index": 2, "id": "x2", "vector": [1.0, 2.0, 3.0]}
    assert parquet.ParquetFile(tmp_path / "b.parquet").num_row_groups == 2


def test_missing_pyarrow_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"Parquet needs the package pyarrow: pip install 'bert-tf\[parquet\]'"):
        feature_files.check_writable(str(tmp_path / "a.parquet"))


def test_tfrecords_hold_an_example_per_text(tmp_path):
    path = write(tmp_path / "a", TOKENS, TEXTS, kind="tfrecord")
    (first, empty, last) = [tf.train.Example.FromString(r.numpy()) for r in tf.data.TFRecordDataset(str(path))]
    values = first.features.feature
    assert list(values["shape"].int64_list.value) == [2, 2, 3] and list(values["index"].int64_list.value) == [0]
    np.testing.assert_array_equal(values["vectors"].float_list.value, TEXTS[0].vectors.ravel())
    assert list(values["tokens"].bytes_list.value) == [b"[CLS]", "é".encode()]
    assert list(values["starts"].int64_list.value) == [-1, 0]
    assert list(empty.features.feature["shape"].int64_list.value) == [0, 2, 3]
    assert last.features.feature["ends"].int64_list.value == [9]


@pytest.mark.parametrize("kind", ["jsonl", "npz", "parquet", "tfrecord"])
def test_file_is_written_atomically(kind, tmp_path):
    path = tmp_path / f"a.{kind}"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), feature_files.writer(str(path), TOKENS) as add:
        add(0, TEXTS[0])
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == [path.name] and path.read_text() == "before"


def test_what_a_killed_process_left_is_replaced(tmp_path):
    (tmp_path / "a.jsonl.partial").write_text("half")
    with feature_files.writer(str(tmp_path / "a.jsonl"), TOKENS) as add:
        add(0, TEXTS[0])
        assert os.listdir(tmp_path) == ["a.jsonl.partial"]
    assert os.listdir(tmp_path) == ["a.jsonl"]


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("a.csv", {}, "a.csv; expected a name that ends in .jsonl, .npz, .parquet, .tfrecord"),
        ("none/a.npz", {}, "cannot be written: pass a file in an existing folder"),
        ("there.npz", {}, "there.npz exists already: pass another output, or overwrite"),
        (".", {"kind": "npz"}, "cannot be written"),
    ],
)
def test_invalid_outputs_are_refused(name, options, message, tmp_path):
    (tmp_path / "there.npz").write_text("")
    with pytest.raises(UserError, match=message):
        feature_files.check_writable(str(tmp_path / name), **options)
    feature_files.check_writable(str(tmp_path / "there.npz"), overwrite=True)

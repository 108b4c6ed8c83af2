"""GLUE from tensorflow-datasets: datasets written by the package are read in order; errors are one sentence."""

import sys
import urllib.error

import faults
import pytest

from bert_tf.data import tfds_datasets
from bert_tf.errors import UserError
from bert_tf.recipes.finetune import Flags
from bert_tf.tasks.catalog import glue, table

LABELS = {"mnli": ["entailment", "neutral", "contradiction"], "cola": ["unacceptable", "acceptable"], "stsb": None}
ROWS = {
    "mnli": {"premise": ["c", "a", "b"], "hypothesis": ["z", "x", "\u2028y"], "idx": [2, 0, 1], "label": [2, 0, 1]},
    "cola": {"sentence": ["b", 'a "'], "idx": [1, 0], "label": [0, 1]},
    "stsb": {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "idx": [0, 10], "label": [2.5, 0.0]},
}
SPLITS = {"mnli": ["train", "validation_matched", "test_matched"], "cola": ["train", "test"], "stsb": ["validation"]}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder of tensorflow-datasets with a few of GLUE's datasets, with the label -1 in test sets."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    folder = tmp_path_factory.mktemp("tfds")
    for config, rows in ROWS.items():
        unknown = {**rows, "label": [-1] * len(rows["idx"])}
        sets = {
            split: tf.data.Dataset.from_tensor_slices(unknown if split.startswith("test") else rows)
            for split in SPLITS[config]
        }
        features = {name: tfds.features.Text() for name in rows if name not in ("idx", "label")}
        label = tfds.features.ClassLabel(names=LABELS[config]) if LABELS[config] else tf.float32
        tfds.dataset_builders.store_as_tfds_dataset(
            name="glue",
            config=config,
            version="2.0.0",
            data_dir=str(folder),
            split_datasets=sets,
            features=tfds.features.FeaturesDict({**features, "idx": tf.int32, "label": label}),
            disable_shuffling=False,
        )
    return folder


def read(folder, name, split):
    """[(id, texts, label)] of a task of GLUE."""
    examples = glue.read_tfds(str(folder), glue.LAYOUTS[name], split)
    return [(example.id, example.texts, example.label) for example in examples]


def test_examples_are_ordered_by_index_with_our_labels(prepared):
    mnli = [("0", ("a", "x"), "entailment"), ("1", ("b", "\u2028y"), "neutral"), ("2", ("c", "z"), "contradiction")]
    assert read(prepared, "mnli", "train") == read(prepared, "mnli", "dev_matched") == mnli
    assert read(prepared, "cola", "train") == [("0", ('a "',), 1), ("1", ("b",), 0)]
    assert read(prepared, "sts-b", "dev") == [("0", ("a", "c"), 2.5), ("10", ("b", "d"), 0.0)]


def test_test_sets_have_no_labels(prepared):
    assert [label for _, _, label in read(prepared, "mnli", "test_matched")] == [None, None, None]
    assert read(prepared, "cola", "test") == [("0", ('a "',), None), ("1", ("b",), None)]
    row = tfds_datasets.read("glue/cola", "test", data_dir=str(prepared), texts=["sentence"], label="label")[0]
    assert row.label is None and row.location.startswith("example ")


def test_every_glue_task_has_its_tfds_name_and_features():
    from tensorflow_datasets.text.glue import Glue

    known = {config.name: config for config in Glue.BUILDER_CONFIGS}
    for layout in glue.LAYOUTS.values():
        config = known[layout.config]
        assert set(layout.features) == set(config.text_features)
        classes = config.label_classes or ()
        if layout.labels == ("0", "1"):
            assert len(classes) == 2
        else:
            assert sorted(classes) == sorted(layout.labels)
        assert set(layout.parts) == set(layout.files)


def table_of(folder, name, **flags):
    """The task of a table whose rows are a dataset."""
    options = {"tfds_name": name, "tfds_dir": str(folder), "stratify": False, "eval_fraction": 0.5}
    return table.task(Flags(**{**options, "max_seq_length": 8, **flags}), lambda texts: None)


def test_any_dataset_is_a_table_by_its_features(prepared):
    task = table_of(prepared, "glue/mnli", text_columns="premise,hypothesis")
    assert task.head.labels == ("contradiction", "entailment", "neutral")
    read = {split: task.split(split).examples for split in ("train", "dev")}  # there is no split "validation"
    assert sorted(example.texts for rows in read.values() for example in rows) == [
        ("a", "x"),
        ("b", "\u2028y"),
        ("c", "z"),
    ]
    with pytest.raises(UserError, match="glue/mnli has no split test"):
        task.split("test")


def test_test_split_of_a_dataset_is_predicted_and_ids_are_a_feature(prepared):
    test = table_of(prepared, "glue/cola", text_columns="sentence", id_column="idx").split("test")
    assert not test.is_known and sorted((row.id, row.texts) for row in test.examples) == [
        ("0", ('a "',)),
        ("1", ("b",)),
    ]
    validation = table_of(prepared, "glue/stsb", text_columns="sentence1,sentence2", label_type="regression").split(
        "dev"
    )
    assert sorted(validation.labels.tolist()) == [0.0, 2.5]


def test_unknown_dataset_or_feature_is_one_sentence(prepared):
    with pytest.raises(UserError, match="does not contain glue/colla, and tensorflow-datasets cannot make it"):
        table_of(prepared, "glue/colla", text_columns="sentence")
    with pytest.raises(UserError, match="has no text; there are .*sentence"):
        table_of(prepared, "glue/cola", text_columns="text")
    with pytest.raises(UserError, match=r"a text is \(\d,\); expected strings in idx"):
        table_of(prepared, "glue/cola", text_columns="idx")


def test_undownloadable_dataset_is_reported_at_once(prepared):
    requests = []

    def unreachable(request, timeout):
        requests.append((request.get_method(), timeout))
        raise urllib.error.URLError("no route")

    message = r"does not contain glue/mrpc, and it cannot be downloaded from \S+ \(no route\): connect to the internet"
    with faults.on_call(urllib.request, "urlopen", unreachable), pytest.raises(UserError, match=message):
        read(prepared, "mrpc", "train")
    assert requests == [("HEAD", 5)]


def test_failed_download_is_one_sentence(prepared):
    import tensorflow_datasets as tfds

    def refused(request, timeout):
        raise urllib.error.HTTPError(request.full_url, 405, "no HEAD here", None, None)

    wrong = RuntimeError("checksum is wrong\nand more")
    with (
        faults.on_call(urllib.request, "urlopen", refused),
        faults.on_call(tfds.core.DatasetBuilder, "download_and_prepare", wrong),
        pytest.raises(UserError, match=r"cannot be downloaded from \S+ \(checksum is wrong\)"),
    ):
        read(prepared, "rte", "train")


def test_missing_package_or_split_is_named(prepared, monkeypatch):
    with pytest.raises(UserError, match="has no split 'validation_mismatched'; its splits: .*train"):
        read(prepared, "mnli", "dev_mismatched")
    with pytest.raises(UserError, match="has no premise; there are .*sentence"):
        tfds_datasets.read("glue/cola", "train", data_dir=str(prepared), texts=["premise"], label=None)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(UserError, match=r'needs the package tensorflow-datasets .*pip install "bert-tf\[tfds\]"'):
        read(prepared, "cola", "train")


def test_damaged_file_is_reported(prepared, tmp_path):
    import shutil

    shutil.copytree(prepared / "glue" / "cola", tmp_path / "glue" / "cola")
    for path in tmp_path.rglob("*train*tfrecord*"):
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match="is damaged .*remove this folder"):
        read(tmp_path, "cola", "train")


def test_newest_version_is_used(tmp_path):
    for version in ("1.0.0", "2.0.0", "10.0.0", "11.0.0"):
        (tmp_path / "glue" / "rte" / version).mkdir(parents=True)
        if version != "11.0.0":  # incomplete
            (tmp_path / "glue" / "rte" / version / "dataset_info.json").write_text("{}")
    assert tfds_datasets._find_prepared("glue/rte", str(tmp_path)) == str(tmp_path / "glue" / "rte" / "10.0.0")
    assert tfds_datasets._find_prepared("glue/cola", str(tmp_path)) is None

"""Fine-tuned checkpoints in every format: heads bit for bit, their labels, and what Hugging Face's config.json says."""

import dataclasses
import json

import numpy as np
import pytest
import tiny
from checkpoint_cases import CONFIG, FORMATS, assert_equal, checkpoint
from head_cases import HEADS

from bert_tf.checkpoints import checkpoint_files, formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.formats import native
from bert_tf.errors import UserError
from bert_tf.model import heads


@pytest.mark.parametrize("kind", HEADS)
def test_task_head_and_labels_survive_every_format(kind, tmp_path):
    make, labels = HEADS[kind]
    arrays = tiny.random_weights(make())
    source = dataclasses.replace(checkpoint(), weights=arrays, labels=labels, kind=kind)
    folder = None
    for name in FORMATS if kind in ("classes", "span") else [name for name in FORMATS if name != "keras_hub"]:
        source = source if folder is None else formats.read(folder)
        folder = str(tmp_path / name)
        assert formats.write(source, folder, name) == []
        loaded = formats.read(folder)
        assert_equal(loaded, dataclasses.replace(checkpoint(), weights=arrays))
        assert (loaded.labels, loaded.kind, formats.labels(folder)) == (labels, kind, labels)


def test_head_on_means_is_refused_by_formats_of_others(tmp_path):
    config = dataclasses.replace(CONFIG, pooling="mean")
    arrays = tiny.random_weights(heads.Classifier(config, 2))
    source = dataclasses.replace(checkpoint(), config=config, weights=arrays, labels=["no", "yes"], kind="classes")
    formats.write(source, str(tmp_path / "native"), "native")
    assert_equal(formats.read(str(tmp_path / "native")), source)
    for name in set(FORMATS) - {"native"}:
        with pytest.raises(UserError, match=f"{name} .* classifiers on .CLS., .* train it with --pooling=cls"):
            formats.write(source, str(tmp_path / name), name)


@pytest.mark.parametrize("name", FORMATS)
def test_head_on_extra_layers_is_kept_with_them_or_dropped(name, tmp_path):
    tagger = dataclasses.replace(checkpoint(), labels=["O", "B-X"], kind="tags")
    encoder = {each: x for each, x in tagger.weights.items() if each.startswith("encoder/")}
    between = {"lstm/forwards/0/cell/kernel": np.ones((16, 8), np.float32), "mix/scale": np.ones(1, np.float32)}
    head = {"classifier/kernel": np.ones((4, 2), np.float32), "classifier/bias": np.ones(2, np.float32)}
    tagger.weights.clear()
    tagger.weights.update(encoder | between | head)
    left_out = formats.write(tagger, str(tmp_path / name), name)
    loaded = formats.read(str(tmp_path / name))
    if name in ("native", "keras_hub"):
        assert left_out == [] and loaded.weights.keys() == tagger.weights.keys() and loaded.labels == tagger.labels
    else:
        assert left_out == sorted(between | head) and loaded.weights.keys() == encoder.keys() and loaded.labels is None


@pytest.mark.parametrize(
    "kind, labels, architecture, problem, id2label",
    [
        ("classes", ["no", "yes"], "SequenceClassification", "single_label_classification", {"0": "no", "1": "yes"}),
        ("multi_label", ["a", "b"], "SequenceClassification", "multi_label_classification", {"0": "a", "1": "b"}),
        (None, ["one"], "SequenceClassification", "single_label_classification", {"0": "LABEL_0", "1": "LABEL_1"}),
        ("regression", None, "SequenceClassification", "regression", {"0": "LABEL_0"}),
        ("choice", ["0", "1"], "MultipleChoice", None, None),
        ("span", None, "QuestionAnswering", None, None),
        ("tags", ["O", "B-X"], "TokenClassification", None, {"0": "O", "1": "B-X"}),
    ],
)
def test_huggingface_config_has_architecture_problem_type_and_labels(
    kind, labels, architecture, problem, id2label, tmp_path
):
    size = 1 if kind in ("regression", "choice") else 2
    arrays = tiny.random_weights(heads.SpanFinder(CONFIG) if kind == "span" else heads.Classifier(CONFIG, size))
    source = Checkpoint(config=CONFIG, weights=arrays, labels=labels, kind=kind)
    formats.write(source, str(tmp_path / "model"), "huggingface")
    values = json.loads((tmp_path / "model" / "config.json").read_text())
    assert values["architectures"] == [f"BertFor{architecture}"]
    assert (values.get("problem_type"), values.get("id2label")) == (problem, id2label)
    assert values.get("label2id") == (id2label and {name: int(number) for number, name in id2label.items()})


@pytest.mark.parametrize(
    "values, expected",
    [
        ({"id2label": {"1": "b", "0": "a", "2": "c"}}, ["a", "b", "c"]),
        ({}, ["LABEL_0", "LABEL_1"]),  # what transformers leaves out
        ({"id2label": {"0": "LABEL_0"}}, None),
        ({"architectures": ["BertModel"], "id2label": {"0": "a", "1": "b"}}, None),
    ],
)
def test_huggingface_labels_are_in_output_order(values, expected, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertForSequenceClassification"], **values}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert formats.labels(tmp_path) == expected
    (tmp_path / "config.json").write_text(
        json.dumps({"architectures": ["BertForSequenceClassification"], "id2label": {"7": "a", "9": "b"}})
    )
    with pytest.raises(UserError, match="id2label without the numbers 0, 1, 2"):
        formats.labels(tmp_path)


@pytest.mark.parametrize(
    "named, labels, problem, without_pooler, expected",
    [
        (None, ["bad", "good"], None, False, "classes"),
        ("MyModel", ["bad", "good"], "multi_label_classification", False, "multi_label"),
        ("BertForMultiLabelClassification", ["bad", "good"], None, False, "multi_label"),
        ("BertForNer", ["O", "B-X"], None, False, "tags"),
        ("BertSoftmax", ["NOUN", "VERB"], None, True, "tags"),
    ],
)
def test_labels_of_huggingface_count_whatever_the_class_is_called(
    named, labels, problem, without_pooler, expected, tmp_path, caplog
):
    arrays = tiny.random_weights(heads.Classifier(CONFIG, 2))
    if without_pooler:
        arrays = {name: x for name, x in arrays.items() if "pooler" not in name}
    folder = tmp_path / "model"
    source = dataclasses.replace(checkpoint(), weights=arrays, labels=labels, kind="classes")
    formats.write(source, folder, "huggingface")
    values = json.loads((folder / "config.json").read_text())
    values |= {"architectures": named and [named], "problem_type": problem}
    (folder / "config.json").write_text(json.dumps(values))
    loaded = formats.read(folder)
    assert (loaded.labels, loaded.kind) == (labels, expected)
    assert (f"the class {named}, whose head is unknown" in caplog.text) == bool(named)


@pytest.mark.parametrize(
    "name, kernel, bias",
    [
        ("google_tf", "cls/squad/output_weights", "cls/squad/output_bias"),  # [2, D], as google-research/bert has it
        ("huggingface", "qa_outputs.weight", "qa_outputs.bias"),
    ],
)
def test_question_answering_head_has_each_formats_name_and_shape(name, kernel, bias, tmp_path):
    arrays = tiny.random_weights(heads.SpanFinder(CONFIG))
    formats.write(Checkpoint(config=CONFIG, weights=arrays, kind="span"), str(tmp_path / "model"), name)
    if name == "google_tf":
        loaded = checkpoint_files.read_tensors(
            str(tmp_path / "model" / "bert_model.ckpt"), lambda name: "squad" in name
        )
    else:
        loaded = checkpoint_files.read_safetensors(tmp_path / "model" / "model.safetensors")
        assert "bert.embeddings.LayerNorm.weight" in loaded
    np.testing.assert_array_equal(loaded[kernel], arrays["span/kernel"].T)
    np.testing.assert_array_equal(loaded[bias], arrays["span/bias"])


@pytest.mark.parametrize(
    "task, expected",
    [
        ({"labels": [], "kind": "span"}, (None, "span")),
        ({"labels": ["a", "b"], "kind": "multi_label"}, (["a", "b"], "multi_label")),
    ],
)
def test_run_folder_records_kind_of_head(task, expected, tmp_path):
    native.write(Checkpoint(config=CONFIG, weights=tiny.random_weights(heads.Regressor(CONFIG))), tmp_path / "run")
    (tmp_path / "run" / "task.json").write_text(json.dumps(task))
    loaded = formats.read(tmp_path / "run")
    assert (loaded.labels, loaded.kind) == expected

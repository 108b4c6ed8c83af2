"""How a head answers is recorded with its weights, in a run, an export and each of our folders, and read from there."""

import json
import logging

import numpy as np
import pytest
import tiny

import bert_tf
from bert_tf.checkpoints import formats, pretrained, resize_positions
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError
from bert_tf.export import trained_model
from bert_tf.heads.base.text_head import Windows
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.heads.regression import Regression
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.answering import Answering
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.heads.tags.tagging import Tagging
from bert_tf.heads.vectors.goals import Positives
from bert_tf.tasks.task import FineTuningTask

TOKENS = [*tiny.Words("the fox a dog cat ran sat on mat".split()).vocabulary]
WINDOWS = Windows(stride=3, most=4, pooling="max")


def vectors():
    head = Positives(SentenceVectors("mean", normalize=True)).configured(max_seq_length=7, texts=2)
    head.stride = 3
    return head


HEADS = {
    "classes": Classes(["no", "yes"]).configured(
        max_seq_length=9, texts=2, truncation="only_second", temperature="2.5"
    ),
    "windows": Classes(["no", "yes"]).configured(max_seq_length=6, windows=WINDOWS, temperature="0.5"),
    "multi_label": MultiLabel(["x", "y"], thresholds=[0.25, 0.75]).configured(max_seq_length=8, temperature="3"),
    "choice": MultipleChoice(3).configured(max_seq_length=8, texts=4, temperature="2"),
    "regression": Regression().configured(max_seq_length=5),
    "tags": Tagging(TagSet(("O", "B-X", "I-X"), "iob2"), TagWindows(max_seq_length=8, stride=3), crf=True),
    "words": Tagging(TagSet(("noun", "verb"), "plain"), TagWindows(max_seq_length=8, stride=3)),
    "span": Answering(QuestionWindows(11, 2, 5), Search(has_null=True, threshold=1.5, temperature=2.0, n_best_size=3)),
    "vectors": vectors(),
}


def made(head):
    """A task with this head, and a checkpoint of its model that records how it answers."""
    task = FineTuningTask("mine", {}, head, tiny.Words("the fox".split()))
    answers = {"task": "mine", **task.about(), "reads": {}, "host": task.host_settings, "calibration": {}}
    checkpoint = Checkpoint(
        config=tiny.CONFIG,
        weights=tiny.random_weights(head.training.create_model(tiny.CONFIG)),
        vocabulary=TOKENS,
        lower_case=True,
        labels=list(head.labels) if head.is_labelled else None,
        kind=head.kind,
        answers=answers,
        sentence_vectors=head.sentence_vectors,
    )
    return task, checkpoint


@pytest.mark.parametrize("name", HEADS)
def test_a_folder_answers_as_its_head_was_trained(name, tmp_path):
    task, checkpoint = made(HEADS[name])
    formats.write(checkpoint, tmp_path / "model", "native")
    loaded = pretrained.load(tmp_path / "model")
    found = trained_model.task_of("model", loaded)
    if name == "vectors":
        names = ("stages", "unit", "pooling", "max_seq_length", "stride")
        assert all(found.host_settings[each] == task.host_settings[each] for each in names)
    else:
        assert found.host_settings == task.host_settings
        assert found.about() == task.about()
        assert type(found.create_model(tiny.CONFIG)) is type(task.create_model(tiny.CONFIG))
    if name == "windows":
        assert loaded.model.window_pooling == "max"
    if name == "tags":
        assert found.head.crf and found.head.tag_set == task.head.tag_set


@pytest.mark.parametrize("name", ["native", "google_tf", "keras_hub"])
def test_probabilities_are_the_same_in_each_folder_that_we_write(name, tmp_path):
    _, checkpoint = made(Classes(["no", "yes"]).configured(max_seq_length=6, temperature="4"))
    formats.write(checkpoint, tmp_path / "first", "native")
    first = bert_tf.load(tmp_path / "first")
    text = "the fox sat on the mat and ran on"
    expected = first.predict(text).probabilities
    first.save(tmp_path / "second", format=name)
    second = bert_tf.load(tmp_path / "second")
    actual = second.predict(text).probabilities
    np.testing.assert_allclose(
        list(actual.values()), list(expected.values()), atol=2e-3 if name == "keras_hub" else 1e-5
    )
    cold = bert_tf.load(tmp_path / "first", new_head=True, labels=["a", "b"])
    assert list(cold.predict("the fox").probabilities) == ["a", "b"], "a new head has no temperature"


def test_what_transformers_has_no_place_for_is_named(tmp_path, caplog):
    _, checkpoint = made(HEADS["classes"])
    with caplog.at_level(logging.WARNING, "bert_tf"):
        formats.write(checkpoint, tmp_path / "model", "huggingface")
    assert "cannot store the temperature 2.5" in caplog.text
    caplog.clear()
    _, checkpoint = made(HEADS["regression"])
    with caplog.at_level(logging.WARNING, "bert_tf"):
        formats.write(checkpoint, tmp_path / "other", "huggingface")
    assert "cannot store" not in caplog.text


@pytest.mark.parametrize(
    "damage",
    [
        *({"host": {"stages": "texts", **each}} for each in ({}, {"windows": 5}, {"truncation": "x", "texts": 1})),
        *({"host": {"stages": "texts", "texts": 1, "max_seq_length": each}} for each in (-5, "x", 1 << 40)),
        {"temperature": "x"},
        {"thresholds": [0.5]},
        {"host": 3},
    ],
)
def test_a_damaged_record_is_one_sentence(damage, tmp_path):
    _, checkpoint = made(HEADS["classes"])
    formats.write(checkpoint, tmp_path / "model", "native")
    path = tmp_path / "model" / "labels.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(UserError, match="model"):
        bert_tf.load(tmp_path / "model").predict("the fox")


def test_a_run_that_does_not_record_it_is_named(tmp_path):
    """It would answer with other lengths and thresholds than those that it was trained with."""
    _, checkpoint = made(HEADS["classes"])
    formats.write(checkpoint, tmp_path / "run", "native")
    (tmp_path / "run" / "labels.json").unlink()
    (tmp_path / "run" / "task.json").write_text(json.dumps({"labels": ["no", "yes"], "kind": "classes"}))
    (tmp_path / "run" / "run.json").write_text(json.dumps({"name": "table", "flags": {}}))
    with pytest.raises(UserError, match="an earlier version wrote it: .* do_train=False"):
        bert_tf.load(tmp_path / "run").predict("the fox")


@pytest.mark.parametrize("name", ["classes", "windows", "tags", "span"])
def test_rows_are_as_short_as_the_table_of_positions_that_they_are_left_with(name, tmp_path):
    _, checkpoint = made(HEADS[name])
    short = resize_positions.with_positions(checkpoint, 8)
    formats.write(short, tmp_path / "model", "native")
    settings = trained_model.task_of("model", pretrained.load(tmp_path / "model")).host_settings
    lengths = settings["max_seq_length"] if "max_seq_length" in settings else settings["windows"]["max_seq_length"]
    assert lengths == min(8, HEADS[name].max_seq_length)

"""Loaded models in other processes: forked ones, and copies and pickles."""

import copy
import os
import pickle
import signal
import time

import checkpoint_cases
import numpy as np
import pytest
import tiny

import bert_tf
from bert_tf.errors import UserError
from bert_tf.export.saved_model import export
from bert_tf.heads.classes import Classes
from bert_tf.model import heads
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer

TEXTS = ["a b c", "d"]


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """The folder of a classifier."""
    folder = tmp_path_factory.mktemp("processes") / "classes"
    return str(checkpoint_cases.write(folder, heads.Classifier(tiny.CONFIG, 3), ["x", "y", "z"], "classes"))


@pytest.fixture(scope="module")
def with_engine(tmp_path_factory):
    """The folder of an export with a model for OpenVINO."""
    tokenizer = Tokenizer(checkpoint_cases.PIECES)
    task = FineTuningTask("tiny", {}, Classes(["x", "y"]).configured(max_seq_length=12), tokenizer, test_splits=())
    model = tiny.randomized(task.create_model(tiny.CONFIG))
    folder = str(tmp_path_factory.mktemp("processes") / "export")
    export(task, model, tokenizer, folder, examples={}, about=task.about(), engine_names=["openvino"])
    return folder


def probabilities(bert):
    return [list(each.probabilities.values()) for each in bert.predict(TEXTS)]


def exit_code_of_child(function):
    """The exit code of a forked process that calls a function: 0; 3 after a UserError on forked processes."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends one that hangs
        try:
            function()
            os._exit(0)
        except UserError as error:
            os._exit(3 if "forked" in str(error) and "spawn" in str(error) else 4)
        except BaseException:
            os._exit(5)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_forked_processes_cannot_compute_with_tensorflow(classes):
    bert = bert_tf.load(classes)
    bert.predict(TEXTS)
    for call in (
        lambda: bert.predict("a"),
        lambda: bert.embed("a"),
        lambda: bert.attribute("a"),
        lambda: bert_tf.load(classes),
        lambda: bert_tf.fine_tune([("a", "b")]),
    ):
        assert exit_code_of_child(call) == 3


def test_engines_compute_in_forked_processes(with_engine):
    bert = bert_tf.load(with_engine, engine="openvino")
    expected = probabilities(bert)
    time.sleep(1)  # a thread of OpenVINO that has just computed may have a lock, which a fork would inherit
    assert exit_code_of_child(lambda: np.testing.assert_allclose(probabilities(bert), expected, atol=1e-6)) == 0


def test_tensorflow_computes_what_an_engine_lacks(with_engine):
    bert, right = bert_tf.load(with_engine, engine="openvino"), bert_tf.load(with_engine)
    for options in ({}, {"layers": "-1,-2"}, {"layers": "0", "pooling": "cls"}):
        np.testing.assert_allclose(bert.embed(TEXTS, **options), right.embed(TEXTS, **options), atol=1e-5)
    found, expected = bert.attribute("a b"), right.attribute("a b")
    assert (found.tokens, found.target) == (expected.tokens, expected.target)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    assert exit_code_of_child(lambda: bert.attribute("a")) == 3  # TensorFlow does not compute in forked processes
    with pytest.raises(UserError, match="without a Keras model"):
        bert.model  # noqa: B018


def test_a_pickle_loads_the_same_folder_with_the_same_arguments(classes, tmp_path, monkeypatch):
    monkeypatch.chdir(os.path.dirname(classes))
    bert = bert_tf.load("classes", special_tokens_in_strings=["[MASK]"], segments="one", trust_code=True)
    pickled = pickle.dumps(bert)
    assert len(pickled) < 1000
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(pickled)
    assert probabilities(again) == probabilities(bert)
    assert (again.path, again.trust_code) == (classes, True)
    assert again.tokenizer.encode("a [MASK]") == bert.tokenizer.encode("a [MASK]")
    assert again.config.type_vocab_size == bert.config.type_vocab_size


def test_engines_are_pickled_and_copied(with_engine):
    bert = bert_tf.load(with_engine, engine="openvino")
    for again in (pickle.loads(pickle.dumps(bert)), copy.copy(bert), copy.deepcopy(bert)):
        assert again.engine == "openvino"
        assert probabilities(again) == probabilities(bert)
    exported = bert_tf.load(with_engine)
    assert probabilities(pickle.loads(pickle.dumps(exported))) == probabilities(exported)
    bert.labels[0] = "another"
    with pytest.raises(UserError, match=r"labels of this model differs"):
        pickle.dumps(bert)


def test_what_a_pickle_would_lose_is_an_error(classes):
    bert = bert_tf.load(classes)
    bert.labels = ["1", "2", "3"]
    with pytest.raises(UserError, match=r"labels of this model differs .*save\(FOLDER\)"):
        pickle.dumps(bert)
    bert = bert_tf.load(classes)
    bert.model.classifier.bias.assign([1.0, 2.0, 3.0])
    with pytest.raises(UserError, match="classifier/bias of this model differs"):
        pickle.dumps(bert)


def test_a_deep_copy_has_a_model_of_its_own(classes):
    bert = bert_tf.load(classes)
    before = probabilities(bert)
    copied = copy.deepcopy(bert)
    assert probabilities(copied) == probabilities(copy.copy(bert)) == before
    copied.model.classifier.bias.assign([9.0, 0.0, 0.0])
    assert [each.label for each in copied.predict(TEXTS)] == ["x", "x"]
    assert probabilities(bert) == before

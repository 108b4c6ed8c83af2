"""Hashes of the texts that a model was trained on."""

import types

import numpy as np
import pytest
import tiny

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.regression import Regression
from bert_tf.heads.span.answering import SpanTraining
from bert_tf.heads.tags.tagging import TagTraining
from bert_tf.recipes.finetuning import trained_texts
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.run_directory import RunFolder


def test_a_run_records_its_texts_and_warns_of_evaluation_texts_among_them(tmp_path, caplog):
    train = [Example(str(n), ("red " * n,), "1") for n in range(1, 5)]
    dev = [Example("0", ("Red\tred ",), "1"), Example("1", ("blue",), "4")]
    task = FineTuningTask(
        "numbers",
        {"train": lambda: train, "dev": lambda: dev},
        Regression().configured(max_seq_length=8),
        tiny.Words(["red", "blue"]),
    )
    trained_texts.record(RunFolder(str(tmp_path)), task, ["dev"])
    assert caplog.messages == ["1 of the 2 dev rows are also in the training data: use unseen rows for a fair score."]
    (tmp_path / "export").mkdir()
    for folder in (tmp_path, tmp_path / "export"):
        assert sorted(trained_texts.read(str(folder))) == sorted(trained_texts.hashes(row.texts for row in train))
    (tmp_path / trained_texts.FILE).write_bytes(b"x")
    with pytest.raises(UserError, match=r"trained_texts.u64 is damaged"):
        trained_texts.read(str(tmp_path))


def test_texts_of_words_and_questions():
    assert TagTraining.texts_of(None, (types.SimpleNamespace(words=["Ann", "sang"]), [0, 1])) == ["Ann", "sang"]
    question = types.SimpleNamespace(question="Who?", context="Ann sang.")
    assert SpanTraining.texts_of(None, question) == ("Who?", "Ann sang.")


def test_of_many_texts_a_sample_is_compared(caplog):
    trained = np.arange(trained_texts.MOST, dtype=np.uint64) * 2  # the smallest of many
    last = int(trained[-1])
    trained_texts.warn("run", "file", trained, np.array([10, 15, last + 1, last + 9], np.uint64))
    assert "rows of file (1 of 2)" in caplog.text, "the last two may be trained on too"

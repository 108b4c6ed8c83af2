"""Quick models that fine-tuning is compared with, and what a new head begins as."""

import dataclasses

import pytest
import tiny
from training_steps import ONE_LAYER

from bert_tf.data.examples import Example
from bert_tf.heads.classes import Classes
from bert_tf.heads.regression import Regression
from bert_tf.recipes.finetuning import baselines
from bert_tf.recipes.finetuning.finetuning_flags import FineTuningFlags
from bert_tf.runtime.json_files import read_json
from bert_tf.tasks import baseline
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training.run_directory import RunFolder


def test_new_head_for_numbers_begins_at_their_mean():
    rows = [Example("0", ("red",), "1.5"), Example("1", ("blue",), "4")]
    head = Regression().configured(max_seq_length=8)
    task = FineTuningTask("numbers", {"train": lambda: rows}, head, tiny.Words(["red", "blue"]))
    model = task.create_model(dataclasses.replace(ONE_LAYER, vocab_size=7))
    baselines.begin_at_mean(task, model)
    assert model.classifier.bias.numpy().tolist() == [2.75]


@pytest.mark.parametrize(("taken_step", "expected"), [(0, []), (3, [baseline.FROZEN])])
def test_model_that_is_the_linear_head_itself_is_not_compared_with_it(taken_step, expected, tmp_path):
    rows = [Example("0", ("red",), "x"), Example("1", ("blue",), "y")]
    head = Classes(["x", "y"]).configured(max_seq_length=8)
    task = FineTuningTask("table", {"train": lambda: rows}, head, tiny.Words(["red", "blue"]))
    folder = RunFolder(str(tmp_path))
    scores = {"name": baseline.FROZEN, "scores": {"accuracy": 0.5}}
    folder.update(baselines=[scores], selection={"taken_step": taken_step})
    baselines.compare(FineTuningFlags(start="best"), task, {"accuracy": 0.5}, folder)
    assert read_json(folder.file("run.json"))["not_beaten"] == expected

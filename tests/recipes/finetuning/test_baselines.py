"""Quick models that fine-tuning is compared with, and what a new head begins as."""

import dataclasses

import tiny
from training_steps import ONE_LAYER

from bert_tf.data.examples import Example
from bert_tf.heads.regression import Regression
from bert_tf.recipes.finetuning import baselines
from bert_tf.tasks.task import FineTuningTask


def test_new_head_for_numbers_begins_at_their_mean():
    rows = [Example("0", ("red",), "1.5"), Example("1", ("blue",), "4")]
    head = Regression().configured(max_seq_length=8)
    task = FineTuningTask("numbers", {"train": lambda: rows}, head, tiny.Words(["red", "blue"]))
    model = task.create_model(dataclasses.replace(ONE_LAYER, vocab_size=7))
    baselines.begin_at_mean(task, model)
    assert model.classifier.bias.numpy().tolist() == [2.75]

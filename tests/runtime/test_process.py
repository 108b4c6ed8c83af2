"""A process that only answers has weights laid out once, answers as any other, and does not train."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import UserError
from bert_tf.model.heads import Classifier
from bert_tf.runtime import process
from bert_tf.training.distribute import create_strategy
from bert_tf.training.train_step import TrainStep

ANSWERING = """
import json, os, sys
from bert_tf.runtime import process
process.assume_frozen_weights()
import tensorflow as tf
loaded = [tf.saved_model.load(folder) for folder in sys.argv[1:]]
told = {"frozen": os.environ[process.FROZEN], "answers": []}
for length in (3, 40, 7, 40):
    inputs = tf.reshape(tf.range(2 * length) % 97, [2, length])
    told["answers"] += [model.answer(inputs).numpy().tolist() for model in loaded]
print(json.dumps(told))
"""


def saved(folder, seed):
    """A small model that answers rows of any length, and that function."""
    tf.random.set_seed(seed)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    encoder = Classifier(BertConfig(vocab_size=97, **shape), 2).encoder

    def answer(token_ids):
        lengths = tf.fill([tf.shape(token_ids)[0]], tf.shape(token_ids)[1])
        inputs = {"token_ids": token_ids, "segment_ids": tf.zeros_like(token_ids), "lengths": lengths}
        return encoder(inputs)["pooled"]

    module = tf.Module()
    module.variables_of = [variable.value for variable in encoder.weights]
    module.answer = tf.function(answer, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    tf.saved_model.save(module, str(folder))
    return module.answer


@pytest.mark.slow
def test_two_models_with_frozen_weights_answer_alternately(tmp_path):
    answers = [saved(tmp_path / str(seed), seed) for seed in (1, 2)]
    environment = {name: value for name, value in os.environ.items() if name != process.FROZEN}
    command = [sys.executable, "-c", ANSWERING, str(tmp_path / "1"), str(tmp_path / "2")]
    result = json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    assert result["frozen"] == "1"
    lengths = (3, 40, 7, 40)
    expected = [answer(tf.reshape(tf.range(2 * n) % 97, [2, n])).numpy() for n in lengths for answer in answers]
    for one, other in zip(result["answers"], expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_process_that_already_uses_tensorflow_is_left_alone(monkeypatch):
    monkeypatch.delenv(process.FROZEN, raising=False)
    process.assume_frozen_weights()
    assert process.FROZEN not in os.environ


def test_process_with_frozen_weights_cannot_train(monkeypatch):
    monkeypatch.setenv(process.FROZEN, "1")
    with pytest.raises(UserError, match="FROZEN_WEIGHTS=1 is set, .*: unset it"):
        TrainStep(None, None, TrainConfig(train_batch_size=2, num_train_steps=1), create_strategy("one_device"))

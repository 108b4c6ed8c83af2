"""A process that only answers lays out weights once, answers as any other and does not train. XLA's flags and cache."""

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


@pytest.fixture
def before_tensorflow(monkeypatch, with_gpus, tmp_path):
    """A process that has not imported TensorFlow, on a machine with an accelerator."""
    monkeypatch.delitem(sys.modules, "tensorflow")
    with_gpus(others=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_clustering_debug")
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp/dump")


def test_xla_rounds_as_the_model_says(before_tensorflow, monkeypatch):
    process.set_up_xla("none")
    assert os.environ["XLA_FLAGS"] == "--xla_dump_to=/tmp/dump --xla_allow_excess_precision=false"
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug"
    monkeypatch.setenv("XLA_FLAGS", "--xla_allow_excess_precision=true")
    process.set_up_xla("none")
    assert os.environ["XLA_FLAGS"] == "--xla_allow_excess_precision=true", "the user's choice stays"


def test_flag_is_one_of_xla():
    """XLA ends a process with flags that it does not know."""
    program = "import tensorflow as tf; print(tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(1)).numpy())"
    environment = {**os.environ, "XLA_FLAGS": f"{process.ROUNDING}=false", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout == "2\n", done.stderr


def test_compiled_programs_are_kept_in_the_users_cache(before_tensorflow, tmp_path):
    process.set_up_xla()
    folder = tmp_path / "cache" / "bert_tf" / "xla"
    assert folder.is_dir()
    expected = f"--tf_xla_clustering_debug --tf_xla_persistent_cache_directory={folder} {process.CACHED_DEVICES}"
    assert os.environ["TF_XLA_FLAGS"] == expected
    process.set_up_xla(str(tmp_path / "other"))
    assert os.environ["TF_XLA_FLAGS"] == expected, "the first folder stays"


@pytest.mark.parametrize("reason", ["none", "cpu", "imported"])
def test_nothing_is_kept_if_unwanted_or_useless(before_tensorflow, monkeypatch, with_gpus, tmp_path, reason):
    if reason == "cpu":
        with_gpus()
    if reason == "imported":
        monkeypatch.setitem(sys.modules, "tensorflow", None)
    process.set_up_xla("none" if reason == "none" else "auto")
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug" and not (tmp_path / "cache").exists()
    assert ("excess_precision" in os.environ["XLA_FLAGS"]) == (reason == "none")


def test_unusable_folder_is_an_error_only_if_given(before_tensorflow, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    names = {str(tmp_path / "file"): "xists", str(tmp_path / "a b"): "its name has a space", "gs://a/b": "in a store"}
    for folder, reason in names.items():
        with pytest.raises(UserError, match=f"xla_cache=.* cannot be used .*{reason}"):
            process.set_up_xla(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    process.set_up_xla()
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug"

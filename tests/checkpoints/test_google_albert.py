"""Checkpoints of google-research/albert: names, configuration and vocabulary, both ways."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.text import vocabulary_learning
from bert_tf.text.tokenizer_kinds import SENTENCEPIECE

CONFIG = dataclasses.replace(tiny.CONFIG, encoder="albert", embedding_size=8, num_hidden_layers=4, num_hidden_groups=2)
OF_A_LAYER = """LayerNorm/beta LayerNorm/gamma LayerNorm_1/beta LayerNorm_1/gamma attention_1/output/dense/bias
attention_1/output/dense/kernel attention_1/self/key/bias attention_1/self/key/kernel attention_1/self/query/bias
attention_1/self/query/kernel attention_1/self/value/bias attention_1/self/value/kernel ffn_1/intermediate/dense/bias
ffn_1/intermediate/dense/kernel ffn_1/intermediate/output/dense/bias ffn_1/intermediate/output/dense/kernel"""


@pytest.fixture(scope="module")
def tokens():
    return vocabulary_learning.learn(["the quick brown fox jumped over the lazy dogs"] * 3, 50, kind=SENTENCEPIECE)


@pytest.fixture
def written(tokens, tmp_path):
    """A checkpoint and the folder that it was written to."""
    config = dataclasses.replace(CONFIG, vocab_size=len(tokens))
    checkpoint = Checkpoint(config=config, weights=tiny.pretrainer(config)[1], vocabulary=tokens, lower_case=True)
    assert formats.write(checkpoint, str(tmp_path / "albert"), "google_tf") == []
    return checkpoint, tmp_path / "albert"


def test_weights_have_the_names_of_the_original(written):
    _, folder = written
    names = {name for name, _ in tf.train.list_variables(str(folder / "bert_model.ckpt"))}
    prefix = "bert/encoder/transformer/group_1/inner_group_0/"
    assert sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix)) == OF_A_LAYER.split()
    assert "bert/encoder/embedding_hidden_mapping_in/kernel" in names and not (folder / "bert_config.json").exists()
    assert json.loads((folder / "albert_config.json").read_text())["num_hidden_groups"] == 2


def test_what_is_written_is_read_also_with_a_released_folder_s_names(written):
    checkpoint, folder = written
    for number in range(2):
        again = formats.read(str(folder))
        assert (again.config, list(again.vocabulary), again.lower_case) == (
            checkpoint.config,
            list(checkpoint.vocabulary),
            True,
        )
        assert again.weights.keys() == checkpoint.weights.keys()
        for name, array in checkpoint.weights.items():
            np.testing.assert_array_equal(again.weights[name], array, err_msg=name)
        if number == 0:  # as the archives of google-research/albert
            (folder / "spiece.model").rename(folder / "30k-clean.model")
            for name in ("vocab.txt", "tokenizer_config.json"):
                (folder / name).unlink()
    values = json.loads((folder / "albert_config.json").read_text())
    (folder / "albert_config.json").write_text(json.dumps({**values, "inner_group_num": 2}))
    with pytest.raises(UserError, match="inner_group_num other than 1"):
        formats.read(str(folder))

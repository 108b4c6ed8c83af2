"""A tiny model whose tokens are words."""

import json

import pytest
import tiny
from safetensors.numpy import save_file

from bert_tf.model import heads

WORDS = "red green blue one two three".split()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A checkpoint of a tiny model."""
    folder = tmp_path_factory.mktemp("model")
    tokens = [*tiny.SPECIAL, *WORDS]
    config = {**tiny.CONFIG.to_dict(), "vocab_size": len(tokens)}
    arrays = tiny.random_weights(heads.BertModel(config))
    save_file(arrays, folder / "model.safetensors")
    (folder / "bert_config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    return str(folder)

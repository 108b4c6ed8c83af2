"""More positions for a checkpoint: which rows they begin with, what stays as it was, what is refused."""

import dataclasses

import numpy as np
import pytest
import tiny
from checkpoint_cases import PIECES

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.resize_positions import with_positions
from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.text import vocabulary, vocabulary_learning
from bert_tf.text.tokenizer import pack
from bert_tf.text.tokenizer_settings import DEFAULT

TABLE = "encoder/embeddings/position_table"


@pytest.mark.parametrize("count, rows", [(5, [0, 1, 2, 0, 1]), (8, [0, 1, 2, 0, 1, 2, 0, 1]), (4, [0, 1, 2, 0])])
def test_new_positions_repeat_the_existing_rows(count, rows):
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    config = dataclasses.replace(tiny.CONFIG, max_position_embeddings=3)
    source = Checkpoint(config=config, weights={TABLE: table, "other": table})
    loaded = with_positions(source, count)
    np.testing.assert_array_equal(loaded.weights[TABLE], table[rows])
    assert loaded.weights["other"] is table and loaded.config.max_position_embeddings == count


@pytest.mark.parametrize(
    "weights, count, separators, output",
    [
        ({}, 3, 1, "max_position_embeddings is 3; expected 4 or more"),
        ({}, 4, 2, "max_position_embeddings is 4; expected 5 or more"),
        ({"span/kernel": np.ones((2, 2))}, 4, 1, "max_position_embeddings is 4; expected 5 or more"),
        ({"span/kernel": np.ones((2, 2))}, 5, 2, "max_position_embeddings is 5; expected 6 or more"),
    ],
)
def test_fewest_positions_depend_on_head_and_separators(weights, count, separators, output):
    settings = dataclasses.replace(DEFAULT, is_mpnet=separators == 2)
    tokens = vocabulary.with_settings(vocabulary_learning.OF_MPNET, settings)
    source = Checkpoint(config=tiny.CONFIG, weights={TABLE: np.ones((3, 2)), **weights}, vocabulary=tokens)
    assert source.host_tokenizer.separators == separators
    with pytest.raises(UserError, match=output):
        with_positions(source, count)
    assert with_positions(source, count + 1).config.max_position_embeddings == count + 1


def test_checkpoint_without_positions_is_refused():
    with pytest.raises(UserError, match="no position embeddings"):
        with_positions(Checkpoint(config=tiny.CONFIG), 9)


def test_resized_model_reads_longer_rows_and_keeps_short_outputs(tmp_path, capsys):
    model, arrays = tiny.pretrainer()
    source = Checkpoint(config=model.config, weights=arrays, vocabulary=PIECES, lower_case=True)
    formats.write(source, str(tmp_path / "from"), "native")
    most = model.config.max_position_embeddings
    arguments = ["convert", str(tmp_path / "from"), f"--max_position_embeddings={3 * most}"]
    assert main.main([*arguments, str(tmp_path / "to"), "--format=huggingface"]) == 0
    assert f"{3 * most} positions instead of {most}" in capsys.readouterr().out
    short, long = bert_tf.load(str(tmp_path / "from")), bert_tf.load(str(tmp_path / "to"))
    rows = pack(short.tokenizer, [["a b c", "d"]], most)
    before, after = (loaded.model.encoder(rows)["tokens"].numpy() for loaded in (short, long))
    np.testing.assert_allclose(after, before, atol=1e-6)
    rows = pack(long.tokenizer, [["a b " * most]], 2 * most)
    assert long.model.encoder(rows)["tokens"].shape[1] == 2 * most == rows["lengths"].numpy()[0]
    assert main.main([*arguments, str(tmp_path / "engine"), "--format=onnx"]) == 2

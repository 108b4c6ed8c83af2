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
from bert_tf.text.tokenizer import pack

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
    "weights, count, output",
    [
        ({TABLE: np.ones((3, 2))}, 3, "max_position_embeddings is 3; expected 4 or more"),
        ({}, 9, "no position embeddings"),
    ],
)
def test_too_few_or_no_positions_are_refused(weights, count, output):
    with pytest.raises(UserError, match=output):
        with_positions(Checkpoint(config=tiny.CONFIG, weights=weights), count)


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

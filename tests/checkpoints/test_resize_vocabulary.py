"""Another vocabulary for a checkpoint: what keeps its vector, what a new piece begins with, what is refused."""

import dataclasses

import numpy as np
import pytest
import tiny

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.checkpoints.resize_vocabulary import VocabularyChange, with_vocabulary
from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.text import vocabulary

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
OLD = [*SPECIAL, "the", "kr", "##ill", "##s", "[unused0]"]
CONFIG = dataclasses.replace(tiny.CONFIG, vocab_size=len(OLD))
TABLE, BIAS = "encoder/embeddings/token_table", "masked_lm/output_bias"
ROWS = np.arange(20, dtype=np.float32).reshape(10, 2)
GIVEN = Checkpoint(
    config=CONFIG,
    weights={TABLE: ROWS, BIAS: ROWS[:, 0], "classifier/bias": np.ones(3, np.float32)},
    vocabulary=OLD,
    lower_case=True,
)


def test_known_tokens_keep_embeddings_and_new_ones_get_the_mean_of_their_parts():
    tokens = ["krill", "##ills", *SPECIAL, "##s", "the", "q"]
    loaded, change = with_vocabulary(GIVEN, tokens)
    krill, ills, whole = ROWS[[6, 7]].mean(0), ROWS[[7, 8]].mean(0), ROWS.mean(0)
    expected = np.stack([krill, ills, *ROWS[:5], ROWS[8], ROWS[5], whole])
    np.testing.assert_array_equal(loaded.weights[TABLE], expected)
    np.testing.assert_array_equal(loaded.weights[BIAS], expected[:, 0])
    np.testing.assert_array_equal(loaded.weights["classifier/bias"], np.ones(3))
    assert (loaded.config.vocab_size, loaded.vocabulary) == (10, tokens)
    assert change == VocabularyChange(kept=7, new=3, removed=3)


def test_reordered_vocabulary_only_moves_rows():
    loaded, change = with_vocabulary(GIVEN, OLD[::-1])
    np.testing.assert_array_equal(loaded.weights[TABLE], ROWS[::-1])
    assert change == VocabularyChange(kept=10, new=0, removed=0)


@pytest.mark.parametrize(
    "without, tokens, output",
    [
        ({"vocabulary": None}, OLD, "has no vocabulary, .*: pass --vocab_file"),
        ({"lower_case": None}, OLD, "has no casing, .*: pass --do_lower_case"),
        ({}, OLD[2:], r"The new vocabulary has no \[PAD\], \[UNK\]"),
    ],
)
def test_incompatible_vocabularies_are_refused(without, tokens, output):
    with pytest.raises(UserError, match=output):
        with_vocabulary(dataclasses.replace(GIVEN, **without), tokens)


def test_convert_extends_the_embeddings_and_reports_it(tmp_path, capsys):
    model, arrays = tiny.pretrainer()
    tokens = [*SPECIAL, *"abcdefghijklmnopqrstuvwxy"]
    source = Checkpoint(config=model.config, weights=arrays, vocabulary=tokens, lower_case=True)
    formats.write(source, str(tmp_path / "from"), "native")
    vocabulary.write(tmp_path / "longer.txt", [*tokens, "##z", "za"])
    arguments = ["convert", str(tmp_path / "from"), str(tmp_path / "to"), f"--new_vocab_file={tmp_path / 'longer.txt'}"]
    assert main.main([*arguments, "--format=huggingface"]) == 0
    assert "30 tokens keep their embeddings, 2 are new (each the mean" in capsys.readouterr().out
    loaded = formats.read(str(tmp_path / "to"))
    assert loaded.config.vocab_size == len(loaded.vocabulary) == 32
    np.testing.assert_array_equal(loaded.weights[TABLE][:30], arrays[TABLE])
    np.testing.assert_allclose(loaded.weights[TABLE][30], arrays[TABLE].mean(0), rtol=1e-5)
    assert main.main([*arguments, "--format=onnx"]) == 2

"""What `bert-tf convert` says of answers that the target's own library computes otherwise."""

import dataclasses

import checkpoint_cases
import pytest
import tiny

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import main
from bert_tf.config.bert_config import BertConfig
from bert_tf.model import heads
from bert_tf.text import tokenizer_kinds, vocabulary_learning

GREEK = [*checkpoint_cases.PIECES[:5], "ς", "σ", *checkpoint_cases.PIECES[7:]]


def converted(source, target, format_name, capsys):
    capsys.readouterr()
    assert main.main(["convert", str(source), str(target), f"--format={format_name}"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("lower_case", [True, False])
def test_a_capital_sigma_that_others_write_otherwise_is_named(lower_case, tmp_path, capsys):
    google, there, back = (tmp_path / name for name in ("google", "there", "back"))
    source = dataclasses.replace(checkpoint_cases.checkpoint(), vocabulary=GREEK, lower_case=lower_case)
    formats.write(source, google, "google_tf")
    said = converted(google, there, "huggingface", capsys)
    assert ("transformers lower-cases a Greek Σ to σ, unlike this model." in said) == lower_case
    said = converted(there, back, "google_tf", capsys)
    assert ("google-research/bert lower-cases a Greek Σ to ς, unlike this model." in said) == lower_case
    assert "Σ" not in converted(google, tmp_path / "native", "native", capsys)
    assert "Σ" not in converted(there, tmp_path / "again", "huggingface", capsys)


def test_the_vector_of_masks_of_an_xlnet_is_named(tmp_path, capsys):
    tokens = vocabulary_learning.learn(["the fox ran, the fox"] * 3, 40, kind=tokenizer_kinds.XLNET)
    config = BertConfig.of_size("tiny", vocab_size=len(tokens), encoder="xlnet")
    weights = tiny.random_weights(heads.BertModel(config))
    source = Checkpoint(config=config, weights=weights, vocabulary=tokens, lower_case=False)
    formats.write(source, tmp_path / "native", "native")
    assert "mask_emb is not written" in converted(tmp_path / "native", tmp_path / "to", "huggingface", capsys)

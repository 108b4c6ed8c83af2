"""What a demonstration of fine-tuning starts from."""

import dataclasses
import types

import pytest
import tiny

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.formats import Checkpoint
from bert_tf.config import flags
from bert_tf.errors import UserError
from bert_tf.recipes import initialization, pretraining_preparation
from bert_tf.training.run_directory import RunFolder


@pytest.mark.parametrize(
    ("is_given", "step", "expected", "said"),
    [
        (True, 3, {"vocab_size": 9}, ""),
        (False, 3, {"vocab_size": 9, "init_checkpoint": "runs/pretraining"}, "starts from the encoder in runs/pret"),
        (False, 0, {"vocab_size": 9, "output_dir": "runs/x_from_scratch"}, "starts from scratch, as runs/pretraining"),
    ],
)
def test_a_demonstration_starts_from_what_the_flag_says_or_else_from_what_is_there(
    is_given, step, expected, said, monkeypatch, tmp_path, capsys
):
    (tmp_path / "runs" / "pretraining").mkdir(parents=True)
    (tmp_path / "runs" / "pretraining" / "vocab.txt").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(flags, "is_given", lambda name: is_given and name == "init_checkpoint")
    monkeypatch.setattr(RunFolder, "last_step", lambda self: step)
    assert initialization.demonstration({"vocab_size": 9}, "Which?", "runs/x") == expected
    told = capsys.readouterr().out
    assert "Which?" in told and (said in told if said else "starts" not in told)


@pytest.mark.parametrize(
    ("there", "wanted", "goes"),
    [
        ("bert", "static", True),
        ("bert", "bilstm_on_top", True),
        ("bilstm_on_top", "bert", True),
        ("lstm", "", True),
        ("bert", "lstm", False),
        ("lstm", "static", False),
        ("static", "bert", False),
    ],
)
def test_an_encoder_starts_from_one_with_the_same_layers_only(there, wanted, goes, monkeypatch):
    config = dataclasses.replace(tiny.CONFIG, encoder=there)
    pieces = [f"piece {i}" for i in range(config.vocab_size)]
    given = Checkpoint(config=config, weights={}, vocabulary=pieces, lower_case=True)
    monkeypatch.setattr(formats, "read", lambda path: given)
    flags_given = {"init_checkpoint": "given", "bert_config_file": "", "vocab_file": "", "do_lower_case": True}
    options = types.SimpleNamespace(**flags_given, max_seq_length=8, encoder=wanted)
    if goes:
        found = initialization.find(options, lower_case_given=False)
        assert found.config.encoder == (wanted or there)
        return
    with pytest.raises(UserError, match=f"given has the encoder {there}, of which {wanted} can take nothing"):
        initialization.find(options, lower_case_given=False)


def test_an_encoder_that_sees_what_it_would_guess_is_not_pre_trained(monkeypatch):
    config = dataclasses.replace(tiny.CONFIG, encoder="bilstm_on_top")
    start = initialization.StartingPoint(config=config, vocabulary=None, lower_case=True)
    monkeypatch.setattr(initialization, "find", lambda *_, **__: start)
    monkeypatch.setattr(pretraining_preparation, "_check_numbers", lambda options: None)
    options = types.SimpleNamespace(init_checkpoint="tagger", input_file="", eval_file="", records_dir="")
    with pytest.raises(UserError, match="tagger has the encoder bilstm_on_top, which is for fine-tuning alone: give"):
        pretraining_preparation.plan(options, lower_case_given=False)

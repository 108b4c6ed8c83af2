"""What a demonstration of fine-tuning starts from, and which encoders fit which."""

import dataclasses

import checkpoint_cases
import pytest
import tiny

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.model import heads
from bert_tf.recipes import initialization
from bert_tf.recipes.pretrain import Flags
from bert_tf.recipes.pretraining import preparation
from bert_tf.text import special_tokens


@pytest.mark.parametrize(
    ("is_given", "step", "expected", "output"),
    [
        (True, 3, {"vocab_size": 9}, ""),
        (False, 3, {"vocab_size": 9, "init_checkpoint": "runs/pretraining"}, "starts from the encoder in runs/pret"),
        (False, 0, {"vocab_size": 9, "output_dir": "runs/x_from_scratch"}, "scratch because runs/pretraining"),
    ],
)
def test_demonstration_starts_from_flag_or_existing_run(
    is_given, step, expected, output, monkeypatch, tmp_path, capsys
):
    (tmp_path / "runs" / "pretraining").mkdir(parents=True)
    (tmp_path / "runs" / "pretraining" / "vocab.txt").touch()
    monkeypatch.chdir(tmp_path)
    if step:
        tiny.touch_checkpoint(tmp_path / "runs" / "pretraining", step)
    options = Flags.of({"init_checkpoint": "there"} if is_given else {})
    values, reasons = initialization.demo_settings(options, {"vocab_size": 9}, "Which?", "runs/x")
    assert values == expected and all(reasons[name] for name in values)
    printed = capsys.readouterr().out
    assert "Which?" in printed and (output in printed if output else "starts" not in printed)


@pytest.mark.parametrize(
    ("checkpoint_encoder", "encoder", "fits"),
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
def test_encoder_initializes_from_matching_layers_only(checkpoint_encoder, encoder, fits, tmp_path):
    config = dataclasses.replace(tiny.CONFIG, encoder=checkpoint_encoder)
    path = str(checkpoint_cases.write(tmp_path / "model", heads.Pretrainer(config)))
    options = Flags().replace(init_checkpoint=path, encoder=encoder, max_seq_length=8)
    if fits:
        start = initialization.resolve(options)
        assert start.config.encoder == (encoder or checkpoint_encoder)
        return
    message = f"{path} has the encoder {checkpoint_encoder}, whose weights do not fit {encoder}"
    with pytest.raises(UserError, match=message):
        initialization.resolve(options)


def test_rows_are_no_longer_than_the_positions_of_the_model(capsys):
    config = dataclasses.replace(tiny.CONFIG, max_position_embeddings=64)
    asked, by_default, short = (Flags.of(each) for each in ({"max_seq_length": 100}, {}, {"max_seq_length": 40}))
    assert initialization.fitting_rows(short, config, may_be_shorter=True) == {} and not capsys.readouterr().out
    assert initialization.fitting_rows(by_default, config, may_be_shorter=True) == {"max_seq_length": 64}
    assert "--max_seq_length=64: the model has 64 positions." in capsys.readouterr().out
    for options, may_be_shorter in ((asked, True), (by_default, False)):
        with pytest.raises(UserError, match="but the model has 64 positions: choose a shorter length, or pass a bert"):
            initialization.fitting_rows(options, config, may_be_shorter=may_be_shorter)


def test_encoder_that_sees_its_targets_is_refused():
    config = dataclasses.replace(tiny.CONFIG, encoder="bilstm_on_top")
    start = Checkpoint(config=config, vocabulary=None, lower_case=True)
    with pytest.raises(UserError, match="The encoder bilstm_on_top is for fine-tuning only: pass"):
        preparation.check_start(Flags().replace(init_checkpoint="tagger", max_seq_length=8), start)


@pytest.mark.parametrize(
    ("flag", "recognized"),
    [
        ("", ("[E1]", "[MASK]")),
        ("none", ()),
        ("all", ("[CLS]", "[MASK]", "[PAD]", "[SEP]", "[UNK]", "[E1]", "[E2]")),
        ("[E2]", ("[CLS]", "[MASK]", "[PAD]", "[SEP]", "[UNK]", "[E2]")),
    ],
)
def test_special_tokens_come_from_the_flag_or_the_checkpoint(flag, recognized):
    assert set(special_tokens.parse(flag, ("[E1]", "[MASK]"), ("[E2]",))) == set(recognized)
    assert special_tokens.parse("") == () and len(special_tokens.parse("all")) == 5


@pytest.mark.parametrize("lowers", [True, False])
def test_casing_is_that_of_the_vocabulary_not_of_the_encoder(lowers, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nfox\n")
    model = {"encoder": "modern_bert", "model_size": "tiny"}
    given = Flags.of({**model, "vocab_file": str(tmp_path / "vocab.txt"), "do_lower_case": lowers})
    assert initialization.resolve(given).lower_case is lowers
    assert not initialization.resolve(Flags.of(model)).lower_case, "it learns byte-level BPE"

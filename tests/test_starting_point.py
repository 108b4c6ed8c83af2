"""What a demonstration of fine-tuning starts from."""

import pytest

from bert_tf import flags, starting_point
from bert_tf.run_folder import RunFolder


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
    monkeypatch.setattr(flags, "given", lambda name: is_given and name == "init_checkpoint")
    monkeypatch.setattr(RunFolder, "last_step", lambda self: step)
    assert starting_point.demonstration({"vocab_size": 9}, "Which?", "runs/x") == expected
    told = capsys.readouterr().out
    assert "Which?" in told and (said in told if said else "starts" not in told)

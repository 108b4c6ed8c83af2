"""One switch for the original's quirks: its table in code and docs, and what it sets in each script."""

from pathlib import Path

import pytest

from bert_tf.config import options as option_values
from bert_tf.config import parity
from bert_tf.errors import UserError
from bert_tf.recipes import finetune, finetune_squad, pretrain

SCRIPTS = [pretrain.Flags, finetune.Flags, finetune_squad.Flags]
DOCS = Path(__file__).resolve().parents[2] / "docs" / "parity.md"


def read(kind, instead=None, **given):
    options = kind.of_program(given).with_defaults(instead or {}, "")
    return options.values(), options.with_defaults({"continuous_schedule": False}, "").values()


def test_docs_show_the_table_of_the_code():
    assert "\n".join(parity.table()) in DOCS.read_text(encoding="utf-8")


def test_every_quirk_is_a_flag_whose_two_values_differ_and_are_valid():
    for quirk in parity.QUIRKS:
        fields = [each[quirk.flag] for each in map(option_values.fields_of, SCRIPTS) if quirk.flag in each]
        assert fields and quirk.google != quirk.fixed
        for field in fields:
            choices = option_values.choices_of(field.metadata)
            assert all(isinstance(value, field.type) for value in (quirk.google, quirk.fixed))
            assert not choices or {quirk.google, quirk.fixed} <= set(choices)


@pytest.mark.parametrize("kind", SCRIPTS, ids=lambda kind: kind.__module__.rpartition(".")[2])
@pytest.mark.parametrize("choice", parity.CHOICES)
def test_switch_sets_every_quirk_and_flags_that_are_given_win(kind, choice):
    names = option_values.fields_of(kind)
    expected = {quirk.flag: getattr(quirk, choice) for quirk in parity.QUIRKS if quirk.flag in names}
    assert len(expected) >= 3 and parity.values(choice, names) == expected
    for options in read(kind, {"optimizer": "lamb", "random_seed": 7}, parity=choice):  # defaults of a demonstration
        assert {name: options[name] for name in expected} == expected and options["random_seed"] == 7
        assert options["parity"] == choice, "run.json records the choice"
    options, _ = read(kind, parity=choice, optimizer="lamb", continuous_schedule=True)
    assert (options["optimizer"], options["continuous_schedule"]) == ("lamb", True)
    assert read(kind, {"optimizer": "lamb"})[0]["optimizer"] == "lamb" and read(kind)[0]["parity"] == ""


def test_other_choices_are_refused():
    with pytest.raises(UserError, match="parity='yes': expected one of google, fixed"):
        read(pretrain.Flags, parity="yes")
    with pytest.raises(UserError, match="expected one of google, fixed"):
        parity.values("yes", [])

"""Flags of all scripts: each is declared in one place, and a script changes defaults and help only."""

import pytest

from bert_tf.config.options import fields_of, groups_of, own_flags
from bert_tf.recipes import finetune, finetune_squad, pretrain

SCRIPTS = [pretrain.Flags, finetune.Flags, finetune_squad.Flags]
TWO_MEANINGS = {"eval_file"}  # held-out text of pre-training; a table of fine-tuning


def declarations():
    """{flag: classes that declare it}, and {(class, flag): class whose declaration it changes}."""
    declared, changes = {}, {}
    kinds = [kind for script in SCRIPTS for kind in (script, *groups_of(script).values())]
    for kind in dict.fromkeys(parent for each in kinds for parent in each.__mro__ if parent is not object):
        fields = own_flags(kind)
        for name in vars(kind).get("__annotations__", {}).keys() & fields.keys():
            if (original := fields[name].metadata.get("changes")) is not None:
                changes[kind, name] = original
            else:
                declared.setdefault(name, []).append(kind)
    return declared, changes


def test_no_flag_is_declared_twice():
    declared, changes = declarations()
    assert {name for name, kinds in declared.items() if len(kinds) > 1} == TWO_MEANINGS
    assert all(issubclass(kind, original) for (kind, _), original in changes.items())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__module__.rpartition(".")[2])
def test_every_default_is_a_valid_choice(script):
    for field in fields_of(script).values():
        choices = field.metadata["choices"]
        assert choices is None or field.default in choices, field.name
        assert isinstance(field.default, field.type), field.name

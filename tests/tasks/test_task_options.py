"""Which options a task has."""

import pytest

from bert_tf.errors import UserError
from bert_tf.recipes.finetune import Flags
from bert_tf.tasks import catalog
from bert_tf.tasks.task_options import BY_FAMILY, of_task

OTHERS = ("pretraining", "squad")  # scripts of their own


def test_every_task_of_the_catalog_has_options_by_each_of_its_names():
    for name in catalog.known():
        family, _, member = name.partition("/")
        if family not in OTHERS:
            assert of_task(name) is BY_FAMILY[family]
            assert family not in ("glue", "vectors") or of_task(member) is BY_FAMILY[family]
    assert of_task("my_lab.sarcasm/headlines") is None and of_task("") is None


@pytest.mark.parametrize(
    ("task", "flag", "value"),
    [
        ("MRPC", "word_column", 2),
        ("sst2", "labels", "a,b"),
        ("pairs", "class_weights", "none"),
        ("ner/table", "label_smoothing", 0.1),
        ("table", "similarity_loss", "cosine"),
    ],
)
def test_a_flag_of_another_task_is_refused_and_not_shown(task, flag, value):
    with pytest.raises(UserError, match=f"{flag} does not apply to {task}: remove it."):
        Flags.of({"task_name": task, flag: value}).check()
    assert flag not in Flags.flags_of(task) and flag in Flags.flags_of("my_lab.sarcasm/headlines")
    Flags.of({"task_name": task}).check()

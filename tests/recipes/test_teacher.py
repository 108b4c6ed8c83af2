"""Teachers and students by flags: what a run starts from, and which teachers are refused before it begins."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.model import heads
from bert_tf.recipes import initialization
from bert_tf.recipes import teacher as teachers
from bert_tf.recipes.finetune import Flags
from bert_tf.recipes.finetuning import starting_point

WORDS = [*tiny.SPECIAL, *(f"word{number}" for number in range(25))]
CONFIG = dataclasses.replace(tiny.CONFIG, num_hidden_layers=4)
TASK = types.SimpleNamespace(
    name="t",
    head=types.SimpleNamespace(kind="classes", labels=("no", "yes"), weights="classifier", size=2, is_exclusive=True),
    comparison=None,
    objectives={"cross_entropy": types.SimpleNamespace(factor=1.0, epsilon=0.0)},
    create_model=lambda config, dtype=None: heads.Classifier(config, size=2, dtype=dtype),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Checkpoints of four layers: a classifier of yes and no, one with another vocabulary, and an encoder."""
    folder = tmp_path_factory.mktemp("teachers")
    model = heads.Classifier(CONFIG, size=2)
    whole = Checkpoint(
        config=CONFIG,
        weights=tiny.random_weights(model),
        vocabulary=WORDS,
        lower_case=True,
        labels=["yes", "no"],
        kind="classes",
    )
    formats.write(whole, str(folder / "classifier"), "native")
    formats.write(dataclasses.replace(whole, vocabulary=[*WORDS[:-1], "other"]), str(folder / "other"), "native")
    only = {name: array for name, array in whole.weights.items() if name.startswith("encoder/")}
    formats.write(dataclasses.replace(whole, weights=only, labels=None, kind=None), str(folder / "encoder"), "native")
    return folder


def matched(given, start):
    """The teacher with the columns of its head in the order of the task."""
    named = given.replace(init_checkpoint=given.distillation.teacher, do_train=False)
    return starting_point.match_head(named, teachers.read(given, start), TASK)


def options(**changes):
    return Flags().replace(max_seq_length=12, **changes)


def test_student_begins_with_layers_of_its_checkpoint_and_learns_from_a_teacher(folder):
    given = options(init_checkpoint=str(folder / "classifier"), teacher=str(folder / "classifier"))
    student = given.replace(num_hidden_layers=2, layer_map="1,4")
    start = initialization.resolve(student)
    whole = initialization.resolve(given)
    name = "encoder/layers/{}/feed_forward/expand/kernel"
    assert start.config.num_hidden_layers == 2 and whole.config.num_hidden_layers == 4
    np.testing.assert_array_equal(start.weights[name.format(1)], whole.weights[name.format(3)])
    teacher = matched(student, start)
    assert teacher.labels == ["no", "yes"], "in the order of the task"
    model = TASK.create_model(start.config)
    task = teachers.taught(TASK, model, teacher, student.distillation, tf.distribute.get_strategy())
    np.testing.assert_array_equal(task.teacher.classifier.kernel, whole.weights["classifier/kernel"][:, ::-1])
    assert task.layers == [0, 3] and {"soft_cross_entropy", "hidden_cosine"} < task.objectives.keys()
    untaught = student.replace(teacher="")
    assert teachers.read(untaught, start) is None
    assert teachers.taught(TASK, model, None, untaught.distillation, None) is TASK


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"teacher": "other"}, "other has a different vocabulary from the model to train"),
        ({"teacher": "encoder"}, "encoder was not trained on this task"),
        ({"teacher": "nothing"}, "nothing"),
        ({"num_hidden_layers": 5}, "num_hidden_layers is 5, and .*classifier has 4 layers"),
        ({"num_hidden_layers": 2, "layer_map": "1,5"}, "layer_map is '1,5'; expected 2 numbers from 1 to 4"),
    ],
)
def test_unsuitable_teachers_and_layers_are_refused(folder, changes, message):
    changes = {name: str(folder / value) if name == "teacher" else value for name, value in changes.items()}
    given = options(init_checkpoint=str(folder / "classifier"), **changes)
    with pytest.raises(UserError, match=message):
        start = initialization.resolve(given)
        matched(given, start)

"""Training on few tagged sentences or questions: a number of steps, evaluations on the way, an early end."""

import pytest
from tagging_cases import FILE, task_of

from bert_tf.recipes import finetune
from bert_tf.recipes.finetuning import few_examples
from bert_tf.recipes.finetuning.table_choice import recipe


@pytest.fixture
def task(tmp_path):
    (tmp_path / "some.txt").write_text(FILE)
    return task_of(str(tmp_path / "some.txt"))


def chosen(task, computed=(), **given):
    options = finetune.Flags.of({"task_name": "ner/table", **given})
    return few_examples.defaults(options.with_defaults(dict(computed), "chosen before"), task, is_scored=True)


@pytest.mark.parametrize(
    ("count", "batch", "epochs"), [(10, 8, 60), (100, 8, 32), (199, 8, 17), (200, 16, 32), (1999, 16, 4), (2000, 32, 7)]
)
def test_length_is_some_hundred_steps(count, batch, epochs):
    values, steps = few_examples.length(count, {}, is_scored=False)
    assert values == {"num_train_epochs": epochs, "train_batch_size": batch}
    assert steps == count * epochs // batch


def test_evaluations_take_no_longer_than_training():
    values, steps = few_examples.length(100, {}, is_scored=True, evaluated=20)
    assert steps == 400 and (values["eval_steps"], values["early_stop_patience"]) == (34, 4)
    values, _ = few_examples.length(100, {}, is_scored=True, evaluated=3_200)
    assert (values["eval_steps"], values["early_stop_patience"]) == (134, 3)
    assert few_examples.length(100, {}, is_scored=True, evaluated=10**6)[0]["eval_steps"] == 200


def test_tables_have_the_same_length():
    assert recipe(["a", "b"] * 50, "classes", {"do_eval": False})["num_train_epochs"] == 32


def test_few_tagged_sentences_are_trained_on_for_steps(task, capsys):
    values = chosen(task)
    assert values["num_train_epochs"] == 60 and values["train_batch_size"] == 8 and values["eval_steps"] >= 10
    assert (
        "For 7 training examples, about 52 steps: --train_batch_size=8 --num_train_epochs=60" in capsys.readouterr().out
    )


def test_given_epochs_determine_the_evaluations(task, capsys):
    assert chosen(task, num_train_epochs=30.0, train_batch_size=1)["eval_steps"] == 18
    assert "For 7 training examples, about 210 steps: --eval_steps=18" in capsys.readouterr().out


def test_flags_and_what_was_chosen_before_stay(task):
    assert "num_train_epochs" not in chosen(task, num_train_epochs=2.0)
    assert "num_train_epochs" not in chosen(task, num_train_epochs_grid="2,3")
    assert "eval_steps" not in chosen(task, {"eval_steps": 40})
    assert not chosen(task, parity="google") and not chosen(task, do_train=False)

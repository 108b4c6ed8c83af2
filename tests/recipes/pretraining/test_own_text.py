"""Defaults for pre-training on your own text: a size, and a recipe with which such a model learns in the time given."""

import pytest

from bert_tf.recipes import pretrain
from bert_tf.recipes.pretraining import facts, own_text, planning, preparation


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Some words of a text.\n" * 120_000)  # 2.6 MB, about 500,000 tokens
    return str(path)


def chosen(text, **given):
    (options,) = planning.phases_of(pretrain.Flags.of_program({"input_file": text, **given}))
    return preparation.with_computed_defaults(options, facts.of_phase(options))


def test_a_text_alone_gets_a_small_model_a_recipe_that_learns_and_minutes(text, capsys):
    options = chosen(text)
    training = options.training
    assert (options.model.model_size, options.model.vocab_size, training.optimizer) == ("tiny", 8000, "muon")
    assert (training.learning_rate, training.budget_minutes, options.model.dropout_prob) == (0.01, 10, 0)
    printed = capsys.readouterr().out
    assert "--optimizer=muon" in printed and "--budget_minutes=10" in printed and "--recipe=google" in printed


def test_printed_choices_are_those_of_the_plan_and_have_reasons(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("Some words of a text.\n" * 7000)  # about 31,000 tokens
    options = chosen(str(tmp_path / "text.txt"))
    steps, printed = options.training.save_checkpoints_steps, capsys.readouterr().out
    assert steps < own_text.RECIPE["save_checkpoints_steps"] and f"--save_checkpoints_steps={steps}" in printed
    assert options.reasons["num_train_steps"] == "has no effect: training ends after budget_minutes"
    assert options.reasons["learning_rate"] == "a small model needs large updates"
    assert own_text.REASONS.keys() == {*own_text.FLAGS}


def test_flags_override_what_is_chosen(text):
    options = chosen(text, learning_rate=0.003, budget_minutes=3.0, vocab_size=500)
    assert (options.training.learning_rate, options.training.budget_minutes) == (0.003, 3)
    assert (options.model.vocab_size, options.training.optimizer) == (500, "muon")


@pytest.mark.parametrize("given", [{"model_size": "tiny"}, {"recipe": "google"}, {"parity": "google"}])
def test_a_size_or_a_recipe_of_the_user_keeps_the_originals_values(text, given, capsys):
    options = chosen(text, **given)
    training = options.training
    assert (training.optimizer, training.learning_rate, training.train_batch_size) == ("adamw", 5e-5, 32)
    assert (training.budget_minutes, options.model.dropout_prob, options.max_seq_length) == (0, 0.1, 128)
    assert options.model.vocab_size == 30522 and not capsys.readouterr().out


@pytest.mark.parametrize("given", [{"num_train_steps": 50}, {"num_warmup_steps": 5}, {"budget_minutes": 0.0}])
def test_a_number_of_steps_takes_the_place_of_minutes(text, given):
    training = chosen(text, **given).training
    assert (training.budget_minutes, training.optimizer) == (0, "muon")
    assert training.num_train_steps == given.get("num_train_steps", 10_312)


def test_records_that_exist_are_not_chosen(text):
    options = chosen(text, records_dir="records")
    assert (options.next_sentence_weight, options.model.vocab_size, options.training.optimizer) == (1, 30522, "muon")


def test_little_text_needs_less_time_and_several_processes_share_no_clock():
    assert own_text.defaults(10_000, {})["budget_minutes"] == own_text.FEWEST_MINUTES
    assert "budget_minutes" not in own_text.defaults(10_000, {}, processes=2)


def test_gpus_afford_a_larger_model():
    tokens = 10**9
    sizes = [own_text.defaults(tokens, {}, gpus=count)["model_size"] for count in (0, 1, 8)]
    assert sizes[0] == "tiny" and sizes[1] != "tiny"
    assert own_text.defaults(tokens, {})["vocab_size"] == 30522

"""Recipes of pre-training: defaults that flags override, and phases that one command runs in turn."""

import dataclasses
import json
import math
import shutil

import numpy as np
import pytest
import tiny
import warm

from bert_tf.checkpoints import formats
from bert_tf.config.options import fields_of
from bert_tf.errors import UserError
from bert_tf.recipes import pretrain
from bert_tf.recipes.pretraining import named_recipes, planning, pretraining_flags

SENTENCES = "The fox runs.\nA dog sleeps.\nRain falls.\nBirds sing.\n\n"
TINY = ["--model_size=tiny", "--vocab_size=120", "--max_seq_length=24", "--max_predictions_per_seq=3"]
TINY += ["--precision=float32", "--dupe_factor=1", "--eval_batch_size=4", "--dropout_prob=0.1", "--num_train_steps=4"]
TINY += ["--recipe=lamb_large_batch", "--recipe_scale=0.000123", "--save_checkpoints_steps=1", "--nodo_export"]


def phases(**given):
    return planning.phases_of(pretrain.Flags.of_program(given))


def test_phases_have_their_own_batches_rates_and_lengths_and_start_from_each_other():
    first, second = phases(recipe="lamb_large_batch", input_file="texts", output_dir="run", init_checkpoint="bert")
    training = first.training
    assert (training.train_batch_size, first.max_seq_length, training.num_train_steps) == (65536, 128, 7038)
    assert (training.learning_rate, training.warmup_proportion, training.optimizer) == (6e-3, 0.2843, "lamb")
    assert (first.output_dir.rpartition("/")[2], first.model.init_checkpoint) == ("phase_1", "bert")
    training = second.training
    assert (training.train_batch_size, second.max_seq_length, training.num_train_steps) == (32768, 512, 1563)
    assert (second.output_dir, second.model.init_checkpoint) == ("run", first.output_dir)
    assert (first.do_export, second.do_export) == (False, True)


def test_budget_is_one_phase_of_minutes_with_flags_of_its_own():
    (one,) = phases(recipe="budget", input_file="texts", budget_minutes=5)
    assert (one.training.budget_minutes, one.training.train_batch_size) == (5, 16)
    assert (one.next_sentence_weight, one.model.dropout_prob) == (0, 0)
    assert phases(recipe="budget", input_file="texts")[0].training.budget_minutes == 60


def test_a_recipe_drops_tokens_only_where_there_are_middle_layers():
    deep, shallow = (dataclasses.replace(tiny.CONFIG, num_hidden_layers=layers) for layers in (3, 2))
    (one,) = phases(recipe="budget", input_file="texts")
    assert pretraining_flags.without_dropping(one, deep).training.token_dropping == 0.5
    assert pretraining_flags.without_dropping(one, shallow).training.token_dropping == 0
    taught = one.replace(teacher="run")
    assert pretraining_flags.without_dropping(taught, deep).training.token_dropping == 0
    given = pretrain.Flags.of({"token_dropping": 0.5})
    with pytest.raises(UserError, match="three or more of BERT's layers.*num_hidden_layers 2"):
        pretraining_flags.without_dropping(given, shallow)
    with pytest.raises(UserError, match="token_dropping is 0.5, but a teacher sees every token: remove it"):
        pretraining_flags.without_dropping(given.replace(teacher="run"), deep)


def test_given_flags_override_the_recipe_and_scale_changes_batches_and_rates():
    given = {"recipe": "lamb_large_batch", "recipe_scale": 1 / 256, "learning_rate": 1e-3, "num_train_steps": 86}
    first, second = phases(input_file="texts", records_dir="a, b", **given)
    assert (first.training.train_batch_size, second.training.train_batch_size) == (256, 128)
    assert first.training.learning_rate == second.training.learning_rate == 1e-3
    assert (first.training.num_train_steps, second.training.num_train_steps) == (70, 16)
    assert (first.records_dir, second.records_dir) == ("a", "b")
    del given["learning_rate"]
    assert phases(input_file="texts", **given)[0].training.learning_rate == pytest.approx(6e-3 / 16)


def test_without_a_recipe_nothing_changes():
    (options,) = phases(input_file="texts", output_dir="run", records_dir="a,b")
    assert (options.output_dir, options.records_dir, options.training.optimizer) == ("run", "a,b", "adamw")
    (options,) = phases()
    assert options.training.num_train_steps == pretraining_flags.DEMO_SETTINGS["num_train_steps"]


@pytest.mark.parametrize(
    "given, message",
    [
        ({"recipe_scale": 0.0}, "recipe_scale is 0.0; expected a number above 0"),
        ({"recipe_scale": math.nan}, "recipe_scale=nan: expected a finite number"),
        ({"records_dir": "a"}, "records_dir is 'a'; expected 2 comma-separated folders"),
        ({"records_dir": "a,a"}, "expected 2 comma-separated folders"),
        ({"num_train_steps": 1}, "num_train_steps is 1; expected a step for each of 2 phases"),
    ],
)
def test_impossible_settings_are_refused(given, message):
    with pytest.raises(UserError, match=message):
        phases(recipe="lamb_large_batch", input_file="texts", **given)


@pytest.mark.parametrize("total", [2, 3, 86, 8601])
def test_phases_share_all_steps(total):
    both = phases(recipe="lamb_large_batch", input_file="a", num_train_steps=total)
    steps = [one.training.num_train_steps for one in both]
    assert sum(steps) == total and min(steps) >= 1


def test_every_recipe_sets_flags_that_exist():
    names = {name for row in named_recipes.RECIPES.values() for phase in row.phases for name in phase}
    assert names <= fields_of(pretrain.Flags).keys()


def test_mistake_in_the_second_phase_is_found_before_the_first_begins(tmp_path):
    (tmp_path / "texts.txt").write_text(SENTENCES)
    (tmp_path / "config.json").write_text(json.dumps({**tiny.CONFIG.to_dict(), "max_position_embeddings": 128}))
    before = sorted(tmp_path.iterdir())
    named = {"input_file": str(tmp_path / "texts.txt"), "bert_config_file": str(tmp_path / "config.json")}
    given = {"recipe": "lamb_large_batch", "recipe_scale": 0.000123, "output_dir": str(tmp_path / "run"), **named}
    with pytest.raises(UserError, match="max_seq_length is 512, but the model has 128 positions"):
        pretrain.main(pretrain.Flags.of_program(given))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_one_command_runs_both_phases_and_resumes_across_the_border(tmp_path):
    (tmp_path / "texts.txt").write_text(SENTENCES * 8)
    command = [*TINY, f"--input_file={tmp_path}/texts.txt"]
    done = warm.run("run_pretraining.py", *command, f"--output_dir={tmp_path}/whole", eager=True)
    assert done.returncode == 0, done.stderr
    shutil.copytree(tmp_path / "whole/phase_1", tmp_path / "killed/phase_1")
    for number in (2, 3):  # killed in the first phase of three steps, between 1 and 2
        for path in (tmp_path / "killed/phase_1/checkpoints").glob(f"ckpt-{number}.*"):
            path.unlink()
    done = warm.run("run_pretraining.py", *command, f"--output_dir={tmp_path}/killed", eager=True)
    assert done.returncode == 0 and "Continuing after step 1 of 3" in done.stdout, done.stderr
    whole, resumed = (formats.read(str(tmp_path / name)).weights for name in ("whole", "killed"))
    assert all(np.array_equal(array, resumed[name]) for name, array in whole.items()), "bitwise"
    before = formats.read(str(tmp_path / "whole/phase_1")).weights
    assert not all(np.array_equal(array, before[name]) for name, array in whole.items())

"""`bert-tf export`: a run's export made anew from its checkpoint, and the runs that have none."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tiny
from checkpoint_cases import PIECES

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.export import loaded_model, trained_model
from bert_tf.recipes import recorded_run

WEIGHTS = tiny.pretrainer()[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run of run_pretraining.py, as far as an export is made of it."""
    folder = tmp_path_factory.mktemp("runs") / "pretraining"
    checkpoint = Checkpoint(config=tiny.CONFIG, weights=WEIGHTS, vocabulary=PIECES, lower_case=True)
    formats.write(checkpoint, str(folder), "native")
    (folder / "run.json").write_text(json.dumps({"name": "pretraining", "flags": {"max_seq_length": 12}}))
    return folder


@pytest.mark.slow
def test_pretraining_export_has_its_weights_and_overwrites_on_request(run, capsys):
    assert main.main(["export", str(run), "--engine=none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "export": str(run / "export"), "task": "pretraining/mlm_nsp", "step": 0
    }  # fmt: skip
    saved = tf.train.load_checkpoint(str(run / "export" / "variables" / "variables"))
    tensors = [saved.get_tensor(name) for name in saved.get_variable_to_shape_map() if "OBJECT_GRAPH" not in name]
    for name, array in WEIGHTS.items():
        assert any(np.array_equal(array, one) for one in tensors), name
    assert loaded_model.about(run / "export") == {
        "task": "pretraining/mlm_nsp", "inputs": {"text": None}
    }  # fmt: skip
    assert main.main(["export", str(run)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main.main(["evaluate", str(run / "export"), "--file=a.tsv"]) == 2
    assert "fills masks" in capsys.readouterr().err


def without_run_json(folder):
    (folder / "run.json").unlink()


def without_weights(folder):
    (folder / "model.safetensors").unlink()


def full_of_other_things(folder):
    (folder / "export").mkdir()
    (folder / "export" / "mine.txt").write_text("mine")


@pytest.mark.parametrize(
    "spoil, expected",
    [
        (without_run_json, "is a checkpoint, not a run: pass TO"),
        (without_weights, "has no checkpoint with its bert_config.json: train first"),
        (full_of_other_things, "export exists already"),
    ],
)
def test_runs_without_export_are_reported_and_nothing_is_written(spoil, expected, run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("export"))
    spoil(tmp_path / "run")
    before = sorted(tmp_path.rglob("*"))
    assert main.main(["export", str(tmp_path / "run"), "--overwrite"]) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1 and re.search(expected, stderr)
    assert sorted(tmp_path.rglob("*")) == before


def test_comparison_texts_exist_for_every_input_form():
    text, rows = tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([None, None], tf.string, "words")
    choices = tf.TensorSpec([None, 4], tf.string, "choices")
    signatures = {
        "serving_default": tf.function(lambda text, choices: text, input_signature=[text, choices]),
        "words": tf.function(lambda words: words, input_signature=[rows]),
    }
    examples = trained_model.examples_of(signatures)
    shapes = {name: {key: np.shape(value) for key, value in inputs.items()} for name, inputs in examples.items()}
    assert shapes == {"serving_default": {"text": (3,), "choices": (3, 4)}, "words": {"words": (3, 16)}}


@pytest.mark.parametrize(
    ("command", "threshold"),
    [([], None), (["run_squad.py", "--null_score_diff_threshold=0"], 0.0), (["--null_score_diff_threshold", "0"], 0.0)],
)
def test_recorded_threshold_counts_only_if_given(command, threshold):
    recorded = {"null_score_diff_threshold": 0.0, "version_2_with_negative": True, "gradient_checkpointing": True}
    options = recorded_run._options({"name": "squad/v2.0", "flags": recorded, "command": command}, "run.json")
    assert (options.null_score_diff_threshold, options.training.gradient_checkpointing) == (threshold, True)


def test_the_step_of_an_export_is_that_of_its_weights(tmp_path):
    def made(run, *steps, name="run"):
        folder = tmp_path / name
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        (folder / "run.json").write_text(json.dumps(run))
        for step in steps:
            (folder / "checkpoints" / f"ckpt-{step}.index").touch()

    path = str(tmp_path / "run")
    made({})
    assert recorded_run.training_of(path) == (0, "")
    made({}, 100, 162)
    assert recorded_run.training_of(path) == (162, "after step 162")
    made({"selection": {"last_step": 162, "taken_step": 54}})
    assert recorded_run.training_of(path) == (54, "after step 54")
    made({"selection": {"taken_step": 54}, "refit": {"rows": 64, "epochs": 6.8}})
    made({}, 101, name="run/all_rows")
    assert recorded_run.training_of(path) == (101, "trained on all 64 rows, 6.8 epochs")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"max_seq_length": "x"}, "a whole number"),
        ({"max_seq_length": True}, "a whole number"),
        ({"do_train": 1}, "True or False"),
        ({"learning_rate": [1]}, "a finite number"),
        ({"init_checkpoint": 5}, "a string"),
    ],
)
def test_recorded_flag_of_another_type_is_named(flags, expected):
    run = {"name": "table", "flags": flags, "command": None}
    with pytest.raises(UserError, match=f"run.json: flags.{next(iter(flags))} is .*; expected {expected}"):
        recorded_run._options(run, "folder")

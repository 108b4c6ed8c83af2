"""A run that gets a signal in every phase in turn ends each time, and at last as an undisturbed one does."""

import json
import random
import signal

import numpy as np
import pytest
import tensorflow as tf
import warm
from script_runs import SMALL_TRAINING, write_small_data

FINE_TUNING = [
    "finetune", "--task_name=table", "--text_columns=text", "--train_file=table.tsv", "--eval_file=table.tsv",
    "--predict_file=table.tsv", "--do_predict", "--num_train_epochs=1", "--keep_best", "--ema_decay=0.9",
    "--save_checkpoints_steps=3",
]  # fmt: skip
PRETRAINING = [
    "pretrain", "--input_file=texts.txt", "--num_train_steps=6", "--save_checkpoints_steps=3",
    "--max_predictions_per_seq=4",
]  # fmt: skip
STEP, BATCH = "bert_tf.training.train_step:TrainStep.step", "bert_tf.training.evaluator:Evaluator._batch_or_stop"
AFTER_TRAINING = [
    "bert_tf.export.saved_model:export",
    "bert_tf.reports.next_steps:finish",
    "bert_tf.reports.report:write_report",
]
POINTS = {
    "finetune": [
        "bert_tf.recipes.initialization:resolve",
        "bert_tf.text.vocabulary_learning:learn",
        "bert_tf.text.tokenizer:Tokenizer.__call__",
        "bert_tf.recipes.finetune:write_tokenizer_files",
        f"{STEP}@2",  # of six
        f"{BATCH}@2",  # of the evaluation after step 3
        f"{BATCH}@1",  # of the same, which is made up for
        f"{STEP}@1",
        f"{STEP}@1",
        f"{STEP}@1",  # the last
        f"{BATCH}@3",  # of its evaluation
        "bert_tf.training.early_stopping:EarlyStopping.restore_best",
        "bert_tf.training.checkpointing:TrainState.restore",
        "bert_tf.recipes.finetuning.results:evaluate",
        f"{BATCH}@2",
        "bert_tf.recipes.finetuning.results:calibrate",
        "bert_tf.training.confidence:fit_temperature",
        "bert_tf.recipes.finetuning.results:predict",
        "bert_tf.export.predictor:Predictor.predict",
        *AFTER_TRAINING,
    ],
    "pretrain": [
        "bert_tf.recipes.pretraining.preparation:learn_vocabulary",
        "bert_tf.data.pretraining.records:prepare",
        "bert_tf.data.pretraining.workers:make_shard",
        "bert_tf.training.checkpointing:TrainState.restore",
        f"{STEP}@2",
        "bert_tf.training.checkpointing:TrainState.save",  # after step 3: noticed after the next
        f"{STEP}@1",
        f"{STEP}@1",
        f"{BATCH}@1",
        "bert_tf.recipes.pretrain:report_results",
        *AFTER_TRAINING,
    ],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with the files that the runs read."""
    folder = tmp_path_factory.mktemp("data")
    write_small_data(folder, random.Random(3))
    return folder


def state(folder):
    """What a finished run has computed: all of its checkpoint, its results, metrics and predictions."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(folder / "checkpoints")))
    kinds = reader.get_variable_to_dtype_map()  # the position in the data is a variant, which NumPy has not
    tensors = {name: reader.get_tensor(name) for name, kind in kinds.items() if kind != tf.variant}
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("tokens_per_second", None)
    files = {path.name: path.read_text() for path in [folder / "eval_results.json", *folder.glob("*predictions*")]}
    return tensors, lines, files


@pytest.mark.slow
@pytest.mark.parametrize("command", [FINE_TUNING, PRETRAINING], ids=["finetune", "pretrain"])
def test_signal_in_any_phase_ends_the_run_which_then_continues(data, tmp_path, command):
    words = [*command, *SMALL_TRAINING]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    done = warm.run("-m", "bert_tf", *words, f"--output_dir={whole}", cwd=data, eager=True)
    assert done.returncode == 0, done.stderr
    for turn, point in enumerate(POINTS[command[0]]):
        number = (signal.SIGTERM, signal.SIGINT)[turn % 2]
        done = warm.run(
            "tests/helpers/signalled.py", point, int(number), *words, f"--output_dir={stopped}", cwd=data, eager=True
        )
        said = [line for line in done.stderr.splitlines() if line.startswith("bert-tf: ")]
        assert (done.returncode, len(said)) == (128 + number, 1), (point, done.stdout, done.stderr)
        assert "run the same command again" in said[0] and "Traceback" not in done.stderr, point
    done = warm.run("-m", "bert_tf", *words, f"--output_dir={stopped}", cwd=data, eager=True)
    assert done.returncode == 0, done.stderr
    (tensors, lines, files), (expected, *others) = state(stopped), state(whole)
    assert tensors.keys() == expected.keys()
    for name, values in tensors.items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
    assert [lines, files] == others


def test_signal_before_anything_is_written_ends_with_one_line(data, tmp_path):
    words = [int(signal.SIGTERM), *FINE_TUNING, *SMALL_TRAINING, f"--output_dir={tmp_path / 'run'}"]
    done = warm.run("tests/helpers/signalled.py", POINTS["finetune"][0], *words, cwd=data)
    assert done.returncode == 143 and not (tmp_path / "run").exists()
    assert done.stderr == "bert-tf: stopped by SIGTERM; run the same command again to continue.\n"

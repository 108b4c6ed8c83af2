"""`bert-tf launch` with each command, in two processes: the same model as on two replicas of one process."""

import json
import random

import numpy as np
import pytest
import tensorflow as tf
import warm
from script_runs import SMALL_TRAINING, write_small_data

from bert_tf.cli import main
from bert_tf.runtime import cluster

RUNS = {
    "pretrain": "--input_file=texts.txt --num_train_steps=4 --max_predictions_per_seq=4",
    "finetune": "--task_name=table --text_columns=text --train_file=table.tsv --eval_file=table.tsv "
    "--predict_file=table.tsv --do_predict",
    "squad": "--train_file=squad.json --predict_file=squad.json --do_predict --doc_stride=4 --max_query_length=6",
}
MORE_RUNS = {
    "a loss that compares rows": "--task_name=sts --train_file=pairs.tsv --eval_file=pairs.tsv "
    "--text_columns=sentence1,sentence2 --label_column=score",
    "tags": "--task_name=ner/table --train_file=tags.conll --eval_file=tags.conll",
    "a sweep": "--task_name=table --text_columns=text --train_file=table.tsv --eval_file=table.tsv --num_seeds=2",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with the files that the runs read."""
    folder = tmp_path_factory.mktemp("data")
    write_small_data(folder, random.Random(3))
    return folder


@pytest.fixture
def alone(monkeypatch):
    for name in ("TF_CONFIG", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


def flags(command, text):
    epochs = ["--num_train_epochs=1"] * (command != "pretrain")
    return [command, *text.split(), *SMALL_TRAINING, *epochs, "--nodo_export"]


def weights(folder):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(folder / "checkpoints")))
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("weights/")]
    return {name: reader.get_tensor(name) for name in names}


def check_equal(folder, other):
    ours, theirs = weights(folder), weights(other)
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], rtol=1e-4, atol=1e-6, err_msg=name)
    results = [json.loads((each / "eval_results.json").read_text()) for each in (folder, other)]
    assert results[0] == pytest.approx(results[1], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command, text", [*RUNS.items(), *(("finetune", text) for text in MORE_RUNS.values())], ids=[*RUNS, *MORE_RUNS]
)
def test_two_workers_train_as_two_replicas_do(alone, data, tmp_path, monkeypatch, capfd, command, text):
    monkeypatch.chdir(data)
    words, two = flags(command, text), tmp_path / "two"
    assert main.main(["launch", "--workers=2", "--", *words, f"--output_dir={two}"]) == 0, capfd.readouterr().out
    done = warm.run("-m", "bert_tf", *words, "--num_logical_devices=2", f"--output_dir={tmp_path / 'one'}", cwd=data)
    assert done.returncode == 0, done.stderr
    folders = [""] if "num_seeds" not in text else ["seed=12345", "seed=12346"]
    for folder in folders:
        check_equal(two / folder, tmp_path / "one" / folder)


DETERMINISM = """
import sys
from tensorflow.python.framework import config
from bert_tf.cli import main
try:
    sys.exit(main.main(sys.argv[1:]))
finally:
    print("deterministic:", config.is_op_determinism_enabled())
"""


@pytest.mark.slow
def test_deterministic_runs_are_bitwise_equal(data, tmp_path):
    words = [*flags("finetune", RUNS["finetune"]), "--dropout_prob=0.1", "--deterministic", "--num_logical_devices=2"]
    for name in "ab":
        done = warm.run("-c", DETERMINISM, *words, f"--output_dir={tmp_path / name}", cwd=data)
        assert done.returncode == 0 and done.stdout.endswith("deterministic: True\n"), done.stderr
    first, second = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(np.array_equal(first[name], second[name]) for name in first) and len(first) == len(second)
    predictions = [(tmp_path / name / "predictions.jsonl").read_text() for name in "ab"]
    assert predictions[0] == predictions[1]


def test_devices_are_configured_before_the_data_are_read(data, tmp_path):
    """TensorFlow connects workers, one too, only before its first operation; a tokenizer is one."""
    config = cluster.tf_config([f"127.0.0.1:{cluster.free_ports(1)[0]}"], 0)
    words = [*flags("finetune", RUNS["finetune"]), "--distribution_strategy=multi_worker", "--num_train_epochs=0.1"]
    done = warm.run(
        "-m", "bert_tf", *words, f"--output_dir={tmp_path}", cwd=data, env={"TF_CONFIG": config}, eager=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "predictions.jsonl").exists()

"""Few labels: an encoder that is trained on pairs of texts, and then gets a linear head."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
import warm
from script_runs import TINY
from training_steps import CONFIG, ONE_LAYER

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.classes import Classes
from bert_tf.heads.regression import Regression
from bert_tf.model.base_encoder import Pass
from bert_tf.recipes.finetuning import few_shot
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training import distribute

WORDS = "red green blue one two three".split()
ROWS = [Example(str(n), (word,), "01"[n > 2]) for n, word in enumerate(WORDS)]


def trained():
    """The vectors of ROWS before and after training."""
    head = Classes(["0", "1"])
    task = FineTuningTask("few_shot", {"train": lambda: ROWS}, head.configured(max_seq_length=8), tiny.Words(WORDS))
    model = tiny.randomized(task.create_model(dataclasses.replace(ONE_LAYER, vocab_size=5 + len(WORDS))))
    batch = task.head.training.inputs(task.tokenizer, np.array([row.texts for row in ROWS]))
    before = model.vectors(batch, Pass()).numpy()
    config = dataclasses.replace(CONFIG, train_batch_size=6, num_train_steps=8, learning_rate=0.02)
    few_shot.train(task, model, config, distribute.create_strategy("auto"))
    return before, model.vectors(batch, Pass()).numpy()


@pytest.mark.eager
def test_texts_of_a_class_come_together(capsys):
    def margin(vectors):
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = units @ units.T
        return cosines[:3, :3].min() - cosines[:3, 3:].max()

    before, after = map(margin, trained())
    assert after > max(0.2, before)
    assert "The loss of pairs is 0." in capsys.readouterr().out


def test_numbers_are_refused():
    with pytest.raises(UserError, match="start=contrastive needs a class for each text"):
        few_shot.train(SimpleNamespace(head=Regression(), name="table"), None, None, None)


def test_few_rows_are_all_trained_on_unless_a_flag_evaluates(tmp_path, capsys):
    table = str(tmp_path / "few.csv")
    for count, given, holds_out in (
        (16, {"train_file"}, False),
        (16, {"train_file", "do_eval"}, True),
        (16, {"folds"}, True),
        (few_shot.FEW, {"train_file"}, True),
    ):
        (tmp_path / "few.csv").write_text("text,label\n" + "a text,b\n" * count)
        assert few_shot.defaults(table, given).get("do_eval", True) is holds_out
        assert (f"{table} has 16 rows: all are used for training" in capsys.readouterr().out) is not holds_out
    assert few_shot.defaults("", ()) == few_shot.DEFAULTS


@pytest.mark.slow
def test_run_ends_with_the_linear_head(tmp_path):
    table = tmp_path / "few.jsonl"
    table.write_text("".join(json.dumps({"text": row.texts[0], "kind": row.label}) + "\n" for row in ROWS))
    flags = {**TINY, "task_name": "few_shot", "train_file": table, "eval_file": table, "output_dir": tmp_path / "run"}
    flags |= {"label_column": "kind", "text_columns": "text", "learning_rate": 0.01}
    done = warm.run("run_classifier.py", *(f"--{name}={value}" for name, value in flags.items()))
    assert done.returncode == 0, done.stderr
    assert "The loss of pairs is" in done.stdout
    assert json.loads((tmp_path / "run" / "eval_results.json").read_text())["accuracy"] > 0.8
    assert json.loads((tmp_path / "run" / "task.json").read_text())["kind"] == "classes"

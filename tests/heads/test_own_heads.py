"""A kind of head and a score from outside the package, as docs/adding_a_task.md says: nothing is registered."""

import json
import sys

import numpy as np
import pytest
import tensorflow as tf
import tiny

import bert_tf
from bert_tf import heads
from bert_tf.checkpoints import formats, pretrained
from bert_tf.cli import main
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.runtime import plugins
from bert_tf.serving.served import Served
from bert_tf.tasks.task import FineTuningTask

STARS = '''
"""Stars from 1 to 5: numbers whose predictions are rounded."""

import numpy as np

from bert_tf.heads.base.answers import Prediction
from bert_tf.heads.regression import Regression


class Stars(Regression):
    kind = "my_lab.stars"

    def predicted(self, predictions):
        return np.clip(np.round(predictions["values"]), 1, 5)

    def names(self, predicted):
        return ["*" * int(number) for number in predicted]

    @classmethod
    def answer(cls, outputs, labels):
        value = float(outputs["values"])
        return Prediction(label="*" * round(min(max(value, 1), 5)), value=value)


HEAD = Stars
'''
QUIET = '''
"""A number for a text, whose capitals do not matter: a head and its rows in one file."""

import tensorflow as tf

from bert_tf.heads.base.text_training import TextTraining
from bert_tf.heads.regression import Regression


class Quiet(Regression):
    kind = trained_by = "my_lab.quiet"


class QuietTraining(TextTraining):
    def inputs(self, tokenizer, texts):
        return super().inputs(tokenizer, tf.strings.lower(texts))


HEAD, TRAINING = Quiet, QuietTraining
'''
ROWS = [Example("0", ("the fox",), "1"), Example("1", ("a dog",), "5"), Example("2", ("a cat",), "2")]


@pytest.fixture
def stars(tmp_path, monkeypatch):
    """The name of the module, in a package outside of bert_tf."""
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "stars.py").write_text(STARS, encoding="utf-8")
    (tmp_path / "my_lab" / "quiet.py").write_text(QUIET, encoding="utf-8")
    (tmp_path / "my_lab" / "empty.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with plugins.trusting(["my_lab.stars", "my_lab.quiet", "my_lab.empty"]):
        yield "my_lab.stars"
    heads.get.cache_clear()
    for name in ("my_lab.stars", "my_lab.quiet", "my_lab.empty", "my_lab"):
        sys.modules.pop(name, None)


def off_by_one(labels, predictions):
    return float(np.mean(np.abs(labels - predictions) <= 1))


def test_custom_goal_and_metric_make_a_task(stars):
    goal = heads.get(stars).from_table([], ["text"], None)
    tokenizer = tiny.Words("the fox a dog cat".split())
    splits = {"dev": lambda: ROWS}
    task = FineTuningTask(
        "reviews",
        splits,
        goal.configured(max_seq_length=8, scores=(off_by_one, "pearson"), criterion="off_by_one"),
        tokenizer,
    )
    (batch,) = task.eval_batches(3)
    predictions = task.predictions({"values": tf.constant([1.9, 4.4, 9.0])}, batch)
    arrays = {name: value.numpy() for name, value in predictions.items()}
    assert task.criterion == "off_by_one"
    assert task.scores(arrays, "dev")["off_by_one"] == pytest.approx(2 / 3)
    rows = task.head.training.details(arrays, task.split("dev"))["hardest"]
    assert [(row["label"], row["truth"]) for row in rows] == [("*****", "**"), ("**", "*"), ("****", "*****")]
    about = {**task.about(), "reads": {}}
    assert type(heads.get(about["kind"]).from_about(about)) is type(goal), "an export finds it again"


def test_own_rows_of_a_head_are_those_of_its_task_and_of_its_export(stars):
    head = heads.get("my_lab.quiet").from_table([], ["text"], None).configured(max_seq_length=8)
    tokenizer = tiny.Words("the fox a dog cat".split())
    loud = [Example(row.id, (row.texts[0].upper(),), row.label) for row in ROWS]
    task = FineTuningTask("reviews", {"train": lambda: ROWS, "dev": lambda: loud}, head, tokenizer)
    quiet, (batch,) = next(iter(task.split("train").batches(3))), task.eval_batches(3)
    assert batch["token_ids"].numpy().tolist() == quiet["token_ids"].numpy().tolist()
    model = task.create_model(tiny.CONFIG)
    serve = task.signatures(model, tokenizer)["serving_default"]
    values = [serve(tf.constant([row.texts[0] for row in rows]))["values"].numpy() for rows in (ROWS, loud)]
    np.testing.assert_array_equal(*values)


@pytest.mark.slow
def test_custom_head_is_trained_scored_exported_predicted_served_and_shown(stars, tmp_path, capsys):
    rows = [(example.texts[0], example.label) for example in ROWS]
    options = {"model_size": "tiny", "vocab_size": 60, "max_seq_length": 8, "precision": "float32", "label_type": stars}
    options["export_engines"] = "none"
    run = bert_tf.fine_tune(rows * 4, eval_data=rows, output_dir=tmp_path / "run", num_train_epochs=1.0, **options)
    assert {"pearson", "spearman", "mean_squared_error"} < set(run.scores)
    assert "*" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert heads.get(stars).wording().phrase in (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    capsys.readouterr()
    folder = str(tmp_path / "run")
    assert main.main(["predict", folder, "--text=the fox", "--trust_code"]) == 0
    (shown,) = capsys.readouterr().out.splitlines()
    assert main.main(["predict", folder, "--text=the fox", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert shown == "*" * round(min(max(answer["value"], 1), 5))
    with plugins.trusting([stars]):
        served = Served("reviews", str(tmp_path / "run" / "export"))
        assert type(pretrained.model_of(formats.read(folder))).__name__ == "Regressor"
    assert (served.kind, served.form, served.input_names) == (stars, "regression", ["text_a"])


def test_earlier_kinds_are_known_and_unknown_ones_named():
    names = {kind: heads.get(kind).__name__ for kind in ("classes", "multi_label", "regression", "choice")}
    assert list(names.values()) == ["Classes", "MultiLabel", "Regression", "MultipleChoice"]
    with pytest.raises(UserError, match="There is no kind of head 'stars'.* Known: choice, classes, mask"):
        heads.get("stars")


def test_module_without_a_goal_is_refused(stars):
    with pytest.raises(UserError, match="my_lab.empty has no HEAD"):
        heads.get("my_lab.empty")

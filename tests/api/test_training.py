"""`bert_tf.fine_tune` and `bert_tf.pretrain`: data in every form, options, callbacks, resuming."""

import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.api import training
from bert_tf.errors import UserError

ROWS = [(f"the {'fox' if number % 2 else 'hound'} ran", ["dog", "fox"][number % 2]) for number in range(24)]
SMALL = {"model_size": "tiny", "max_seq_length": 8, "vocab_size": 60, "do_export": False, "precision": "float32"}


@pytest.mark.slow
@pytest.mark.eager
def test_fine_tune_trains_reports_and_resumes(tmp_path):
    logged = []
    options = {
        **SMALL,
        "num_train_epochs": 0.5,
        "train_batch_size": 4,
        "callbacks": [lambda *each: logged.append(each)],
    }
    run = bert_tf.fine_tune(ROWS, output_dir=tmp_path / "run", eval_data=ROWS[:8], **options)
    assert set(run.scores) == {"loss", "cross_entropy", "accuracy", "macro_f1"}
    assert [step for step, values in logged if "learning_rate" in values] == [1, 2, 3]
    assert any("eval_accuracy" in values for _, values in logged)
    recorded = json.loads((tmp_path / "run" / "run.json").read_text())
    assert recorded["flags"]["num_train_epochs"] == 0.5 and recorded["command"][0] == "bert_tf"
    assert set(run.load().predict("the fox ran").probabilities) == {"dog", "fox"}
    count = len(logged)
    again = bert_tf.fine_tune(ROWS, output_dir=tmp_path / "run", eval_data=ROWS[:8], **options)
    assert again.scores == run.scores and not [each for each in logged[count:] if "learning_rate" in each[1]]


@pytest.mark.slow
@pytest.mark.eager
def test_pretrain_takes_texts(tmp_path):
    texts = [f"The fox ran {number}. It saw a hound. The hound slept." for number in range(40)]
    logged = []
    run = bert_tf.pretrain(
        texts=texts,
        output_dir=tmp_path / "run",
        num_train_steps=2,
        train_batch_size=4,
        max_predictions_per_seq=2,
        callbacks=[lambda step, values: logged.append(step)],
        **SMALL,
    )
    assert "masked_lm_loss" in run.scores and {1, 2} <= set(logged)
    assert len(run.load().fill_mask("The [MASK] ran.")) == 1


class Frame:
    """What is used of a pandas DataFrame."""

    columns = ("a", "b", "label")

    def to_dict(self, kind):
        assert kind == "records"
        return [{"a": "x", "b": "y", "label": np.int64(1), "other": 0}]


def test_rows_hold_texts_that_are_split_into_words():
    data = tf.data.Dataset.from_tensors({"text": [["x", "y"]], "label": [1]}).unbatch()
    assert list(training._rows(data, ["text"], "label")) == [{"text": ["x", "y"], "label": 1}]


@pytest.mark.parametrize(
    "data",
    [
        [("x", "y", 1)],
        [["x", "y", 1]],
        [{"a": "x", "b": "y", "label": 1, "other": 0}],
        Frame(),
        tf.data.Dataset.from_tensor_slices((["x"], ["y"], [1])),
        tf.data.Dataset.from_tensor_slices({"a": ["x"], "b": ["y"], "label": [1]}),
    ],
)
def test_rows_are_read_from_any_data(data):
    assert list(training._rows(data, ["a", "b"], "label")) == [{"a": "x", "b": "y", "label": 1}]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda path: bert_tf.fine_tune(ROWS, output_dir=path, learning_rte=1.0),
            "no option learning_rte. Did you mean",
        ),
        (
            lambda path: bert_tf.fine_tune(ROWS, output_dir=path, num_train_epochs="3"),
            "'3' was given; expected a finite number",
        ),
        (
            lambda path: bert_tf.fine_tune(ROWS, output_dir=path, learning_rate=float("nan")),
            "learning_rate=nan was given; expected a finite number",
        ),
        (
            lambda path: bert_tf.fine_tune(ROWS, output_dir=path, do_train=1),
            "do_train=1 was given; expected True or False",
        ),
        (lambda path: bert_tf.fine_tune(ROWS, output_dir=path, precision="int4"), "expected one of auto, float32"),
        (lambda path: bert_tf.fine_tune([("a",)], output_dir=path), r"Row 0 is \('a',\); expected a dictionary"),
        (lambda path: bert_tf.fine_tune([{"text": "a"}], output_dir=path), "Row 0 has no 'label'; it has text"),
        (lambda path: bert_tf.pretrain(output_dir=path), "Give either files or texts"),
    ],
)
def test_mistakes_are_one_sentence(call, message, tmp_path):
    with pytest.raises(UserError, match=message):
        call(tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()

"""Exports of sentence tasks as others use them: through their signature alone, from C, as serialized examples."""

import json
import shutil

import c_loader
import numpy as np
import pytest
import tensorflow as tf
import tiny
from mask_filling_cases import WORDS

from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import batches, loaded_model, text_function
from bert_tf.export.batches import predict_in_order
from bert_tf.export.saved_model import export
from bert_tf.heads.base.answering import answered
from bert_tf.heads.base.prediction_files import json_line
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer([*tiny.SPECIAL, *WORDS])
GOALS = {"pair": Classes(["no", 'ye"s', "naïve"]), "choice": MultipleChoice(3)}
TEXTS = {
    "pair": [("the fox ran", "it sat"), ("The\tDOG", ""), ("é", "on a mat and on a mat"), ("a big cat", "he is")],
    "choice": [("the fox", "ran", "sat on", "is"), ("a", "", "b", "the old mat"), ("she", "was", "is", "to of in")],
}


def split(kind):
    return [Example(f"{number}", texts) for number, texts in enumerate(TEXTS[kind])]


@pytest.fixture(scope="module", params=GOALS)
def exported(request, tmp_path_factory):
    """The kind, the folder of its export, and what the live model answers to TEXTS: logits and probabilities."""
    kind = request.param
    task = FineTuningTask(
        "tiny",
        {"test": lambda: split(kind)},
        GOALS[kind].configured(max_seq_length=12, texts=2),
        TOKENIZER,
        eval_splits={},
    )
    model = tiny.randomized(task.create_model(tiny.CONFIG))
    inputs = task.head.training.inputs(TOKENIZER, tf.constant(TEXTS[kind]))
    if kind == "pair":  # so that no class is best for all of the texts
        model.classifier.bias.assign_sub(tf.reduce_mean(model(inputs)["logits"], 0))
    folder = str(tmp_path_factory.mktemp("exported") / "export")
    export(task, model, TOKENIZER, folder, examples={}, about={"labels": list(task.head.labels)})
    answers = {name: value.numpy() for name, value in task.head.predictions(model(inputs)).items()}
    return kind, folder, answers


def assert_right(kind, actual, expected):
    """Probabilities and logits of the live model, and the label of the highest."""
    for name in ("logits", "probabilities"):
        np.testing.assert_allclose(np.array(actual[name], float), expected[name], atol=1e-5)
    labels = [GOALS[kind].labels[best] for best in expected["logits"].argmax(-1)]
    assert [label.decode() if isinstance(label, bytes) else label for label in actual["label"]] == labels
    assert len(set(labels)) > 1, "these texts would not show a wrong order"


def test_export_predicts_through_its_signature_alone(exported):
    kind, folder, expected = exported
    loaded = loaded_model.on_strings(folder)
    assert loaded.inputs == {"text_a": None, **({"choices": 3} if kind == "choice" else {"text_b": None})}
    assert (loaded.labels, loaded.task) == (GOALS[kind].labels, "tiny")
    assert_right(kind, loaded.predict(split(kind)), expected)


def test_predictions_keep_the_order_of_the_texts(exported):
    kind, folder, expected = exported
    loaded = loaded_model.on_strings(folder)
    for batch_size, window in ((1, 1), (2, 2), (2, 100), (3, 3)):
        answers = list(predict_in_order(loaded, iter(split(kind)), batch_size=batch_size, window=window))
        assert [example for example, _ in answers] == split(kind)
        stacked = {name: [outputs[name] for _, outputs in answers] for name in answers[0][1]}
        assert_right(kind, stacked, expected)
    row = answered(*answers[0], head=loaded.head, labels=loaded.labels, inputs=loaded.inputs).fields()
    assert list(row) == [*(("id", "text_a", "choices") if kind == "choice" else ("id", "text_a", "text_b"))] + [
        "label",
        "probabilities",
    ]
    assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_signature_names_and_shapes_are_stable(exported):
    kind, folder, _ = exported
    size = 3
    for signature in ("serving_default", "tf_example"):
        definition = c_loader.read_signature(folder, signature)
        shapes = {
            name: [dimension.size for dimension in tensor.tensor_shape.dim]
            for name, tensor in [*definition.inputs.items(), *definition.outputs.items()]
        }
        inputs = {"text_a": [-1], **({"choices": [-1, size]} if kind == "choice" else {"text_b": [-1]})}
        inputs = inputs if signature == "serving_default" else {"examples": [-1]}
        assert shapes.pop("label") == [-1]
        assert {name: shape for name, shape in shapes.items() if name in inputs} == inputs
        assert set(shapes) - set(inputs) == {"logits", "probabilities"}
        assert definition.method_name == "tensorflow/serving/predict"


def spoil(folder, name, keep):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[:keep])


def test_damaged_export_is_one_clear_error(exported, tmp_path):
    for number, (name, keep) in enumerate(
        (("saved_model.pb", 2000), ("saved_model.pb", 0), ("variables/variables.index", 10))
    ):
        folder = tmp_path / str(number)
        shutil.copytree(exported[1], folder)
        spoil(folder, name, keep)
        with pytest.raises(
            UserError, match=r"cannot be loaded \(.+\): one of its files is damaged or missing"
        ) as error:
            loaded_model.on_strings(str(folder))
        assert "\n" not in str(error.value)


def test_export_without_about_json_predicts_without_names(exported, tmp_path):
    shutil.copytree(exported[1], tmp_path / "export")
    (tmp_path / "export" / "about.json").write_text("[1")
    loaded = loaded_model.on_strings(str(tmp_path / "export"))
    assert (loaded.labels, loaded.task) == ((), "")
    example = split(exported[0])[0]
    (answer,) = predict_in_order(loaded, [example], batch_size=1, window=1)
    row = json.loads(
        json_line(answered(*answer, head=loaded.head, labels=loaded.labels, inputs=loaded.inputs).fields())
    )
    assert row["label"] in GOALS[exported[0]].labels and len(row["probabilities"]) == 3


def test_invalid_unicode_is_refused_with_its_location(exported):
    texts = ("\ud800", *TEXTS[exported[0]][0][1:])
    with pytest.raises(UserError, match="In line 7 of x.jsonl a text is not Unicode"):
        loaded_model.on_strings(exported[1]).predict([Example("0", texts, None, "line 7 of x.jsonl")])


@pytest.mark.parametrize(
    "shapes, declared, expected, has_order",
    [
        ({"context": [None], "question": [None]}, (), ["question", "context"], True),
        ({"context": [None], "question": [None]}, ["context", "question"], ["context", "question"], True),
        ({"context": [None], "question": [None]}, ["other"], ["question", "context"], True),
        ({"choices": [None, 3], "text_a": [None]}, (), ["text_a", "choices"], True),
        ({"hypothesis": [None], "premise": [None]}, ["premise", "hypothesis"], ["premise", "hypothesis"], True),
        ({"premise": [None], "hypothesis": [None]}, (), ["hypothesis", "premise"], False),
        ({"anything": [None]}, (), ["anything"], True),
    ],
)
def test_inputs_have_the_order_that_an_export_declares(shapes, declared, expected, has_order):
    inputs, is_known = text_function.inputs_in_order(shapes, declared)
    assert (list(inputs), is_known) == (expected, has_order)
    assert all(inputs[name] == (shape[1] if len(shape) == 2 else None) for name, shape in shapes.items())


TENTH = batches.CHARACTERS_PER_TEXT // 10


class Lengths:
    """Says the length of each text, in tenths of the characters for a text, and which texts it was given together."""

    def __init__(self):
        self.batches = []

    def predict(self, examples):
        lengths = [len(example.texts[0]) // TENTH for example in examples]
        self.batches.append(lengths)
        return {"length": lengths}


def test_long_texts_share_a_batch_with_fewer_others():
    lengths, predictor = [3, 50, 1, 17, 12, 40, 2, 9, 5, 11], Lengths()
    examples = [Example(str(length), ("x" * TENTH * length,), None, "here") for length in lengths]
    rows = list(predict_in_order(predictor, examples, batch_size=4, window=100))
    assert [values["length"] for _, values in rows] == lengths
    assert sorted(predictor.batches, reverse=True) == [[50], [40], [17, 12, 11], [9, 5, 3, 2], [1]]


@pytest.mark.parametrize(
    "values",
    [{"labels": 5}, {"labels": "ab"}, {"labels": [1, 2]}, {"labels": {"a": 1}}, {"task": ["a"]}, {"kind": 1}]
    + [{"reads": 5}, {"reads": {"text_columns": ["a"]}}, {"inputs": ["a"]}, {"temperature": "1"}, {"thresholds": 0.5}]
    + [{"inputs": {"text": "a"}}, {"thresholds": [0.5, 2]}, {"thresholds": [float("nan")]}]
    + [{"temperature": value} for value in (-3, 0, float("nan"), float("inf"), 10**400, True)],
)
def test_value_of_another_type_in_about_json_is_named(tmp_path, values):
    (tmp_path / "about.json").write_text(json.dumps(values))
    name = "reads.text_columns" if isinstance(values.get("reads"), dict) else next(iter(values))
    with pytest.raises(UserError, match=f"about.json: {name} is .*; expected a"):
        loaded_model.about(str(tmp_path))


@pytest.mark.parametrize("values", [{}, {"labels": None, "kind": None}, {"labels": [], "reads": {}, "more": 5}])
def test_missing_values_of_about_json_are_fine(tmp_path, values):
    (tmp_path / "about.json").write_text(json.dumps(values))
    spec = tf.TensorSpec([None], tf.string, "text")
    function = tf.function(lambda text: {"length": tf.strings.length(text)}, input_signature=[spec])
    found = text_function.Signatures("", {"serving_default": function}, loaded_model.about(str(tmp_path)))
    assert (found.labels, found.task) == ((), "")

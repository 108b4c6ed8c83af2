"""Goals: labels to numbers and back, losses against NumPy, inputs eagerly and inside a dataset."""

import itertools
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.config.train_config import LossSettings
from bert_tf.data.examples import Example, label_text
from bert_tf.errors import UserError
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel, split_labels
from bert_tf.heads.regression import Regression
from bert_tf.heads.relevance import Relevance
from bert_tf.heads.relevance_score import RelevanceScore
from bert_tf.training import confidence

WORDS = "the fox dog ran sat on mat .".split()


def example(label, place="line 3 of a.tsv"):
    return Example("0", ("the fox",), label, place)


def eagerly(function, value):
    return function(value)


def inside_a_dataset(function, value):
    return next(iter(tf.data.Dataset.from_tensors(value).map(function)))


def test_classes_are_numbered_in_given_order():
    goal = Classes(["no", "yes"])
    assert goal.encode([example("yes"), example("no")]).tolist() == [1, 0]
    assert goal.names(np.array([1, 0])) == ["yes", "no"]
    assert Classes(["1", "2", "true"]).encode([example(2), example(1.0), example(True)]).tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    "goal, label, message",
    [
        (Classes(["no", "yes"]), "maybe", "In line 3 of a.tsv the label is 'maybe'; expected one of no, yes"),
        (MultiLabel(["a", "b"]), "a,c", "In line 3 of a.tsv there is the label 'c'; expected some of a, b"),
        (Regression(), "warm", "In line 3 of a.tsv the label is 'warm'; expected a number"),
        (Regression(), "nan", "the label is 'nan'; expected a number"),
        (Relevance(), "1.5", "expected a number from 0 to 1, or pass label_type=relevance_score"),
        (MultipleChoice(4), "4", "the label is '4'; expected one of 0, 1, 2, 3"),
        (Classes([f"c{i}" for i in range(15)]), "x", "c11 and 3 more, which are"),
    ],
)
def test_unknown_label_is_reported_with_its_row(goal, label, message):
    with pytest.raises(UserError, match=message):
        goal.encode([example(label)])


@pytest.mark.parametrize("labels", [[], ["a"], ["a", "b", "a"]])
def test_fewer_than_two_labels_are_refused(labels):
    with pytest.raises(UserError, match="expected two or more different ones"):
        Classes(labels)


def test_one_of_several_labels_may_be_the_only_one():
    assert MultiLabel.from_about({"labels": ["toxic"]}).thresholds.tolist() == [0.5]
    with pytest.raises(UserError, match="The labels are a, a; expected different ones"):
        MultiLabel(["a", "a"])


def test_multi_label_cell_becomes_a_binary_vector():
    goal = MultiLabel(["a", "b", "c"])
    assert goal.encode([example("c, a"), example(""), example(["b"])]).tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert goal.names(np.array([[1, 0, 1], [0, 0, 0]])) == ["a,c", ""]
    assert split_labels("a|b |", "|") == ["a", "b"]
    assert split_labels("['a', 'b|c']", "|") == ["a", "b|c"]
    assert split_labels("[a] | b", "|") == ["[a]", "b"] and split_labels("[a]", "|") == ["[a]"]


@pytest.mark.parametrize(
    "label, text", [("x", "x"), (1, "1"), (1.0, "1"), (1.5, "1.5"), (False, "false"), (None, None)]
)
def test_json_labels_are_read_as_strings(label, text):
    assert label_text(label) == text


def test_balanced_weights_equalize_classes():
    weights = Classes(["a", "b", "never"]).class_weights(np.array([0, 0, 0, 1]), "balanced")
    np.testing.assert_allclose(weights, [4 / 9, 4 / 9, 4 / 9, 4 / 3])
    for goal in (Regression(), MultiLabel(["a", "b"])):
        with pytest.raises(UserError, match="class_weights needs one class for each text"):
            goal.class_weights(np.zeros(3, np.int32), "balanced")


@pytest.mark.parametrize(
    "text, expected", [("1,2,3", [1, 2, 3]), ("c=4", [1, 1, 4]), ("2", [2, 2, 2]), ("a=0,b=5", [0, 5, 1])]
)
def test_weights_of_labels_are_numbers_in_order_or_by_name(text, expected):
    goal = Classes(["a", "b", "c"])
    np.testing.assert_array_equal(goal.class_weights(np.array([2, 0, 1]), text), np.array(expected)[[2, 0, 1]])
    several = MultiLabel(["a", "b", "c"]).with_loss(LossSettings(pos_weight=text))
    np.testing.assert_array_equal(several.pos_weights, expected)


@pytest.mark.parametrize("text", ["1,2", "d=3", "a=-1", "a=x", "", "nan"])
def test_wrong_weights_of_labels_are_refused(text):
    with pytest.raises(UserError, match="class_weights is"):
        Classes(["a", "b", "c"]).class_weights(np.zeros(1, np.int32), text)


@pytest.mark.parametrize(
    "goal, settings, message",
    [
        (Regression(), {"label_smoothing": 0.1}, "need classes or labels"),
        (Classes("ab"), {"pos_weight": "2"}, "pos_weight needs label_type=multi_label"),
        (Classes("ab"), {"label_smoothing": 1.0}, "label_smoothing is 1.0"),
        (Classes("ab"), {"focal_gamma": -1.0}, "focal_gamma is -1.0"),
    ],
)
def test_impossible_losses_are_refused(goal, settings, message):
    with pytest.raises(UserError, match=message):
        goal.with_loss(LossSettings(**settings))


def test_changed_losses_of_classes_match_keras_and_numpy():
    logits, labels = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]]), np.array([2, 1], np.int32)
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    outputs, of_label = {"logits": tf.constant(logits, tf.float32)}, probabilities[[0, 1], labels]

    def minimized(**settings):
        goal = Classes("abc").with_loss(LossSettings(**settings))
        losses = goal.training_losses(outputs, tf.constant(labels))
        assert list(losses) == ["cross_entropy", goal.objective]
        np.testing.assert_allclose(losses["cross_entropy"], -np.log(of_label), rtol=1e-5)
        return losses[goal.objective]

    smoothed = 0.9 * np.eye(3)[labels] + 0.1 / 3  # Szegedy et al. 2016, section 7
    np.testing.assert_allclose(minimized(label_smoothing=0.1), -(smoothed * np.log(probabilities)).sum(-1), rtol=1e-5)
    focal = -((1 - of_label) ** 2) * np.log(of_label)  # Lin et al. 2017, equation 4
    np.testing.assert_allclose(minimized(focal_gamma=2.0), focal, rtol=1e-5)
    theirs = keras.losses.CategoricalFocalCrossentropy(alpha=1, gamma=1.5, label_smoothing=0.1, reduction=None)
    expected = theirs(np.eye(3)[labels], probabilities)
    np.testing.assert_allclose(minimized(label_smoothing=0.1, focal_gamma=1.5), expected, rtol=1e-5)


def test_changed_losses_of_several_labels_match_numpy():
    logits = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    holds = np.array([[1, 0, 0], [0, 1, 1]], np.float32)
    p, outputs = 1 / (1 + np.exp(-logits)), {"logits": tf.constant(logits, tf.float32)}

    def minimized(**settings):
        return MultiLabel("abc").with_loss(LossSettings(**settings)).training_losses(outputs, holds)["training_loss"]

    soft = 0.8 * holds + 0.1
    expected = -(soft * np.log(p) + (1 - soft) * np.log(1 - p)).mean(-1)
    np.testing.assert_allclose(minimized(label_smoothing=0.2), expected, rtol=1e-5)
    expected = -(holds * (1 - p) ** 2 * np.log(p) + (1 - holds) * p**2 * np.log(1 - p)).mean(-1)
    np.testing.assert_allclose(minimized(focal_gamma=2.0), expected, rtol=1e-5)
    weights = np.array([3, 1, 1], np.float32)
    expected = tf.nn.weighted_cross_entropy_with_logits(holds, outputs["logits"], weights)
    np.testing.assert_allclose(minimized(pos_weight="a=3"), tf.reduce_mean(expected, -1), rtol=1e-5)


def test_balanced_pos_weight_is_the_odds_of_a_label_not_holding():
    goal = MultiLabel("abc").with_loss(LossSettings(pos_weight="balanced"))
    holds = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]], np.float32)
    np.testing.assert_allclose(goal.fitted_to(types.SimpleNamespace(labels=holds, count=4)).pos_weights, [3, 1 / 4, 4])


def test_losses_match_numpy():
    logits, labels = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], np.float32), np.array([2, 1], np.int32)
    expected = np.log(np.exp(logits).sum(-1)) - logits[[0, 1], labels]
    actual = Classes("abc").loss({"logits": tf.constant(logits)}, tf.constant(labels))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    holds = np.array([[1, 0, 0], [0, 1, 1]], np.float32)
    expected = np.mean(np.log1p(np.exp(logits)) - holds * logits, -1)
    np.testing.assert_allclose(MultiLabel("abc").loss({"logits": tf.constant(logits)}, holds), expected, rtol=1e-6)
    actual = Regression().loss({"values": tf.constant([1.0, 4.0])}, tf.constant([3.0, 4.5]))
    np.testing.assert_allclose(actual, [4.0, 0.25])


@pytest.mark.parametrize("separator", [",", ", ", "."])
@pytest.mark.parametrize("labels", [[",a", "b,"], ["a", "b,,c"], ["x.", " y "], ["", "x"], ["a", ",", "", ",,"]])
def test_names_of_several_labels_are_the_same_in_a_graph_whatever_their_characters(labels, separator):
    applies = np.array(list(itertools.product([0, 1], repeat=len(labels))))
    head = MultiLabel(labels, separator)
    found = head.label_names(head.predictions({"logits": tf.constant(applies * 2.0 - 1, tf.float32)}))["label"].numpy()
    assert [name.decode() for name in found] == head.names(applies)


def test_outputs_are_probabilities_and_names():
    answers = Classes(["no", "yes"]).predictions({"logits": tf.constant([[0.0, np.log(3.0)], [1.0, 1.0]])})
    np.testing.assert_allclose(answers["probabilities"], [[0.25, 0.75], [0.5, 0.5]], rtol=1e-6)
    assert Classes(["no", "yes"]).label_names(answers)["label"].numpy().tolist() == [b"yes", b"no"]
    several = MultiLabel(["a", "b|", "c"], separator="|")
    answers = several.predictions({"logits": tf.constant([[1.0, -1.0, 2.0], [-1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]])})
    assert several.label_names(answers)["label"].numpy().tolist() == [b"a|c", b"", b"c"]
    on_the_host = several.from_logits(answers["logits"].numpy())
    np.testing.assert_allclose(on_the_host["probabilities"], answers["probabilities"], rtol=1e-6)
    assert on_the_host["label"].tolist() == ["a|c", "", "c"]
    multi_label = MultiLabel(["a", "b", "c"], "|", [0.1, 0.2, 0.9])
    assert multi_label.label_names(answers)["label"].numpy().tolist() == [b"a|b"] * 3
    arrays = {name: x.numpy() for name, x in answers.items()}
    assert (
        multi_label.predicted(arrays).tolist() == [[1, 1, 0]] * 3
        and multi_label.names(multi_label.predicted(arrays))[0] == "a|b"
    )
    assert multi_label.correct(
        {"logits": answers["logits"]}, np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0]])
    ).numpy().tolist() == [1, 0, 1]
    assert Regression().label_names({}) == {} and Regression().names(np.array([2.34567])) == ["2.346"]


@pytest.mark.parametrize("run", [eagerly, inside_a_dataset])
@pytest.mark.parametrize(
    "goal, texts, rows",
    [
        (Classes("ab"), [["the fox"], ["dog"]], ["[CLS] the fox [SEP]", "[CLS] dog [SEP]"]),
        (Regression(), [["the fox ran .", "dog sat on"]], ["[CLS] the fox ran [SEP] dog sat [SEP]"]),
        (
            MultipleChoice(2),
            [["the fox", "ran .", "sat"], ["dog", "", "the mat"]],
            [
                "[CLS] the fox [SEP] ran . [SEP]",
                "[CLS] the fox [SEP] sat [SEP]",
                "[CLS] dog [SEP] [SEP]",
                "[CLS] dog [SEP] the mat [SEP]",
            ],
        ),
    ],
    ids=["one", "pair", "choice"],
)
def test_labels_are_converted_to_rows(run, goal, texts, rows):
    tokenizer = tiny.Words(WORDS)
    head = goal.configured(max_seq_length=8)
    inputs = run(lambda actual: head.training.inputs(tokenizer, actual), tf.constant(texts))
    assert inputs["token_ids"].shape[-1] == 8 and inputs["token_ids"].shape[:-1] == inputs["lengths"].shape
    assert tokenizer.detokenize(np.reshape(inputs["token_ids"], [-1, 8])) == rows
    assert np.reshape(inputs["lengths"], -1).tolist() == [len(row.split()) for row in rows]


def test_temperature_scales_probabilities_alike_in_graph_files_and_losses():
    logits = np.array([[2.0, 0.0, -1.0], [0.0, 3.0, 1.0]], np.float32)
    labels = np.array([0, 2])
    plain = Classes(["a", "b", "c"])
    goal = plain.with_temperature(4.0)
    values = {name: x.numpy() for name, x in goal.predictions({"logits": tf.constant(logits)}).items()}
    expected = np.exp(logits / 4) / np.exp(logits / 4).sum(1, keepdims=True)
    np.testing.assert_allclose(values["probabilities"], expected, rtol=1e-6)
    np.testing.assert_array_equal(values["logits"], logits)
    np.testing.assert_allclose(goal.losses({"logits": logits}, labels), -np.log(expected[[0, 1], labels]), rtol=1e-6)
    assert list(goal.prediction({"logits": logits}, 1, "").probabilities.values()) == pytest.approx(
        expected[1], rel=1e-6
    )
    assert (plain.about(), goal.about()) == ({}, {"temperature": 4.0})
    assert Classes.from_about({"labels": ["a", "b", "c"], **goal.about()}).temperature == 4


def test_temperature_is_fitted_only_on_request_and_refused_without_softmax():
    logits, labels = np.array([[5.0, 0.0], [0.0, 5.0], [5.0, 0.0], [0.0, 5.0]] * 500), np.array([0, 1, 1, 1] * 500)
    plain, split = Classes(["a", "b"]), types.SimpleNamespace(labels=labels)
    predictions = {"logits": logits, "row_numbers": np.arange(2000)}
    assert plain.calibrated(predictions, split) == (plain, "")
    assert plain.with_calibration({"temperature": 3.0}).temperature == 1
    fitted, sentence = plain.with_temperature(None).calibrated(predictions, split)
    assert fitted.temperature == pytest.approx(5 / np.log(3), rel=3e-3)  # three in four are right
    assert sentence.startswith(f"Probabilities use logits / {fitted.temperature:.3f}")
    assert plain.with_temperature(None).with_calibration(fitted.calibration).temperature == fitted.temperature
    all_right = types.SimpleNamespace(labels=logits.argmax(1))
    lower, _ = plain.with_temperature(None).calibrated(predictions, all_right)
    assert confidence.BOUNDS[0] < lower.temperature < 1.5  # many rows outweigh what fits other tables
    assert fitted.confidence({"logits": logits}, labels)["expected_calibration_error"] == pytest.approx(0.243, abs=1e-3)
    number = Regression()
    assert number.with_temperature(1.0) is number and number.confidence({}, labels) == {}
    with pytest.raises(UserError, match="temperature needs classes, labels, choices or questions"):
        number.with_temperature(None)


def test_each_of_several_labels_is_a_choice_that_the_temperature_is_fitted_on():
    """Three in four answers with a logit of 5 or -5 are right; thresholds are of the probabilities that it makes."""
    logits = np.array([[5.0, -5.0], [-5.0, 5.0], [5.0, -5.0], [5.0, 5.0]] * 500, np.float32)
    labels = np.array([[1, 0], [0, 1], [0, 0], [1, 0]] * 500, np.float32)
    plain, split = MultiLabel(["a", "b"], finds_best=True), types.SimpleNamespace(labels=labels)
    predictions = {"logits": logits, "probabilities": 1 / (1 + np.exp(-logits)), "row_numbers": np.arange(2000)}
    fitted, sentence = plain.with_temperature(None).calibrated(predictions, split)
    assert fitted.temperature == pytest.approx(5 / np.log(3), rel=3e-3)
    np.testing.assert_allclose(fitted.shares(predictions["logits"]), np.where(logits > 0, 0.75, 0.25), atol=1e-3)
    graph = fitted.predictions({"logits": tf.constant(logits)})["probabilities"]
    np.testing.assert_allclose(graph, fitted.from_logits(logits)["probabilities"], rtol=1e-6)
    assert (fitted.predicted(predictions) == (logits > 0)).all() and "\nThresholds: a 0.5" in sentence
    again = plain.with_temperature(None).with_calibration(fitted.calibration)
    assert again.about() == fitted.about() == MultiLabel.from_about({"labels": ["a", "b"], **fitted.about()}).about()
    assert fitted.confidence(predictions, labels)["expected_calibration_error"] == pytest.approx(0.243, abs=1e-3)
    assert plain.calibrated(predictions, split)[0].temperature == 1, "it was not asked for"


RANKED = np.array([[2.0, 0.5, -1.0], [0.0, 1.0, 3.0]], np.float32)  # scores; below losses of sentence-transformers


@pytest.mark.parametrize(
    ("goal", "ranking_loss", "labels", "expected"),
    [
        (Relevance(), "listwise", [[1, 0, 0], [1, 0, 0]], 1.7055787),
        (RelevanceScore(), "listwise", [[4, 1, 0], [2, 2, 1]], 1.322057),
        (RelevanceScore(), "margin_mse", [[4, 1, 0], [2, 2, 1]], 5.0625),
    ],
)
def test_ranking_losses_compare_the_texts_of_a_query(goal, ranking_loss, labels, expected):
    head = goal.configured(max_seq_length=8, texts=2, loss=LossSettings(ranking_loss=ranking_loss, list_size=3))
    labels = np.array(labels, np.float32)
    batch = {"labels": tf.constant(labels.reshape(-1)), "row_weights": tf.constant([1.0, 1, 1, 1, 1, 1])}
    losses, weights = head.metrics({"values": tf.constant(RANKED.reshape(-1))}, batch)["training_loss"]
    assert weights.shape == [2] and head.objectives.keys() == {"training_loss"}
    np.testing.assert_allclose(np.mean(losses), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "goal", "message"),
    [
        ({"ranking_loss": "listwise"}, Relevance(), "list_size is 1; expected both"),
        ({"list_size": 3}, Relevance(), "ranking_loss is '' and list_size is 3; expected both"),
        ({"ranking_loss": "listwise", "list_size": 3}, Classes(["a", "b"]), "need label_type=relevance"),
    ],
)
def test_lists_need_a_size_and_a_reranker(loss, goal, message):
    with pytest.raises(UserError, match=message):
        goal.configured(max_seq_length=8, texts=2, loss=LossSettings(**loss))


def test_rows_of_a_list_stay_together():
    head = RelevanceScore().configured(
        max_seq_length=8, texts=2, loss=LossSettings(ranking_loss="margin_mse", list_size=2)
    )
    examples = [Example(str(n), (str(n // 2), "x"), str(n), f"row {n}") for n in range(10)]
    rows = head.training.rows_of(examples, tiny.Words("0 1 2 3 4 x".split()), is_trained=True)
    (batch,) = rows.batches(4, seed=1).take(1)
    first, _, third, _ = numbers = batch["row_numbers"].numpy().tolist()
    assert numbers == [first, first + 1, third, third + 1] and first % 2 == third % 2 == 1 and first != third
    assert [each["row_numbers"].numpy().tolist() for each in rows.batches(5)][-1] == [9, 10, 0, 0]
    with pytest.raises(UserError, match="train_batch_size is 5; expected a multiple of list_size, 2"):
        rows.batches(5, seed=1)
    with pytest.raises(UserError, match="begins in row 0 has fewer than list_size=2 rows, row 2 is of another query"):
        head.training.rows_of([examples[0], *examples[2:]], rows._tokenizer, is_trained=True)


def test_relevance_is_a_probability_and_a_score_is_none():
    logits, labels = np.array([-2.0, 0.5, 30.0], np.float32), np.array([0, 1, 0.25], np.float32)
    outputs = {"values": tf.constant(logits)}
    for goal, values in ((Relevance(), 1 / (1 + np.exp(-logits))), (RelevanceScore(), logits)):
        predictions = {name: x.numpy() for name, x in goal.predictions(outputs).items()}
        np.testing.assert_allclose(predictions["values"], values, rtol=1e-6)
        np.testing.assert_allclose(goal.losses(predictions, labels), goal.loss(outputs, labels), rtol=1e-5)
    chosen = Relevance().loss(outputs, tf.constant(labels)).numpy()
    np.testing.assert_allclose(chosen[:2], [np.log(1 + np.exp(-2)), np.log(1 + np.exp(-0.5))], rtol=1e-6)
    assert RelevanceScore().encode([example("7.5")]).tolist() == [7.5]

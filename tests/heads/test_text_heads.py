"""Tasks on whole texts: batches, scores over a whole split on one and two replicas, learning, export."""

import contextlib
import dataclasses
import functools
import sys

import device_graphs
import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.checkpoints import formats
from bert_tf.config.train_config import LossSettings, TrainConfig
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.export import tf_examples
from bert_tf.export.saved_model import export
from bert_tf.heads.base.text_rows import TextRows
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.heads.regression import Regression
from bert_tf.model import heads, packing
from bert_tf.serving.served import Served
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import distribute
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.train_step import TrainStep

TOKENIZER = tiny.Words("the fox dog ran sat on a mat and cat red big".split())
SMALL = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1)
CONFIG = TrainConfig(
    train_batch_size=4, eval_batch_size=4, learning_rate=0.01, num_train_steps=40, num_warmup_steps=0, max_eval_steps=9
)
# The goal, and texts with their label; what the label says can be seen in the texts.
GOALS = {
    "one": (Classes(["cat", "dog"]), [(("a cat sat",), "cat"), (("a dog sat",), "dog")]),
    "pair": (Classes(["no", "yes"]), [(("the fox", "dog"), "no"), (("the fox", "ran"), "yes")]),
    "several": (MultiLabel(["fox", "mat"]), [(("the fox",), "fox"), (("fox on mat",), "fox,mat")]),
    "number": (Regression(), [(("the fox", "sat"), "1"), (("the fox", "ran"), "5")]),
    "choice": (MultipleChoice(2), [(("the fox", "ran", "red"), "0"), (("the fox", "red", "ran"), "1")]),
}


def task_of(kind, count=10, **options):
    goal, kinds = GOALS[kind]
    rows = [Example(str(i), *kinds[i % 2]) for i in range(count)]
    unlabelled = [dataclasses.replace(row, label=None) for row in rows]
    splits = {"train": lambda: rows, "dev": lambda: rows[:7], "test": lambda: unlabelled}
    texts = min(2, len(rows[0].texts))
    return FineTuningTask("tiny", splits, goal.configured(max_seq_length=12, texts=texts, **options), TOKENIZER)


def rows_of(batch):
    return [row for row in batch["row_numbers"].numpy().tolist() if row]


def test_epochs_are_permutations_of_the_examples():
    numbers = np.concatenate([rows_of(b) for b in task_of("one").train_batches(4, 5).take(5)]).reshape(2, 10)
    assert [sorted(epoch) for epoch in numbers.tolist()] == [list(range(1, 11))] * 2
    assert numbers[0].tolist() != numbers[1].tolist()
    other = np.concatenate([rows_of(b) for b in task_of("one").train_batches(4, 6).take(5)])
    assert other[:10].tolist() != numbers[0].tolist()


def test_eval_pass_is_in_order_and_padded_with_weight_zero():
    first, last = task_of("pair").eval_batches(4, "dev")
    assert (first["row_numbers"].numpy().tolist(), last["row_numbers"].numpy().tolist()) == ([1, 2, 3, 4], [5, 6, 7, 0])
    assert last["row_weights"].numpy().tolist() == [1, 1, 1, 0]
    assert first["labels"].numpy().tolist() == [0, 1, 0, 1]
    assert TOKENIZER.detokenize(last["token_ids"])[1:] == [
        "[CLS] the fox [SEP] ran [SEP]",
        "[CLS] the fox [SEP] dog [SEP]",
        "[CLS] [SEP] [SEP]",
    ]


@pytest.mark.parametrize("kind", GOALS)
def test_batches_have_static_shapes(kind):
    task = task_of(kind)
    datasets = [task.eval_batches(4, "test")] + [task.train_batches(4, 1)] * (
        kind == "pair"
    )  # the rest is the same code
    for spec in (dataset.element_spec for dataset in datasets):
        assert all(each.shape.is_fully_defined() and each.shape[0] == 4 for each in spec.values())


@pytest.mark.parametrize("kind", GOALS)
def test_grouped_batches_are_of_like_length(kind):
    goal, kinds = GOALS[kind]
    rows = [Example(str(i), ("the fox" + " red" * (i % 5), *kinds[0][0][1:]), kinds[0][1]) for i in range(80)]
    texts = min(2, len(rows[0].texts))
    task = FineTuningTask("tiny", {"train": lambda: rows}, goal.configured(max_seq_length=12, texts=texts), TOKENIZER)
    spreads = []
    for task.groups_by_length in (False, True):
        batches = list(task.train_batches(4, 5).take(20))
        assert sorted(row for batch in batches for row in rows_of(batch)) == list(range(1, 81))
        lengths = [batch["lengths"].numpy().reshape(4, -1).max(1) for batch in batches]
        spreads.append(np.ptp(lengths, 1).sum())
    assert 0 < spreads[1] < 0.5 * spreads[0]


@pytest.mark.parametrize("groups_by_length", [False, True])
def test_training_resumes_from_a_saved_iterator(tmp_path, groups_by_length):
    task = task_of("one")
    task.groups_by_length = groups_by_length
    iterator = iter(task.train_batches(4, 7))
    for _ in range(4):
        next(iterator)
    path = tf.train.Checkpoint(data=iterator).save(str(tmp_path / "ckpt"))
    expected, again = rows_of(next(iterator)), iter(task.train_batches(4, 7))
    tf.train.Checkpoint(data=again).restore(path).assert_consumed()
    assert rows_of(next(again)) == expected


@pytest.mark.parametrize(
    "kind, score, expected",
    [
        ("one", "", ["accuracy", "macro_f1"]),
        ("one", "macro_f1", ["macro_f1", "accuracy"]),
        ("one", "f1", ["f1", "accuracy", "macro_f1"]),
        ("several", "macro_f1", ["macro_f1", "micro_f1", "accuracy"]),
        ("number", "spearman", ["spearman", "pearson", "mean_squared_error"]),
    ],
)
def test_selection_metric_can_be_chosen(kind, score, expected):
    task = task_of(kind, criterion=score)
    task = FineTuningTask("two", task.source, task.head, TOKENIZER, eval_splits={"matched_": "dev", "other_": "dev"})
    guessed = {"logits": np.zeros([7, 2]), "probabilities": np.ones([7, 2]), "values": np.arange(7.0)}
    scores = task.scores({**guessed, "row_numbers": np.arange(7)}, "dev")
    assert (task.criterion, list(scores)) == (f"matched_{expected[0]}", expected)


@pytest.mark.parametrize(
    "kind, score, known",
    [
        ("one", "micro_f1", "accuracy, macro_f1, matthews, f1"),
        ("number", "mean_squared_error", "pearson, spearman"),
        ("choice", "f1", "accuracy"),
        ("several", "f1", "micro_f1, macro_f1, accuracy"),
    ],
)
def test_invalid_selection_metric_is_refused(kind, score, known):
    with pytest.raises(UserError, match=f"criterion is {score}; expected one of {known} for this task"):
        task_of(kind, criterion=score)


def test_class_weights_apply_to_training_only():
    task = task_of("one", count=3, class_weights="balanced")  # cat, dog, cat
    assert task.split("train").weights.tolist() == [0.75, 1.5, 0.75]
    assert task.split("dev").weights.tolist() == [1, 1, 1]
    assert task_of("one", count=3, class_weights="dog=3").split("train").weights.tolist() == [1, 3, 1]


def test_changed_loss_is_minimized_and_the_plain_one_reported():
    task = task_of("several", count=3, loss=LossSettings(pos_weight="balanced"))  # fox; fox, mat; fox
    batch = next(iter(task.train_batches(2, 0)))
    assert task.head.pos_weights.tolist() == [pytest.approx(1 / 3), 2]
    metrics = task.metrics({"logits": tf.zeros([2, 2])}, batch)
    assert list(task.objectives) == list(task.loss_weights(batch)) == ["training_loss"]
    assert list(metrics) == ["binary_cross_entropy", "training_loss", "accuracy"]


def test_unlabeled_split_has_zero_weight_and_partly_labeled_is_refused():
    task = task_of("one")
    assert not task.split("test").is_known and task.split("test").weights.sum() == 0
    mixed = [Example("0", ("a",), "cat"), Example("1", ("b",), "", "line 2 of x.csv")]
    with pytest.raises(UserError, match="There is no label in line 2 of x.csv"):
        TextRows(mixed, GOALS["one"][0], TOKENIZER)


def model_of(task, strategy=None):
    """A model with random weights, the same every time."""
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = tiny.randomized(task.create_model(SMALL))
    return model


@pytest.mark.parametrize(
    "kind", ["several", pytest.param("number", marks=pytest.mark.slow), pytest.param("choice", marks=pytest.mark.slow)]
)
def test_training_learns_in_forty_steps(kind):
    task, strategy = task_of(kind), distribute.create_strategy("one_device")
    model = model_of(task)
    learner = TrainStep(task, model, CONFIG, strategy)
    evaluate = Evaluator(task, model, CONFIG, strategy)
    before = evaluate()
    for batch in task.train_batches(4, 3).take(40):
        learner.step(batch)
    after = evaluate()
    assert after["loss"] < 0.7 * before["loss"]
    assert set(after) >= {"loss", *task.head.score_names}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pair", "number"])
def test_two_replicas_gather_predictions_in_order(kind, strategies):
    task, answers = task_of(kind), []
    for strategy in strategies:
        evaluator = Evaluator(task, model_of(task, strategy), CONFIG, strategy)
        results = evaluator()
        assert evaluator.predictions["dev"]["row_numbers"].tolist() == [1, 2, 3, 4, 5, 6, 7]
        answers.append((results, evaluator.predictions["dev"]))
    (one, first), (two, second) = answers
    for results in (one, two):
        results.pop("spearman", None)  # two texts that are the same differ in the last digit, and so in rank
    assert one == pytest.approx(two, abs=1e-5)
    for name in first:
        np.testing.assert_allclose(first[name], second[name], atol=1e-5)


def test_scores_and_details_cover_the_whole_split():
    goal, answers = GOALS["one"][0], {"logits": np.array([[2.0, 1], [2, 1], [1, 2]]), "row_numbers": np.arange(1, 4)}
    split = task_of("one").split("dev")  # cat, dog, cat, ...
    task = task_of("one", scores=("accuracy", "f1"))
    assert task.scores(answers, "dev") == {"accuracy": pytest.approx(1 / 3), "f1": 0}
    actual = goal.tables(split.labels[:3], goal.predicted(answers))
    assert actual["confusion"] == [[1, 1], [1, 0]]
    assert [(row["label"], row["count"]) for row in actual["per_class"]] == [("cat", 2), ("dog", 1)]
    assert Regression().tables(np.zeros(2), np.ones(2)) == {"values": [[0, 1], [0, 1]]}
    task = task_of("several")
    several, split = task.head.with_calibration({"thresholds": {"fox": 0.25, "mat": 0.75}}), task.split("dev")
    answers = {"logits": np.log([[0.3 / 0.7, 0.7 / 0.3]]), "row_numbers": np.array([1])}
    told = several.training.details(answers, split)
    assert [row["threshold"] for row in told["per_class"]] == [0.25, 0.75] and "confusion" not in told
    assert several.compare(answers, split)[1].tolist() == [[1, 0]]


def test_summary_prints_the_first_of_many_classes():
    row = {"label": "cat", "precision": 1.0, "recall": 1.0, "f1": 1.0, "count": 1}
    lines = task_of("one").head.summary({"per_class": [row] * 10_000})
    assert len(lines) == 41 and lines[-1] == "  and 9,960 more classes, which are in eval_details.json"


def assert_serves(signatures, task, model, split):
    """Asserts that signatures answer strings, and tf.Examples of them, as the model does when it is called."""
    source, examples = task.split(split), task.head.training.serving_examples(task.split(split))
    expected = task.head.predictions(model(task.head.training.inputs(TOKENIZER, tf.constant(source.texts[:8]))))
    named = task.head.names(task.head.predicted({name: value.numpy() for name, value in expected.items()}))
    given = {name: tf.constant(value) for name, value in examples["serving_default"].items()}
    records = tf_examples.serialized(examples["serving_default"])
    for answers in (
        signatures["serving_default"](**given),
        *([signatures["tf_example"](tf.constant(records))] if "tf_example" in signatures else []),
    ):
        for name in expected:
            np.testing.assert_allclose(answers[name], expected[name], atol=1e-5)
        if not isinstance(task.head, Regression):
            assert [name.decode() for name in answers["label"].numpy()] == named


@pytest.mark.parametrize("kind", sorted(set(GOALS) - {"pair"}))
def test_signatures_match_the_model(kind):
    task = task_of(kind)
    model = model_of(task)
    assert_serves(task.signatures(model, TOKENIZER), task, model, "test")


@pytest.mark.slow
def test_export_matches_the_model_also_in_static_shapes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "TOKENIZER", Tokenizer(TOKENIZER.vocabulary))
    task = task_of("pair")
    model, folder = model_of(task), str(tmp_path / "export")
    examples = task.head.training.serving_examples(task.split("test"))
    export(task, model, TOKENIZER, folder, examples=examples, about=task.about())
    signatures = tf.saved_model.load(folder).signatures
    assert "tf_example" in signatures
    assert_serves(signatures, task, model, "test")
    assert formats.read(folder).max_seq_length == (None if task.head.windows else task.head.max_seq_length)
    device_graphs.assert_runs_anywhere(folder)
    monkeypatch.setattr(packing, "static_planner", functools.partial(packing.static_planner, rows=(1, 2)))
    served = Served("pairs", folder, jit_compile="true")  # compiles all shapes
    network = served.signatures["serving_default"].function.__self__.network
    compiled = network._function.experimental_get_tracing_count()
    assert compiled == len(network.planner.shapes()) == 2
    strings = {
        name: np.array([x.encode() for x in values], object) for name, values in examples["serving_default"].items()
    }
    answers = served.signatures["serving_default"](strings)
    for name, expected in signatures["serving_default"](**{n: tf.constant(x) for n, x in strings.items()}).items():
        if expected.dtype != tf.string:
            np.testing.assert_allclose(answers[name], expected, atol=1e-5)
    assert network._function.experimental_get_tracing_count() == compiled, "no request waits for a compiler"


def test_classifier_applies_dropout_to_the_pooled_output_in_training():
    model = tiny.randomized(heads.Classifier(tiny.CONFIG, 3))
    batch = tiny.tensors(tiny.batch())
    pooled = model.encoder(batch)["pooled"]
    expected = tf.matmul(pooled, model.classifier.kernel.value) + model.classifier.bias.value
    np.testing.assert_allclose(model(batch)["logits"], expected, atol=1e-5)
    trained = [model(batch, seed=tf.constant([seed, 1]))["logits"].numpy() for seed in (1, 1, 2)]
    np.testing.assert_array_equal(trained[0], trained[1])
    assert not np.allclose(trained[0], trained[2]) and not np.allclose(trained[0], expected)
    assert model.dropout.rate == 0.1

"""What fine-tuning does around the loop: layers that are frozen, weights of another head, what flags need."""

import dataclasses
import types

import numpy as np
import pytest
import tiny

from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.config.bert_config import BertConfig
from bert_tf.config.sentence_vectors import SentenceVectors, VectorLayer
from bert_tf.config.train_config import AUTO, TrainConfig
from bert_tf.errors import UserError
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.model import heads, weights
from bert_tf.recipes import finetune
from bert_tf.recipes.finetuning import results, starting_point
from bert_tf.recipes.finetuning.planning import RunPlan, Setup
from bert_tf.runtime.json_files import read_json
from bert_tf.training import distribute
from bert_tf.training.run_directory import RunFolder
from bert_tf.training.train_step import TrainStep

CONFIG = TrainConfig(train_batch_size=4, learning_rate=0.05, num_train_steps=9, num_warmup_steps=0)


def options(**changes):
    """The flags of run_classifier.py."""
    return finetune.Flags().replace(**{"init_checkpoint": "there", "keep_best": False, **changes})


def learner(replicas=1, **changes):
    strategy = distribute.create_strategy("auto", num_logical_devices=replicas)
    with strategy.scope():
        return TrainStep(tiny.task(), tiny.pretrainer()[0], dataclasses.replace(CONFIG, **changes), strategy)


def test_frozen_weights_are_unchanged_without_slots_and_saved():
    ours = learner(num_frozen_layers=1)
    before = {name: variable.numpy() for name, variable in ours.variables.items()}
    for seed in range(2):
        ours.step(tiny.tensors(tiny.batch(seed=seed)))
    frozen = [name for name in before if name.startswith(("encoder/embeddings/", "encoder/layers/0/"))]
    changed = [name for name, variable in ours.variables.items() if not np.array_equal(variable.numpy(), before[name])]
    assert changed == [name for name in before if name not in frozen]
    assert len(ours.optimizer.m) == len(ours.optimizer.v) == len(before) - len(frozen)
    assert ours.state()["weights"].keys() == before.keys()


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"num_frozen_layers": -1}, "num_frozen_layers is -1; expected 0 or more"),
        ({"eval_steps": -1}, "eval_steps is -1; expected 0 or more"),
        ({"early_stop_patience": -2}, "early_stop_patience is -2; expected 0 or more"),
        ({"layerwise_learning_rate_decay": 0.0}, "layerwise_learning_rate_decay is 0.0; expected more than 0, up to 1"),
        ({"learning_rate": 0.0, "head_learning_rate": 1.0}, "head_learning_rate needs a learning_rate above 0"),
        ({"head_learning_rate": -2.0}, "head_learning_rate is -2.0; expected 0 or more"),
        ({"layerwise_learning_rate_decay": 1.5}, "expected more than 0, up to 1"),
    ],
)
def test_invalid_numbers_are_refused(changes, expected):
    with pytest.raises(UserError, match=expected):
        options(**changes).train_config(100).check()


def test_few_examples_use_bias_correction_and_say_so(capsys):
    few, many = (options().train_config(examples) for examples in (9_999, 10_000))
    assert (few.optimizer, many.optimizer) == ("adamw_corrected", "adamw")
    finetune.announce(options(), few)
    finetune.announce(options(), many)
    finetune.announce(options(start="frozen"), few)
    assert capsys.readouterr().out.splitlines() == [
        "Training on 9,999 examples, 3 epochs, 937 steps, adamw_corrected "
        "(Adam with bias correction for fewer than 10,000 examples)",
        "Training on 10,000 examples, 3 epochs, 937 steps, adamw",
        "The head is fitted to the embeddings of 9,999 examples.",
    ]


@pytest.mark.parametrize(
    "given, examples, rate, expected",
    [
        ({}, 9_999, 1e-3, 1e-3),
        ({"learning_rate": 1e-3}, 9_999, 1e-3, 0),
        ({}, 10_000, 1e-3, 0),
        ({}, 9_999, 0.0, 0),
        ({"head_learning_rate": 0.0}, 9_999, 1e-3, 0),
        ({"head_learning_rate": 0.5}, 10_000, 0.0, 0.5),
    ],
)
def test_a_new_head_learns_faster_from_few_examples(given, examples, rate, expected, capsys):
    given = options(**{"head_learning_rate": AUTO, **given})
    config = given.train_config(examples, new_head_rate=rate)
    assert config.head_learning_rate == expected
    finetune.announce(given, config)
    assert ("; learning rate of the head" in capsys.readouterr().out) is (expected != 0)


@pytest.mark.parametrize("given, factor", [({}, 1), ({"head_learning_rate": 0.2}, 4), ({"learning_rate": 0.0}, 1)])
def test_head_has_its_own_learning_rate(given, factor):
    strategy = distribute.create_strategy("one_device")
    config = dataclasses.replace(CONFIG, **given)  # its learning rate is 0.05
    factors = TrainStep(tiny.task(), heads.SpanFinder(tiny.CONFIG), config, strategy).optimizer.factors
    rates = {name: factor for name, factor in factors.items() if factor != 1}
    assert rates == ({} if factor == 1 else dict.fromkeys(["span/kernel", "span/bias"], pytest.approx(factor)))


def task_with(splits=types.MappingProxyType({}), **attributes):
    """A task with these attributes of its head, and these splits."""
    head = types.SimpleNamespace(**attributes)
    return types.SimpleNamespace(head=head, split=splits.get, criterion="", eval_splits={}, test_splits=())


def test_head_is_new_where_an_encoder_has_none_of_that_size():
    def is_new(arrays, size=2):
        start = Checkpoint(config=tiny.CONFIG, vocabulary=None, lower_case=True, weights=arrays)
        head = {"weights": "classifier", "size": size, "training": types.SimpleNamespace(new_head_rate=0.5)}
        task = task_with(**head, splits={"train": types.SimpleNamespace(is_known=True, count=100)})
        plan = RunPlan(name="", options=options(head_learning_rate=AUTO), setup=Setup(start, task))
        assert plan.has_new_head or plan.training.head_learning_rate == 0
        return plan.training.head_learning_rate == 0.5

    encoder = {"encoder/pooler/kernel": np.zeros([4, 4])}
    assert is_new(encoder) and is_new(encoder | {"classifier/kernel": np.zeros([4, 3])})
    assert not is_new(encoder | {"classifier/kernel": np.zeros([4, 2])})
    assert not is_new({}) and not is_new(encoder, size=0)


@pytest.mark.parametrize(
    "recorded, flags, arrays, expected",
    [
        ("mean", {}, {}, "mean"),
        ("mean", {"pooling": "cls"}, {}, "cls"),
        ("mean", {"lora_rank": 2}, {}, "cls"),
        ("mean", {}, {"classifier/kernel": np.zeros([4, 2])}, "cls"),  # a classifier goes on as it is
        ("cls", {}, {}, "cls"),
        ("cls", {"pooling": "mean"}, {}, "mean"),
        (None, {}, {}, "cls"),
    ],
)
def test_head_pools_as_the_checkpoint_was_trained_to(recorded, flags, arrays, expected):
    vectors = SentenceVectors(recorded) if recorded else None
    start = Checkpoint(config=tiny.CONFIG, weights=arrays, sentence_vectors=vectors)
    task = types.SimpleNamespace(head=Classes(["no", "yes"]))
    assert starting_point.with_pooling(options(**flags), start, task).config.pooling == expected
    with pytest.raises(UserError, match="lora_rank .* .CLS., .*: pass pooling=cls"):
        starting_point.with_pooling(options(lora_rank=2, pooling="mean"), start, task)


def task(known=True, **changes):
    split = types.SimpleNamespace(is_known=known)
    values = {"name": "glue/ax", "criterion": "accuracy", "eval_splits": {"": "dev"}, "split": lambda name: split}
    return types.SimpleNamespace(**{**values, **changes})


@pytest.mark.parametrize(
    "flags, splits, several, expected",
    [
        ({"eval_steps": 5, "do_eval": False}, {}, False, "eval_steps requires .* but do_eval is off"),
        ({"keep_best": True}, {"criterion": ""}, False, "keep_best requires .* but glue/ax has none"),
        ({"early_stop_patience": 2}, {"known": False}, False, "requires labels in the development set"),
        ({"do_eval": False}, {}, True, "num_seeds or a grid requires .* but do_eval is off"),
        ({"do_train": False}, {}, True, "num_seeds and grids need training"),
    ],
)
def test_missing_evaluation_data_is_refused(flags, splits, several, expected):
    given = dataclasses.replace(options(**flags), given=frozenset(flags))
    with pytest.raises(UserError, match=expected):
        starting_point.check_evaluation(given, task(**splits), several=several)


def test_nothing_is_required_if_nothing_is_requested():
    starting_point.check_evaluation(options(do_eval=False), task(criterion=""), several=False)


def classifier(size):
    return heads.Classifier(tiny.CONFIG, size=size)


def start_of(model, without=()):
    arrays = {name: value for name, value in tiny.random_weights(model).items() if not name.startswith(without or "-")}
    return Checkpoint(config=tiny.CONFIG, vocabulary=None, lower_case=True, weights=arrays)


def test_head_of_another_size_is_reinitialized_and_reported(capsys):
    model, start = classifier(3), start_of(classifier(2))
    head = weights.variables(model)["classifier/kernel"].numpy()
    starting_point.assign_weights(model, start, options())
    stdout = capsys.readouterr().out
    assert "2 mismatched" in stdout
    assert "there was fine-tuned for a different task (classifier/kernel is (16, 2) there, (16, 3) here; " in stdout
    assert np.array_equal(weights.variables(model)["classifier/kernel"].numpy(), head)


@pytest.mark.parametrize(
    "without, expected",
    [((), r"classifier/kernel is \(16, 2\) there, \(16, 3\) here"), (("classifier",), "it has no ")],
)
def test_another_head_is_refused_without_training(without, expected):
    with pytest.raises(UserError, match=expected) as error:
        starting_point.assign_weights(classifier(3), start_of(classifier(2), without), options(do_train=False))
    assert error.value.exit_code == 2


def test_span_head_is_required_but_no_pooler(capsys):
    model = heads.SpanFinder(tiny.CONFIG)
    starting_point.assign_weights(model, start_of(model, ("encoder/pooler",)), options(do_train=False))
    assert "2 newly initialized" in capsys.readouterr().out
    with pytest.raises(UserError, match="it has no span/kernel"):
        starting_point.assign_weights(model, start_of(model, ("encoder/pooler", "span")), options(do_train=False))


def headed(labels, size=2):
    arrays = {"classifier/kernel": np.arange(16.0 * size).reshape(16, size), "classifier/bias": np.arange(float(size))}
    return Checkpoint(config=tiny.CONFIG, vocabulary=None, lower_case=True, weights=arrays, labels=labels)


YES_NO = task_with(labels=("no", "yes"), weights="classifier", size=2)


def test_head_with_reordered_labels_is_reordered():
    start = starting_point.match_head(options(do_train=False), headed(["YES", "no"]), YES_NO)
    assert start.weights["classifier/bias"].tolist() == [1, 0]
    assert start.weights["classifier/kernel"][0].tolist() == [1, 0]
    assert start.labels == ["no", "yes"]


@pytest.mark.parametrize("labels", [["no", "yes"], None, ["LABEL_0", "LABEL_1"]])
def test_head_without_label_names_is_used(labels):
    start = headed(labels)
    assert starting_point.match_head(options(do_train=False), start, YES_NO) is start


@pytest.mark.parametrize(
    "start, message",
    [
        (headed(["cat", "dog"]), "its labels are cat, dog, not no, yes"),
        (headed(["a", "b", "c"], 3), r"its head is \(16, 3\), expected \(16, 2\)"),
        (dataclasses.replace(headed(None), weights={"encoder/x": np.zeros(1)}), "it has no classifier/kernel"),
    ],
)
def test_head_of_another_task_is_refused_without_training(start, message):
    with pytest.raises(UserError, match=message):
        starting_point.match_head(options(do_train=False), start, YES_NO)
    assert starting_point.match_head(options(), start, YES_NO) is start


def test_memory_estimate_counts_choices_and_frozen_layers(with_gpus, with_memory):
    with_gpus()
    with_memory(2**34)
    start = Checkpoint(config=BertConfig.of_size("base", vocab_size=30522), vocabulary=None, lower_case=True)
    flags = options(train_batch_size=64, precision="float32")

    def check(given, rows_per_example):
        task = task_with(rows_per_example=rows_per_example)
        starting_point.checked_step(given, start, task)

    check(flags, 1)
    with pytest.raises(UserError, match="train_batch_size 64 .* and this machine has 16.0 GiB"):
        check(flags, 4)
    check(options(train_batch_size=64, num_frozen_layers=12), 4)
    with pytest.raises(UserError, match="num_frozen_layers is 13, but the model has 12 layers"):
        check(options(num_frozen_layers=13), 4)


def test_collapsed_run_is_reported_and_recorded(tmp_path, caplog):
    folder = RunFolder(str(tmp_path))
    folder.open(name="tiny", flags={}, decisive={})
    results.warn_of_collapse(None, folder, "")
    assert caplog.text == "" and read_json(tmp_path / "run.json")["collapsed"] is None
    results.warn_of_collapse("all 3 predictions are the same", folder, MultiLabel.wording().balancing)
    assert f"{tmp_path} has collapsed: on the development set all 3 predictions are the same." in caplog.text
    assert "uneven size --pos_weight=balanced" in caplog.text
    assert read_json(tmp_path / "run.json")["collapsed"] == "all 3 predictions are the same"


def vector_flags(task_name="pairs", **changes):
    return options(task_name=task_name, **changes)


def making(vectors):
    return Checkpoint(config=tiny.CONFIG, vocabulary=None, lower_case=True, sentence_vectors=vectors)


def test_training_pools_as_the_checkpoint_or_the_flags_say(capsys):
    chosen = starting_point._with_recorded_pooling(vector_flags(), making(SentenceVectors("max", False)))
    assert (chosen.pooling, chosen.normalize_vectors) == ("max", "false")
    assert capsys.readouterr().out == ""
    prompts = SentenceVectors("mean", True, prompts={"query": "q "}, unsupported="the module LSTM")
    chosen = starting_point._with_recorded_pooling(vector_flags(pooling="cls"), making(prompts))
    assert (chosen.pooling, chosen.normalize_vectors) == ("cls", "true")
    assert "ignore the prompts and truncate_dim of there" in capsys.readouterr().out


@pytest.mark.parametrize(
    "vectors, message",
    [
        (
            SentenceVectors("mean+max"),
            r"uses the pooling mean\+max; training supports one pooling of .* Pass --pooling",
        ),
        (SentenceVectors("cls", layers=(VectorLayer("dense"),)), "uses the pooling cls, then dense; training supports"),
        (SentenceVectors(unsupported="the module LSTM"), "uses the module LSTM for embeddings"),
    ],
)
def test_vectors_that_training_does_not_have_are_refused_for_vectors_alone(vectors, message):
    with pytest.raises(UserError, match=message):
        starting_point._with_recorded_pooling(vector_flags(), making(vectors))
    classes = vector_flags(task_name="sst2")
    assert starting_point._with_recorded_pooling(classes, making(vectors)) == classes

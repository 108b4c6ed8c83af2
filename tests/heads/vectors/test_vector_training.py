"""Trained sentence vectors: losses and ranks against plain NumPy, micro-batches and replicas against one batch."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
import quick_exports
import tensorflow as tf
import tiny
from training_steps import CONFIG, ONE_LAYER

from bert_tf.config.bert_config import POOLINGS
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.data.examples import Example
from bert_tf.errors import UserError
from bert_tf.heads.vectors import features, vector_losses
from bert_tf.heads.vectors.goals import Positives, Similarities, TwoDropouts
from bert_tf.model import weights
from bert_tf.model.sentence_encoder import pool_tokens
from bert_tf.recipes.finetuning import scored_export
from bert_tf.tasks.catalog import vectors as catalog
from bert_tf.tasks.task import FineTuningTask
from bert_tf.training import distribute
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.train_step import TrainStep

MEAN = SentenceVectors("mean", True)
WORDS = "red green blue black white one two three four five six seven eight".split()
COLORS, NUMBERS = WORDS[:5], WORDS[5:]


def units(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_in_batch_loss_is_the_cross_entropy_among_all_candidates():
    vectors, weights = random(4, 3, 6), np.array([1, 1, 1, 0], np.float32)
    keys = np.arange(12).reshape(4, 3)
    keys[2, 1] = keys[0, 1]  # row 0 and row 2 have the same positive: neither is a negative of the other
    x = units(vectors)
    candidates = np.concatenate([x[:, 1], x[:, 2]])
    expected = []
    for row in range(3):
        allowed = [c for c in range(8) if c % 4 != 3 and (c == row or keys[c % 4, 1 + c // 4] != keys[row, 1])]
        scores = 20 * candidates[allowed] @ x[row, 0]
        expected.append(np.log(np.exp(scores).sum()) - 20 * candidates[row] @ x[row, 0])
    losses, correct = vector_losses.in_batch_negatives(tf.constant(vectors), tf.constant(keys), weights, 20.0)
    np.testing.assert_allclose(losses[:3], expected, rtol=1e-5)
    nearest = [np.argmax([c @ x[row, 0] for c in candidates[[0, 1, 2, 4, 5, 6]]]) for row in range(3)]
    assert [bool(value) for value in correct[:3]] == [best == row for row, best in enumerate(nearest)]


def test_cosent_sums_over_all_pairs_in_wrong_order():
    found, labels, weights = random(5), np.array([1, 3, 3, 0, 2], np.float32), np.array([1, 1, 1, 1, 0], np.float32)
    terms = [
        np.exp(20 * (found[i] - found[j])) for i in range(4) for j in range(4) if labels[i] < labels[j]
    ]  # the last row only pads
    np.testing.assert_allclose(vector_losses.cosent(found, labels, weights, 20.0), np.log(1 + sum(terms)), rtol=1e-5)


@pytest.mark.parametrize("goal, expected", [(Positives(MEAN), 33.523323), (Similarities(MEAN), 45.635826)])
def test_matryoshka_losses_are_those_of_sentence_transformers(goal, expected):
    """MatryoshkaLoss of version 6.2 around MultipleNegativesRankingLoss and CoSENTLoss; others are of the largest."""
    vectors, labels = random(6, 2, 12), np.array([0.1, 0.5, 0.5, 0.9, 0.2, 0.7], np.float32)
    batch = {"text_keys": np.arange(12).reshape(6, 2), "row_weights": tf.ones(6), "labels": tf.constant(labels)}
    whole = goal.metrics({"vectors": tf.constant(vectors)}, batch)
    goal.sizes = (12, 8, 3)
    found = goal.metrics({"vectors": tf.constant(vectors)}, batch)
    assert np.mean(found[goal.loss_name][0]) == pytest.approx(expected, rel=1e-5)
    assert all(np.all(found[name][0] == value) for name, (value, _) in whole.items() if name != goal.loss_name)
    split = SimpleNamespace(labels=labels, texts=np.arange(12).reshape(6, 2).astype(str))
    scores = goal.configured(max_seq_length=8).scores({"vectors": vectors, "row_numbers": np.arange(6)}, split)
    assert {name.rpartition("_")[2] for name in scores if name not in goal.score_names} >= {"8", "3"}


def test_pairs_of_one_class_count_as_much_as_others():
    vectors, labels = random(5, 6), np.array([0, 1, 0, 1, 1])
    x, weights = units(vectors), tf.constant([1.0, 1, 1, 1, 0])
    cosines = {(i, j): x[i] @ x[j] for i in range(4) for j in range(i)}  # the last row only pads
    same = [(1 - value) ** 2 for (i, j), value in cosines.items() if labels[i] == labels[j]]
    other = [value**2 for (i, j), value in cosines.items() if labels[i] != labels[j]]
    found = vector_losses.same_class(tf.constant(vectors), tf.constant(labels), weights)
    np.testing.assert_allclose(found, (np.mean(same) + np.mean(other)) / 2, rtol=1e-5)
    alone = vector_losses.same_class(tf.constant(vectors), tf.zeros(5, tf.int32), weights * [1, 1, 0, 0, 0])
    np.testing.assert_allclose(alone, (1 - cosines[1, 0]) ** 2 / 2, rtol=1e-5)


def test_ranks_count_different_texts_once():
    anchors = np.eye(3, dtype=np.float32)
    positives = np.array([[0.9, 0.1, 0], [0.9, 0.1, 0], [0, 0, 1]], np.float32)
    texts = np.array([["a", "same"], ["b", "same"], ["c", "other"]], object)
    found = vector_losses.ranks(np.stack([anchors, positives], 1), texts)
    assert found.tolist() == [1, 1, 1]
    texts[1, 1] = "another"  # as near as the positive of the first: it ranks before it
    assert vector_losses.ranks(np.stack([anchors, positives], 1), texts).tolist() == [2, 2, 1]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_is_that_of_extracted_vectors(pooling):
    tokens, lengths = tf.constant(random(3, 5, 4)), tf.constant([5, 2, 3])
    ragged = tf.RaggedTensor.from_tensor(tokens, lengths)
    texts = tf.cast(ragged.value_rowids(), tf.int32)
    expected = features.text_vectors(ragged.values[:, None], texts, 3, pooling)[:, 0]
    np.testing.assert_allclose(pool_tokens(tokens, lengths, pooling), expected, rtol=1e-5)


def pairs(count=16, seed=0):
    """Texts of three words; those that belong together are of the same kind."""
    rng = np.random.default_rng(seed)
    kinds = [COLORS, NUMBERS]
    return [
        Example(str(n), tuple(" ".join(rng.choice(kinds[n % 2], 3)) for _ in range(2)), str(n % 3))
        for n in range(count)
    ]


def task(goal=None, rows=None):
    rows = rows or pairs()
    config = dataclasses.replace(ONE_LAYER, vocab_size=5 + len(WORDS))
    splits = {"train": lambda: rows, "dev": lambda: rows}
    head = (goal or Positives(MEAN)).configured(max_seq_length=8)
    return FineTuningTask("vectors/pairs", splits, head, tiny.Words(WORDS)), config


def step_of(ours, config, *, replicas=1, parts=1, size=8, **options):
    strategy = distribute.create_strategy("auto", num_logical_devices=replicas)
    settings = dataclasses.replace(CONFIG, train_batch_size=size, num_accumulation_steps=parts, **options)
    with strategy.scope():
        model = tiny.randomized(ours.create_model(config))
        return TrainStep(ours, model, settings, strategy), model


def after_a_step(ours, config, **options):
    """Loss and norm of the gradient of one step on the same rows, and the weights after it."""
    train_step, model = step_of(ours, config, **options)
    result = train_step.step(next(iter(ours.train_batches(8, 3))))
    loss, weight = result["metrics"][ours.head.loss_name].numpy()
    return [loss / weight, result["gradient_norm"]], {
        name: v.numpy() for name, v in weights.variables_by_name(model).items()
    }


def check_same(found, expected):
    (numbers, arrays), (expected_numbers, expected_arrays) = found, expected
    np.testing.assert_allclose(numbers, expected_numbers, rtol=1e-4)
    for name, array in expected_arrays.items():
        np.testing.assert_allclose(arrays[name], array, atol=1e-3, err_msg=name)


@pytest.mark.eager
@pytest.mark.parametrize(
    "goal", [Positives(MEAN), pytest.param(Similarities(MEAN), marks=pytest.mark.slow)], ids=["in_batch", "cosent"]
)
def test_micro_batches_see_the_negatives_of_the_whole_batch(goal):
    check_same(after_a_step(*task(goal), parts=2), after_a_step(*task(goal)))


@pytest.mark.slow
def test_replicas_see_the_negatives_of_the_whole_batch():
    check_same(after_a_step(*task(), parts=2, replicas=2), after_a_step(*task()))


def test_cached_gradients_have_the_same_dropout():
    ours, config = task()
    config = dataclasses.replace(config, hidden_dropout_prob=0.5)
    train_step, model = step_of(ours, config, parts=2)
    batch, seed = next(iter(ours.train_batches(8, 3))), tf.constant([1, 2])
    first = {name: x[:4] for name, x in batch.items()}
    encoded = [train_step._forward(first, seed) for _ in range(2)]
    np.testing.assert_array_equal(*encoded)
    assert np.abs(encoded[0] - train_step._forward(first, tf.constant([1, 3]))).max() > 0.01


@pytest.mark.slow
@pytest.mark.eager
def test_it_learns_which_texts_belong_together_and_to_say_so_with_two_numbers():
    rows = [Example(str(n), (word, f"{word} {word}")) for n, word in enumerate(WORDS[:8])]
    goal = Positives(MEAN)
    goal.sizes = (16, 4, 2)
    ours, config = task(goal, rows)
    train_step, model = step_of(ours, config, parts=2, learning_rate=0.02)
    evaluator = Evaluator(ours, model, train_step.config, train_step.strategy)
    batches = iter(ours.train_batches(8, 3))
    before = evaluator()["mrr"]
    for _ in range(16):
        train_step.step(next(batches))
    after = evaluator()
    assert min(after["mrr"], after["mrr_2"]) > max(before, 0.95)
    assert after["recall_at_10"] == 1.0
    assert ours.head.collapse(evaluator.predictions["dev"], ours.split("dev")) is None


def test_scores_of_similarities_are_correlations():
    ours, _ = task(Similarities(MEAN))
    vectors = np.stack([random(16, 4), random(16, 4, seed=1)], 1)
    predictions = {"vectors": vectors, "row_numbers": np.arange(1, 17)}
    labels, cosines = ours.head.compare(predictions, ours.split("dev"))
    np.testing.assert_allclose(cosines, (units(vectors[:, 0]) * units(vectors[:, 1])).sum(-1), rtol=1e-5)
    assert labels.tolist() == [n % 3 for n in range(16)]
    assert list(ours.scores(predictions, "dev")) == ["spearman", "pearson"]
    assert ours.head.collapse({"vectors": np.ones_like(vectors)}, None) == "the vectors of all 16 texts are the same"


@pytest.mark.parametrize(("task_name", "expected"), [("vectors/pairs", "mrr"), ("vectors/sts", "spearman")])
def test_export_is_scored_on_a_file(task_name, expected, tmp_path):
    def vectors(text):  # texts of one length are the same
        return {"vectors": tf.one_hot(tf.strings.length(text) % 7, 7)}

    export = quick_exports.saved(tmp_path, vectors, ("text", tf.string, []), labels=())
    reads = {"text_columns": "a,b", "label_column": "score"}
    about = {"task": task_name, "kind": "vectors", "reads": reads}
    rows = [("x", "y", 5), ("xx", "yyy", 0), ("xxxx", "yyyy", 4)]
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps(dict(zip(("a", "b", "score"), row, strict=True))) + "\n" for row in rows))
    scored = scored_export.score(str(export), str(table), about, batch_size=2, report=iter)
    assert scored.examples == 3
    assert scored.scores[expected] == pytest.approx({"mrr": (1 + 1 / 3 + 1) / 3, "spearman": 0.866}[expected], abs=1e-3)


def test_simcse_learns_from_texts_and_is_scored_on_pairs():
    goal = TwoDropouts(MEAN)
    alone = [Example("0", ("red", "red")), Example("1", ("blue", "blue"))]
    assert goal.encode(alone).tolist() == [0, 0]
    assert goal.encode(pairs(3)).tolist() == [0, 1, 2]
    ours, config = task(goal, alone * 4)
    config = dataclasses.replace(config, hidden_dropout_prob=0.3)
    train_step, _ = step_of(ours, config)
    vectors = train_step._forward(next(iter(ours.train_batches(8, 3))), tf.constant([1, 2])).numpy()
    assert np.abs(vectors[:, 0] - vectors[:, 1]).max() > 0.01  # equal texts, different masks


def test_sizes_of_truncated_vectors_are_checked():
    with pytest.raises(UserError, match="matryoshka_dims is '8,x'; expected whole numbers"):
        catalog._sizes("8,x")
    goal = Positives(MEAN)
    goal.sizes = catalog._sizes("8, 4096,16")
    ours, config = task(goal)
    with pytest.raises(UserError, match="matryoshka_dims has 4096, but vectors have"):
        ours.create_model(config)


def test_first_token_of_a_left_to_right_model_is_refused():
    ours, config = task(Positives(SentenceVectors("cls", True)))
    with pytest.raises(UserError, match="sees no other token"):
        ours.create_model(dataclasses.replace(config, is_causal=True))

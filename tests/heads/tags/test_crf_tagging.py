"""Tags as a chain: learned on rows, decoded over sentences, the same on replicas, in exports and other formats."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf
from tagging_cases import CONFIG, FILE, TAG_SET, TOKENIZER, model_of, task_of

from bert_tf.checkpoints import formats, pretrained
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.data import tag_schemes
from bert_tf.data.tag_schemes import TagSet
from bert_tf.model import crf, functional_bert, weights
from bert_tf.recipes.finetuning import starting_point
from bert_tf.training import distribute, learning_rates
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.train_step import TrainStep


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    path = tmp_path_factory.mktemp("crf") / "some.txt"
    path.write_text(FILE)
    return task_of(str(path), crf=True)


@pytest.fixture(scope="module")
def evaluated(task):
    """A model of random weights and its predictions for the development set."""
    strategy = distribute.create_strategy("one_device")
    model = model_of(task, strategy)
    evaluator = Evaluator(task, model, CONFIG, strategy)
    return model, evaluator(), evaluator.predictions["dev"]


def test_legal_transitions_are_those_that_the_scheme_writes():
    iob2 = np.array(TAG_SET.legal_transitions())  # O B-LOC I-LOC B-PER I-PER, the start, the end
    assert iob2[:, 2].tolist() == [False, True, True, False, False, False, True] and iob2[:, [0, 1, 3]].all()
    labels = ("O", "B-X", "I-X", "E-X", "S-X")
    bioes = np.array(TagSet(labels, "bioes").legal_transitions())
    assert bioes.astype(int).tolist() == [
        [1, 1, 0, 0, 1],
        [0, 0, 1, 1, 0],
        [0, 0, 1, 1, 0],
        [1, 1, 0, 0, 1],
        [1, 1, 0, 0, 1],
        [1, 1, 0, 0, 1],
        [1, 0, 0, 1, 1],
    ]
    assert np.array(TagSet(("DT", "NN"), "plain").legal_transitions()).all()


def sentence_logits(predictions, split):
    """The logits of the words with tokens of each sentence, wherever their rows are."""
    has_token = split.rows >= 0
    logits = predictions["logits"][split.rows[has_token], split.positions[has_token]]
    return [logits[split.owners[has_token] == number] for number in range(len(split.sentences))]


def test_rows_are_parts_of_sentences_and_losses_run_from_word_to_word(task, evaluated):
    split, (model, results, predictions) = task.split("dev"), evaluated
    assert split.begins.tolist() == [True, True, True, False, False, False, True]
    assert split.ends.tolist() == [True, True, False, False, False, True, True]
    loss, potentials = 0.0, model.crf.potentials.value
    for row in range(split.count):  # words of the best window of each
        words = (split.rows == row) & (split.positions >= 0)
        labels, emissions = split.word_labels[words][None], predictions["logits"][row][split.positions[words]][None]
        edges = [tf.constant([split.begins[row]]), tf.constant([split.ends[row]])]
        loss -= float(crf.log_likelihood(emissions, labels, np.int32([words.sum()]), potentials, *edges)[0])
    assert results["loss"] == pytest.approx(loss / (split.rows >= 0).sum(), rel=1e-5)
    assert 0 < results["accuracy"] < 1


def test_sentences_are_decoded_whole_and_as_the_scheme_writes(task, evaluated):
    split, (model, _, predictions) = task.split("dev"), evaluated
    labels, scores = task.head.word_predictions(predictions, task.split("dev"))
    legal = model.crf.potentials.value + np.where(TAG_SET.legal_transitions(), 0, -1e4)
    for number, logits in enumerate(sentence_logits(predictions, split)):
        has_token = split.positions[split.owners == number] >= 0
        length = np.int32([len(logits)])
        if not length:
            assert not labels[number].any()
            continue
        best = crf.viterbi(logits[None], length, tf.cast(legal, tf.float32))[0].numpy()
        assert labels[number][has_token].tolist() == best.tolist() and (labels[number][~has_token] == 0).all()
        marginals = crf.marginals(logits[None], length, tf.cast(legal, tf.float32))[0].numpy()
        np.testing.assert_allclose(scores[number][has_token], marginals[range(len(best)), best], atol=1e-5)
        tags = [TAG_SET.labels[each] for each in best]
        assert tag_schemes.spans_to_tags(tag_schemes.tags_to_spans(tags), len(tags)) == tags, "legal"
    part = {name: x[:4] for name, x in predictions.items()}
    assert [x.tolist() for x in task.head.word_predictions(part, task.split("dev"))[0]] == [
        x.tolist() for x in labels[:2]
    ]


@pytest.mark.slow
def test_replicas_learn_what_one_device_does(task):
    taught = []
    for kind, devices in (("one_device", 1), ("mirrored", 2)):
        scope = distribute.create_strategy(kind, num_logical_devices=devices)
        with scope.scope():
            model = model_of(task, scope)
            model.dropout.rate = 0.0  # of which every replica draws its own
            step = TrainStep(task, model, CONFIG, scope)
        for batch in task.train_batches(4, 3).take(1):
            step.step(batch)
        taught.append({name: x.numpy() for name, x in weights.variables(model).items()})
    assert "crf/potentials" in taught[0]
    for name, value in taught[0].items():
        np.testing.assert_allclose(taught[1][name], value, atol=1e-4, err_msg=name)


def test_potentials_have_a_rate_of_their_own(evaluated):
    factors = learning_rates.layer_factors(weights.variables(evaluated[0]), 0.5)
    assert (factors["crf/potentials"], factors["classifier/kernel"]) == (learning_rates.CRF_RATE_FACTOR, 1.0)


def test_signatures_decode_like_file_prediction_whatever_shares_a_row(task, evaluated):
    model, _, predictions = evaluated
    (words,) = task.head.training.serving_examples(task.split("dev"))["words"].values()
    labels, scores = task.head.word_predictions(predictions, task.split("dev"))
    signature = task.signatures(model, TOKENIZER)["words"]
    served = signature(words=tf.constant(words))
    for row, (numbers, own) in enumerate(zip(labels, scores, strict=True)):
        tags = [tag.decode() for tag in served["tags"][row].numpy()]
        assert tags[: len(numbers)] == [TAG_SET.labels[number] for number in numbers]
        np.testing.assert_allclose(served["scores"][row, : len(own)], own, atol=1e-5)
    alone = [signature(words=tf.constant([row]))["scores"] for row in words]
    np.testing.assert_allclose(np.concatenate(alone), served["scores"], atol=1e-5)
    assert signature(words=tf.constant([["\u200b", ""]]))["tags"].numpy().tolist() == [[b"O", b""]]


def test_other_formats_and_labels_in_another_order_keep_the_chain(task, evaluated, tmp_path):
    config, arrays = evaluated[0].config, {name: x.numpy() for name, x in weights.variables(evaluated[0]).items()}
    checkpoint = Checkpoint(config=config, weights=arrays, labels=list(TAG_SET.labels), kind="tags")
    written = dataclasses.replace(checkpoint, vocabulary=TOKENIZER.vocabulary)
    for name in ("huggingface", "google_tf"):
        assert formats.write(written, str(tmp_path / name), name) == []
        again = formats.read(str(tmp_path / name))
        np.testing.assert_array_equal(again.weights["crf/potentials"], arrays["crf/potentials"])
        assert again.kind == "tags" and pretrained.model_of(again).crf is not None
    live = functional_bert.CheckpointModel(checkpoint, functional_bert.TOKENS)
    inputs = {name: np.ones((1, 3), np.int32) for name in ("token_ids", "segment_ids")}
    outputs = live({**inputs, "lengths": np.int32([3])})
    np.testing.assert_array_equal(outputs["potentials"][0], arrays["crf/potentials"])
    start = types.SimpleNamespace(weights=arrays, labels=list(TAG_SET.labels), config=config)
    order = [0, 3, 4, 1, 2]
    other = types.SimpleNamespace(labels=[TAG_SET.labels[i] for i in order], weights="classifier", size=5)
    other = types.SimpleNamespace(head=other)
    start = dataclasses.make_dataclass("Start", vars(start))(**vars(start))
    moved = starting_point.match_head(types.SimpleNamespace(do_train=True), start, other).weights["crf/potentials"]
    np.testing.assert_array_equal(moved[1, 2], arrays["crf/potentials"][3, 4])
    np.testing.assert_array_equal(moved[5:], arrays["crf/potentials"][5:, order])

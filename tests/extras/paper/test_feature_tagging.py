"""Tagging with the vectors of a frozen encoder: cached vectors, a BiLSTM trained on them, exact resuming."""

import dataclasses
import json
import os
import types

import device_graphs
import faults
import numpy as np
import oracle
import pytest
import tensorflow as tf
import tiny
from training_steps import values_of

from bert_tf.config.train_config import TrainConfig
from bert_tf.data import conll_files
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError
from bert_tf.export.saved_model import export
from bert_tf.extras.paper import feature_cache
from bert_tf.extras.paper.bilstm_tagger import BiLstmTagger, ScalarMix
from bert_tf.extras.paper.feature_tagging import FeatureTagging
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.model import weights
from bert_tf.tasks import catalog
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import distribute
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.train_step import TrainStep

PIECES = [*tiny.SPECIAL, *"abcdefghijklm", *(f"##{letter}" for letter in "abcdefghijkl")]
TOKENIZER = Tokenizer(PIECES)
FOUR_LAYERS = dataclasses.replace(tiny.CONFIG, num_hidden_layers=4)
TAGS = TagSet.of_types({"X"}, "iob2")
FILE = "ab B-X\nc O\n\u200b O\nd B-X\nca I-X\n\na O\n\nd B-X\nc O\na O\n\na O\nb O\nc O\nd B-X\na I-X\nb O\nc O\n"
CONFIG = TrainConfig(
    train_batch_size=4, eval_batch_size=3, learning_rate=0.03, num_train_steps=40, num_warmup_steps=0, max_eval_steps=9
)


def model_of(task, seed=0):
    """The task's model with an encoder of random weights, always the same."""
    model = task.create_model(FOUR_LAYERS)
    arrays = tiny.random_weights(model.encoder, seed)
    weights.assign(model, {f"encoder/{name}": array for name, array in arrays.items()})
    return model, arrays


def maker(folder):
    """make(feature_layers) -> the task on FILE, its vectors in a folder of the test."""
    (folder / "train.txt").write_text(FILE, encoding="utf-8")
    windows = TagWindows(max_seq_length=8, stride=3)

    def make(feature_layers):
        layout = conll_files.ColumnLayout()
        files = {name: lambda: conll_files.ConllFile(str(folder / "train.txt"), layout) for name in SPLITS}
        cache = {"lstm_size": 8, "folder": str(folder / "features")}
        return FineTuningTask(
            "tiny", files, FeatureTagging(TAGS, windows, feature_layers=feature_layers, **cache), TOKENIZER
        )

    return make


@pytest.fixture
def make(tmp_path):
    return maker(tmp_path)


SPLITS = ("train", "dev")


def test_batch_has_reference_vectors_of_first_tokens_and_zero_padding(make):
    task = make("concat_last_four")
    _, arrays = model_of(task)
    first, second = task.eval_batches(3, "dev")
    assert first["vectors"].shape == (3, 7, 4, 16) and first["lengths"].numpy().tolist() == [5, 1, 3]
    assert first["labels"].numpy().tolist() == [[1, 0, -1, 1, 2, -1, -1], [0] + [-1] * 6, [1, 0, 0] + [-1] * 4]
    assert second["row_numbers"].numpy().tolist() == [4, 0, 0] and not second["lengths"][1:].numpy().any()
    # The first sentence is ab c d ca, six pieces, and fits into a row.
    ids = np.array([[PIECES.index(piece) for piece in "[CLS] a ##b c d c ##a [SEP]".split()]])
    named = {f"encoder/{name}": array for name, array in arrays.items()}
    states = oracle.encode(named, FOUR_LAYERS, ids, np.zeros_like(ids), np.array([8]))["hidden_states"]
    expected = np.stack(states[1:], 2)[0, [1, 3, 4, 5]]
    np.testing.assert_allclose(first["vectors"].numpy()[0, [0, 1, 3, 4]], expected, atol=2e-5)
    assert not first["vectors"].numpy()[0, 2].any()


@pytest.fixture
def written():
    """The names of the files of vectors, in the order in which they are written."""
    names = []
    with faults.on_call(feature_cache, "_write_vectors", lambda *each: names.append(os.path.basename(each[-1]))):
        yield names


@pytest.mark.slow
@pytest.mark.eager
def test_vectors_are_cached_until_weights_or_data_change(make, tmp_path, written):

    def vectors(choice, seed=0):
        task = make(choice)
        model_of(task, seed)
        return next(iter(task.eval_batches(4, "dev")))["vectors"].numpy()

    first = vectors("weighted_sum_last_four")
    np.testing.assert_array_equal(vectors("concat_last_four"), first)
    assert [name.rsplit("-", 1)[0] for name in written] == ["train.txt_-4_-3_-2_-1"]
    np.testing.assert_array_equal(vectors("last")[:, :, 0], first[:, :, 3])
    assert [name.rsplit("-", 1)[0] for name in written[1:]] == ["train.txt_last"]
    assert np.abs(vectors("last", seed=1)[0, 0] - first[0, 0, 3:]).max() > 0.1 and len(written) == 3
    (tmp_path / "train.txt").write_text(FILE.replace("ca", "cab"), encoding="utf-8")
    vectors("last", seed=1)
    assert len(written) == 4
    (tmp_path / "train.txt").write_text(FILE, encoding="utf-8")
    vectors("last")  # still there, like those of other weights and other data
    assert len(written) == 4 and len(set(written)) == 4
    about = json.loads((tmp_path / "features" / (written[1].split(".npy")[0] + ".json")).read_text())
    assert about["layers"] == [4]
    assert not [name for name in os.listdir(tmp_path / "features") if "partial" in name]


@pytest.mark.eager
def test_truncated_cache_is_recomputed(make, tmp_path):
    def vectors():
        task = make("last")
        model_of(task)
        return next(iter(task.eval_batches(4, "dev")))["vectors"].numpy()

    first = vectors()
    (cached,) = (tmp_path / "features").glob("train.txt_last-*.npy")
    whole = cached.read_bytes()
    cached.write_bytes(whole[:-50])
    np.testing.assert_array_equal(vectors(), first)
    assert cached.read_bytes() == whole


def test_unusable_cache_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file is not writable .*: choose another folder"):
        feature_cache.check_folder(str(tmp_path / "file"))


def learner(task):
    strategy = distribute.create_strategy("one_device")
    tf.keras.utils.set_random_seed(1)
    return TrainStep(task, model_of(task)[0], CONFIG, strategy)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """40 steps: the task, the learner, its weights at the start, its state after 3 steps, its weights after 5."""
    task = maker(tmp_path_factory.mktemp("training"))("weighted_sum_all")
    ours, batches = learner(task), iter(task.train_batches(4, 1))
    saved = {"task": task, "learner": ours, "start": values_of(ours)}
    for step in range(1, 41):
        saved["result"] = ours.step(next(batches))
        if step == 3:
            saved["state"] = [variable.numpy() for variable in tf.nest.flatten(ours.state())]
        if step == 5:
            saved["later"] = values_of(ours)
    return saved


@pytest.mark.slow
def test_training_learns_with_a_fixed_encoder(training, tmp_path):
    assert {name for name in training["start"] if not name.startswith("encoder/")} >= {
        "mix/scores",
        "mix/gamma",
        "lstm/forwards/0/cell/kernel",
        "lstm/backwards/1/cell/recurrent_kernel",
        "classifier/bias",
    }
    right, total = training["result"]["metrics"]["accuracy"].numpy()
    assert right == total > 0
    for name, value in values_of(training["learner"]).items():
        assert np.array_equal(value, training["start"][name]) == name.startswith("encoder/"), name
    task, model = training["task"], training["learner"].model
    evaluator = Evaluator(task, model, CONFIG, distribute.create_strategy("one_device"))
    assert evaluator()["f1"] == 1.0
    message = task.write_predictions(str(tmp_path), "dev", evaluator.predictions["dev"])
    assert message[0].startswith("Wrote 4 predictions to ")
    lines = (tmp_path / "predictions_dev.txt").read_text(encoding="utf-8").split("\n")
    assert lines[:5] == ["ab B-X B-X", "c O O", "\u200b O O", "d B-X B-X", "ca I-X I-X"]


@pytest.mark.slow
def test_training_resumes_bitwise(training):
    again = learner(training["task"])
    for variable, value in zip(tf.nest.flatten(again.state()), training["state"], strict=True):
        variable.assign(value)
    batches = iter(training["task"].train_batches(4, 1))
    for step, batch in zip(range(1, 6), batches, strict=False):
        if step > 3:
            again.step(batch)
    for name, value in values_of(again).items():
        np.testing.assert_array_equal(value, training["later"][name], err_msg=name)


@pytest.mark.parametrize("size", [0, -2, 301])
def test_odd_lstm_size_is_refused(size):
    names = "word_column tag_column tag_scheme position_digits max_seq_length doc_stride document_context".split()
    values = dict.fromkeys([*names, "tag_head"], 1)
    options = types.SimpleNamespace(**values, feature_layers="last", lstm_size=size)
    with pytest.raises(UserError, match=f"lstm_size is {size}; expected an even number above 0"):
        catalog.get("ner/table")(options, lambda texts: TOKENIZER)


@pytest.mark.parametrize("choice", ["concat_last_four", "weighted_sum_all"])
def test_padding_and_sentence_order_have_no_effect(choice):
    model = tiny.randomized(BiLstmTagger(FOUR_LAYERS, 3, features=choice, count=4, lstm_size=6))
    vectors = np.random.default_rng(0).normal(size=(2, 5, 4, 16)).astype(np.float32)
    logits = model({"vectors": tf.constant(vectors), "lengths": tf.constant([2, 4])})["logits"].numpy()
    assert logits.shape == (2, 4, 3)
    alone = model({"vectors": tf.constant(vectors[:1, :2]), "lengths": tf.constant([2])})["logits"].numpy()
    np.testing.assert_allclose(logits[:1, :2], alone, atol=1e-5)
    again = BiLstmTagger.from_config(model.get_config())
    assert {name: v.shape for name, v in weights.variables_by_name(again).items()} == {
        name: v.shape for name, v in weights.variables_by_name(model).items()
    }


@pytest.mark.slow
def test_export_tags_like_prediction_and_finds_entities_in_long_texts(training, tmp_path):
    task, model, folder = training["task"], training["learner"].model, str(tmp_path / "export")
    examples = task.head.training.serving_examples(task.split("dev"))
    export(task, model, TOKENIZER, folder, examples=examples, about={"labels": TAGS.labels})
    device_graphs.assert_runs_anywhere(folder)
    evaluator = Evaluator(task, model, CONFIG, distribute.create_strategy("one_device"))
    evaluator()
    signatures = tf.saved_model.load(folder).signatures
    (words,) = task.head.training.serving_examples(task.split("dev"))["words"].values()
    many = [*words, *[[""] * len(words[0])] * 2, *words * 9]  # more texts than are computed at once
    served = {name: x.numpy() for name, x in signatures["words"](words=tf.constant(many)).items()}
    predicted = task.head.word_predictions(evaluator.predictions["dev"], task.split("dev"))
    for row, (numbers, probabilities) in enumerate(zip(*predicted, strict=True)):
        for place in (row, 6 + 4 * 8 + row):
            assert [tag.decode() for tag in served["tags"][place, : len(numbers)]] == [TAGS.labels[n] for n in numbers]
            np.testing.assert_allclose(served["scores"][place, : len(numbers)], probabilities, atol=1e-5)
    texts = ["d c a", "", "ab c d ca " * 9]
    actual = {name: x.numpy() for name, x in signatures["serving_default"](text=tf.constant(texts)).items()}
    assert actual["counts"][0] == 1 and actual["texts"][0, 0] == b"d" and actual["counts"][1] == 0
    assert actual["counts"][2] > 9
    for number in range(actual["counts"][2]):
        start, end = actual["starts"][2, number], actual["ends"][2, number]
        assert texts[2][start:end].encode() == actual["texts"][2, number] != b""
    assert signatures["serving_default"](text=tf.constant([], tf.string))["counts"].shape == (0,)


def test_learned_layer_mixture_matches_its_formula_and_trains():
    mix = ScalarMix(3)
    layers = tf.constant([[[1.0, 0.0], [2.0, 0.0], [6.0, 3.0]]])  # [1, 3, 2]
    np.testing.assert_allclose(mix(layers), [[3.0, 1.0]], rtol=1e-6)
    mix.scores.assign([0.0, np.log(2.0), np.log(5.0)])
    mix.gamma.assign(2.0)
    np.testing.assert_allclose(mix(layers), [[2 * (1 + 4 + 30) / 8, 2 * 15 / 8]], rtol=1e-6)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(mix(layers))
    scores, gamma = tape.gradient(loss, [mix.scores.value, mix.gamma.value])
    assert (scores.shape, gamma.shape) == ((3,), ()) and abs(float(tf.reduce_sum(scores))) < 1e-6 and gamma > 0
    assert tf.argmax(scores) == 2
    again = ScalarMix.from_config(mix.get_config())
    assert tuple(again.scores.shape) == (3,)

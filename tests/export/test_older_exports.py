"""Exports that earlier versions made refuse texts that would take all memory; others take them."""

import json

import pytest
import quick_exports
import tensorflow as tf
import tiny
from starlette.testclient import TestClient

from bert_tf.checkpoints import formats
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.export import loaded_model, older_exports
from bert_tf.model import weights
from bert_tf.model.heads import BertModel
from bert_tf.serving.app import Server
from bert_tf.serving.served import Served

LONG = "a" * (older_exports.MAX_BYTES + 1)


def entities(cut):
    """A signature of a tagger that finds the first letters of each text, cut out by a function."""

    def found(text):
        zeros = tf.zeros_like(tf.strings.length(text))
        texts, starts = cut(text), zeros[:, None]
        outputs = {"texts": texts[:, None], "labels": texts[:, None], "starts": starts, "ends": starts + 1}
        return {**outputs, "counts": zeros + 1}

    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """An older export and a newer one."""
    text, folder = ("text", tf.string, ()), tmp_path_factory.mktemp("exports")
    cuts = {
        "older": lambda text: tf.strings.substr(text, 0, 1),
        "newer": lambda text: tf.strings.regex_replace(text, "(?s)^(.).*", r"\1"),
    }
    return {name: str(quick_exports.saved(folder / name, entities(cut), text)) for name, cut in cuts.items()}


def test_long_texts_are_refused_by_older_exports_alone(folders):
    for name, folder in folders.items():
        function = loaded_model.signatures(folder)["serving_default"]
        assert function(text=tf.constant(["abc", LONG[1:]]))["texts"].numpy().tolist() == [[b"a"], [b"a"]]
        assert function(text=tf.constant([], tf.string))["counts"].shape == (0,)
        if name == "newer":
            assert function(text=tf.constant([LONG]))["counts"].numpy().tolist() == [1]
        else:
            with pytest.raises(older_exports.TooLong, match="takes texts of up to 32,768 bytes .*: export it again"):
                function(text=tf.constant(["abc", LONG]))


@pytest.mark.parametrize("name", ["older", "newer"])
def test_answers_cut_all_at_once_refuse_long_texts(tmp_path, name):
    def answers(text):
        zeros = tf.zeros_like(tf.strings.length(text))[:, None]
        cut = (
            (lambda x: tf.strings.substr(x, 0, 1))
            if name == "older"
            else lambda x: tf.map_fn(lambda each: tf.strings.substr(each, 0, 1), x, fn_output_signature=tf.string)
        )
        return {
            "answers": cut(text)[:, None],
            "starts": zeros,
            "ends": zeros,
            "probabilities": tf.cast(zeros, tf.float32),
        }

    folder = str(quick_exports.saved(tmp_path / "qa", answers, ("text", tf.string, ())))
    function = loaded_model.signatures(folder)["serving_default"]
    assert function(text=tf.constant(["abc"]))["answers"].numpy().tolist() == [[b"a"]]
    if name == "newer":
        assert function(text=tf.constant([LONG]))["answers"].shape == (1, 1)
    else:
        with pytest.raises(older_exports.TooLong):
            function(text=tf.constant([LONG]))


def test_vectors_of_all_rows_at_once_refuse_long_texts(tmp_path):
    def tokens(text):
        letters = tf.strings.substr(text, 0, 1)[:, None]
        numbers = {name: tf.zeros([tf.size(text), 1]) for name in ("vectors", "starts", "ends", "segments", "counts")}
        return {**numbers, "tokens": letters}

    folder = quick_exports.saved(tmp_path / "own", quick_exports.vectors, ("text", tf.string, ()), tokens=tokens)
    for function in loaded_model.signatures(str(folder)).values():
        assert function(text=tf.constant([LONG[1:]]))["vectors"].shape[0] == 1
        with pytest.raises(older_exports.TooLong):
            function(text=tf.constant([LONG]))
    other = quick_exports.saved(tmp_path / "other", quick_exports.vectors, ("text", tf.string, ()))
    assert loaded_model.signatures(str(other))["serving_default"](text=tf.constant([LONG]))["vectors"].shape[0] == 1


def test_server_answers_413(folders):
    with TestClient(Server([Served("older", folders["older"])]).app()) as client:
        refused, taken = (client.post("/v1/models/older:predict", json={"instances": [x]}) for x in (LONG, "abc"))
    assert refused.status_code == 413 and "export it again" in refused.json()["error"]
    assert taken.status_code == 200


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"layers": ["last"], "pooling": "cls", "normalize": True}, SentenceVectors("cls", True)),
        ({"layers": ["-1"], "pooling": "max"}, SentenceVectors("max", False)),
        ({"layers": ["first"], "pooling": "cls"}, None),
        ({"layers": ["last"]}, None),
        ([], None),
    ],
)
def test_pooling_of_older_exports_of_vectors_is_that_of_the_last_layer(about, expected, tmp_path):
    model = BertModel(tiny.CONFIG)
    tf.train.Checkpoint(weights=weights.variables_by_name(model)).write(str(tmp_path / "variables" / "variables"))
    (tmp_path / "saved_model.pb").write_bytes(b"")
    (tmp_path / "assets.extra").mkdir()
    tiny.CONFIG.write(str(tmp_path / "assets.extra" / "bert_config.json"))
    (tmp_path / "about.json").write_text(json.dumps(about))
    assert formats.read(str(tmp_path)).sentence_vectors == expected

"""`bert_tf.load(PATH, labels=...)`: a new head, trained by Keras, saved in every format and loaded again."""

import pickle
import re

import checkpoint_cases
import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.model import heads

TEXTS = ["a b c", "d e f g"]
TAGS = ["O", "B-X", "I-X"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("new_heads")
    checkpoint_cases.write(folder / "pretrained", heads.Pretrainer(tiny.CONFIG))
    checkpoint_cases.write(folder / "classes", heads.Classifier(tiny.CONFIG, 3), ["x", "y", "z"], "classes")
    checkpoint_cases.write(folder / "unnamed", heads.Classifier(tiny.CONFIG, 3))
    checkpoint_cases.write(folder / "number", heads.Regressor(tiny.CONFIG), None, "regression")
    return folder


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("classes", {"labels": ["a", "b"]}, r"has 3 labels (x, y, z), and labels has 2: remove labels, or pass"),
        ("classes", {"labels": 2}, r"has 3 labels (x, y, z), and labels has 2"),
        ("classes", {"labels": ["x", "z", "y"]}, "has other labels, in this order: x, y, z."),
        ("classes", {"kind": "span"}, "is of the kind classes, not span: remove kind, or pass new_head=True"),
        ("classes", {"kind": "multi_label"}, "is of the kind classes, not multi_label"),
        ("number", {"labels": 2}, "is of the kind regression without labels: remove labels"),
        ("classes", {"new_head": True}, "pass labels or kind"),
        ("classes", {"labels": 1, "new_head": True}, "expected two classes or more. Pass kind='regression'"),
        ("pretrained", {"kind": "nope"}, "kind is 'nope'; expected one of choice, classes,"),
        ("pretrained", {"kind": "masked_lm"}, "kind is 'masked_lm'; expected one of choice, classes,"),
        ("pretrained", {"kind": "tags"}, "kind tags needs labels"),
        ("pretrained", {"kind": "regression", "labels": 2}, "kind regression has none: remove labels"),
        ("pretrained", {"labels": "bad"}, "labels is 'bad'; expected the names"),
        ("pretrained", {"labels": ["a", "a"]}, "The labels are a, a; expected different names"),
        ("pretrained", {"labels": []}, "The labels are none"),
        ("pretrained", {"labels": 0}, "labels is 0"),
        ("pretrained", {"labels": True}, "labels is True"),
        ("pretrained", {"labels": 2, "engine": "openvino"}, "are for Keras models: remove engine"),
    ],
)
def test_a_head_that_does_not_fit_is_an_error(folder, name, options, message):
    with pytest.raises(UserError, match=re.escape(message)):
        bert_tf.load(folder / name, **options)


def test_a_head_that_fits_is_kept(folder):
    expected = bert_tf.load(folder / "classes").predict(TEXTS)
    for options in ({"labels": ["x", "y", "z"]}, {"labels": 3}, {"kind": "classes"}):
        assert bert_tf.load(folder / "classes", **options).predict(TEXTS) == expected
    named = bert_tf.load(folder / "unnamed", labels=["p", "q", "r"])
    plain = bert_tf.load(folder / "unnamed").predict(TEXTS[0]).probabilities
    assert named.predict(TEXTS[0]).probabilities == dict(zip("pqr", plain.values(), strict=True))
    assert bert_tf.load(folder / "unnamed", kind="multi_label").kind == "multi_label"
    replaced = bert_tf.load(folder / "classes", labels=["a", "b"], new_head=True)
    assert (replaced.labels, replaced.kind) == (["a", "b"], "classes")


@pytest.mark.slow
def test_a_fitted_model_is_saved_and_loaded_in_every_format(folder, tmp_path):
    bert = bert_tf.load(folder / "pretrained", labels=["bad", "good"])
    untrained = bert.predict(TEXTS)
    bert.model.compile(keras.optimizers.Adam(0.01))
    bert.model.fit(bert_tf.PreprocessingLayer(bert, seq_length=12)(TEXTS), np.array([1, 1]), epochs=2, verbose=0)
    trained = bert.predict(TEXTS)
    assert trained[0].probabilities["good"] > untrained[0].probabilities["good"]
    for name in ("native", "huggingface", "google_tf"):
        bert.save(tmp_path / name, format=name)
        assert bert_tf.load(tmp_path / name).predict(TEXTS) == trained, name
    bert.save(tmp_path / "model.keras")
    assert bert_tf.load(tmp_path / "model.keras").predict(TEXTS) == trained
    again = keras.models.load_model(tmp_path / "model.keras")
    again.save(tmp_path / "again.keras")  # with vocabulary and labels
    assert bert_tf.load(tmp_path / "again.keras").predict(TEXTS) == trained
    with pytest.raises(UserError, match="exists already"):
        bert.save(tmp_path / "native")
    with pytest.raises(UserError, match="differs from"):
        pickle.dumps(bert)
    bert.export(tmp_path / "export", engines="none")
    found = bert_tf.load(tmp_path / "export").predict(TEXTS)
    for actual, expected in zip(found, trained, strict=True):
        np.testing.assert_allclose(
            list(actual.probabilities.values()), list(expected.probabilities.values()), rtol=1e-4
        )


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        ("regression", lambda bert: bert.predict(TEXTS)),
        ("multi_label", lambda bert: bert.predict(TEXTS)),
        ("choice", lambda bert: bert.predict(("a b", "c", "d"))),
        ("span", lambda bert: bert.answer("a b", "c d e")),
        ("tags", lambda bert: bert.tags(["a", "b"])),
    ],
)
def test_every_kind_of_head_is_saved(folder, tmp_path, kind, ask):
    labels = {"labels": TAGS} if kind in ("tags", "multi_label") else {}
    bert = bert_tf.load(folder / "pretrained", kind=kind, **labels)
    bert.save(tmp_path / "saved")
    again = bert_tf.load(tmp_path / "saved")
    assert (ask(again), again.kind, again.labels) == (ask(bert), bert.kind, bert.labels)


def test_saved_without_what_stayed_random(tmp_path):
    arrays = tiny.random_weights(heads.BertModel(tiny.CONFIG))
    bare = {name: array for name, array in arrays.items() if "pooler" not in name}
    stored = Checkpoint(config=tiny.CONFIG, weights=bare, vocabulary=checkpoint_cases.PIECES, lower_case=True)
    formats.write(stored, tmp_path / "bare", "native")
    bert = bert_tf.load(tmp_path / "bare")
    bert.save(tmp_path / "copy")
    assert formats.read(tmp_path / "copy").weights.keys() == bare.keys()
    bert.model.encoder.pooler.bias.assign(np.ones(16))
    bert.save(tmp_path / "changed")
    assert "encoder/pooler/bias" in formats.read(tmp_path / "changed").weights


def test_adapters_are_merged_or_kept(folder, tmp_path):
    from bert_tf.config.train_config import LoraConfig
    from bert_tf.model import lora, weights

    bert = bert_tf.load(folder / "classes")
    lora.attach(bert.model, LoraConfig(lora_rank=2, lora_targets="query,expand"))
    for name, variable in weights.variables_by_name(bert.model).items():
        if name.endswith("/b"):
            variable.assign(np.full(variable.shape, 0.1))
    expected = [list(each.probabilities.values()) for each in bert.predict(TEXTS)]
    bert.save(tmp_path / "merged", format="huggingface")
    bert.save(tmp_path / "adapted.keras")
    assert len(weights.variables_by_name(keras.models.load_model(tmp_path / "adapted.keras"))) == len(
        weights.variables_by_name(bert.model)
    )
    for path in ("merged", "adapted.keras"):
        found = [list(each.probabilities.values()) for each in bert_tf.load(tmp_path / path).predict(TEXTS)]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (
        np.abs(
            np.subtract(
                expected, [list(p.probabilities.values()) for p in bert_tf.load(folder / "classes").predict(TEXTS)]
            )
        ).max()
        > 1e-3
    )


def test_push_uploads_what_save_writes(folder, monkeypatch):
    from bert_tf.recipes import publishing

    uploads = []

    class Api:
        def __init__(self, endpoint):
            pass

        def create_repo(self, name, private, exist_ok):
            return f"hub/{name}"

        def upload_folder(self, repo_id, folder_path, revision, commit_message):
            uploads.append((repo_id, bert_tf.load(folder_path).predict(TEXTS)))

    monkeypatch.setattr(publishing.huggingface_hub, "HfApi", Api)
    bert = bert_tf.load(folder / "classes")
    assert bert.push("owner/name") == "hub/owner/name"
    assert uploads == [("owner/name", bert.predict(TEXTS))]
    with pytest.raises(UserError, match="is not a repository"):
        bert.push("name")


def test_a_keras_file_without_a_vocabulary_reads_the_one_beside_it(folder, tmp_path):
    model = heads.Classifier(tiny.CONFIG, 3)
    model.save(tmp_path / "model.keras")
    bert = bert_tf.load(tmp_path / "model.keras")
    assert bert.tokenizer is None
    ids = tf.constant([[2, 5, 3]])
    np.testing.assert_array_equal(bert.model(ids)["logits"], model(ids)["logits"])
    (tmp_path / "vocab.txt").write_text("\n".join(checkpoint_cases.PIECES), encoding="utf-8")
    assert len(bert_tf.load(tmp_path / "model.keras").predict("a b").probabilities) == 3


def test_wrong_keras_files_are_errors(tmp_path):
    (tmp_path / "damaged.keras").write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(UserError, match="damaged.keras"):
        bert_tf.load(tmp_path / "damaged.keras")
    other = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    other.save(tmp_path / "other.keras")
    with pytest.raises(UserError, match="other.keras"):
        bert_tf.load(tmp_path / "other.keras")

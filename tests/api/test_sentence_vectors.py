"""Vectors of folders of sentence-transformers, compared with a plain computation of what their files say."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tiny

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import main
from bert_tf.config.sentence_vectors import SentenceVectors, VectorLayer
from bert_tf.errors import UserError
from bert_tf.extras.search.index import Index

D = tiny.CONFIG.hidden_size
TEXTS = ["1 2 3", "4", "5 6 7 8 9 a b c d e f 10 11", ""]
PROMPT = {"prompts": {"q": "7 8 "}, "default_prompt_name": "q"}
RANDOM = np.random.default_rng(3)
DENSE = {"kernel": (D, 8), "bias": (8,)}
RESIDUAL = {**DENSE, "residual": (D, 8)}
NORM = {"gamma": (2 * D,), "beta": (2 * D,)}


def layer(kind, shapes, **options):
    return VectorLayer(kind, arrays={name: RANDOM.normal(size=n).astype("f4") for name, n in shapes.items()}, **options)


def folder_of(path, vectors):
    """A folder of a tiny model with the tokens 0, 1, ..., whose name it returns."""
    checkpoint = Checkpoint(
        config=tiny.CONFIG,
        weights=tiny.pretrainer()[1],
        vocabulary=[*"[PAD] [UNK] [CLS] [SEP] [MASK]".split(), *(f"{i:x}" for i in range(tiny.CONFIG.vocab_size - 5))],
        lower_case=True,
        sentence_vectors=vectors,
    )
    formats.write(checkpoint, path, "huggingface")
    return str(path)


def token_vectors(bert, text, length):
    """The states of one text, truncated to a length, [tokens, D]."""
    ids = bert.tokenizer.encode(text)
    ids = ids if len(ids) <= length else [*ids[: length - 1], ids[-1]]
    return bert.model.encoder({"token_ids": np.array([ids]), "lengths": np.array([len(ids)])})["tokens"][0].numpy()


def pooled(states, name, skipped):
    positions = np.arange(1, len(states) + 1)[skipped:, None]
    states = states[skipped:]
    return {
        "cls": lambda: states[0],
        "last": lambda: states[-1],
        "mean": lambda: states.mean(0),
        "max": lambda: states.max(0),
        "mean_sqrt_len": lambda: states.sum(0) / np.sqrt(len(states)),
        "weighted_mean": lambda: (states * positions).sum(0) / positions.sum(),
    }[name]()


def through(vector, each):
    if each.kind == "normalize":
        return vector / np.linalg.norm(vector)
    if each.kind == "layer_norm":
        normal = (vector - vector.mean()) / np.sqrt(vector.var() + 1e-5)
        return normal * each.arrays["gamma"] + each.arrays["beta"]
    output = vector @ each.arrays["kernel"] + each.arrays.get("bias", 0)
    output = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x))}[
        each.activation
    ](output)
    return output + vector @ each.arrays["residual"] if each.is_residual else output


def expected(bert, text, vectors, prompt):
    """The vector of a text as the files of a folder say it."""
    skipped = 0 if vectors.include_prompt or not prompt else len(bert.tokenizer.encode(prompt)) - 1
    states = token_vectors(bert, prompt + text, vectors.max_seq_length)
    vector = np.concatenate([pooled(states, name, skipped) for name in vectors.poolings])
    for each in [*vectors.layers, *([VectorLayer("normalize")] if vectors.normalize else [])]:
        vector = through(vector, each)
    return vector[: vectors.truncate_dim]


@pytest.mark.parametrize(
    "vectors",
    [
        SentenceVectors("mean", True, max_seq_length=6),
        SentenceVectors("weighted_mean", max_seq_length=9, **PROMPT),
        *(
            SentenceVectors(pooling, max_seq_length=9, include_prompt=False, **PROMPT)
            for pooling in ("mean", "weighted_mean", "cls+max", "last", "mean_sqrt_len")
        ),
        SentenceVectors("cls", True, (layer("dense", DENSE, activation="tanh"),), max_seq_length=8, truncate_dim=3),
        SentenceVectors(
            "max", layers=(layer("dense", RESIDUAL, activation="relu", is_residual=True),), max_seq_length=8
        ),
        SentenceVectors("mean+max", True, (layer("layer_norm", NORM),), max_seq_length=8, truncate_dim=3),
    ],
)
def test_vectors_are_those_that_the_folder_says(vectors, tmp_path):
    bert = bert_tf.load(folder_of(tmp_path / "model", vectors))
    prompt = vectors.prompts.get(vectors.default_prompt_name, "")
    right = np.stack([expected(bert, text, vectors, prompt) for text in TEXTS])
    np.testing.assert_allclose(bert.embed(TEXTS), right, atol=1e-5)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    vectors = SentenceVectors(
        "mean",
        True,
        max_seq_length=8,
        prompts={"query": "7 8 ", "document": "9 ", "other": "a "},
        default_prompt_name="other",
        truncate_dim=5,
    )
    return folder_of(tmp_path_factory.mktemp("prompts") / "model", vectors), vectors


@pytest.mark.slow
def test_arguments_override_what_the_folder_says(model):
    bert, vectors = bert_tf.load(model[0]), model[1]
    for options, prompt, changes in (
        ({}, "a ", {}),
        ({"prompt_name": "query"}, "7 8 ", {}),
        ({"prompt": "b "}, "b ", {}),
        ({"prompt": ""}, "", {}),
        ({"truncate_dim": 7}, "a ", {"truncate_dim": 7}),
        ({"normalize": False, "pooling": "max+cls"}, "a ", {"normalize": False, "pooling": "max+cls"}),
        ({"max_seq_length": 5}, "a ", {"max_seq_length": 5}),
    ):
        said = SentenceVectors(**{**vars(vectors), **changes})
        right = np.stack([expected(bert, text, said, prompt) for text in TEXTS])
        np.testing.assert_allclose(bert.embed(TEXTS, **options), right, atol=1e-5, err_msg=str(options))


def test_queries_and_documents_have_their_prompts(model):
    bert = bert_tf.load(model[0])
    for encode, name in ((bert.encode_query, "query"), (bert.encode_documents, "document")):
        np.testing.assert_array_equal(encode(TEXTS[:2], truncate_dim=4), bert.embed(TEXTS[:2], prompt_name=name)[:, :4])
    np.testing.assert_array_equal(bert.encode_query("1", prompt="b "), bert.embed("1", prompt="b "))


@pytest.mark.parametrize(
    "name, expected",  # of sentence-transformers 6.2
    [
        (None, [[0.733333, -0.189737], [0, 0], [-0.290957, 0.069007]]),
        ("dot", [[11, -3], [0, 0], [-2, 0.5]]),
        ("euclidean", [[-3.464102, -6.403124], [-3, -3.162278], [-4.272002, -3.774917]]),
        ("manhattan", [[-6, -11], [-5, -4], [-5.5, -6.5]]),
    ],
)
def test_vectors_are_compared_as_the_folder_says(name, expected, model):
    bert, a, b = bert_tf.load(model[0]), [[3, 4, 0], [0, 0, 0], [1, -2, 0.5]], np.array([[1, 2, 2], [-1, 0, 3]])
    bert.sentence_vectors = SentenceVectors(similarity=name)
    np.testing.assert_allclose(bert.similarity(a, b), expected, atol=1e-6)
    np.testing.assert_allclose(bert.similarity(a[0], b), expected[:1], atol=1e-6)
    assert bert.similarity(np.zeros([0, 3]), b).shape == (0, 2)
    for wrong, message in ((["x"], "pass one, or an array"), ([1, 2], "of 2 and 3 dimensions")):
        with pytest.raises(UserError, match=message):
            bert.similarity(wrong, b)


def test_truncation_and_a_last_normalization_can_be_asked_for(model):
    bert = bert_tf.load(model[0])
    windows = bert.embed(TEXTS, long_texts="windows")
    assert abs(windows - bert.embed(TEXTS)).max(1).argmax() == 2  # the long text
    assert np.linalg.norm(bert.embed("1", normalize=True)) == pytest.approx(1)  # after the truncation


@pytest.mark.parametrize(
    "options, message",
    [
        ({"prompt_name": "x"}, "has no prompt 'x', only query, document, other"),
        ({"prompt_name": "query", "prompt": "x"}, "prompt and prompt_name"),
        ({"truncate_dim": 0}, "truncate_dim is 0"),
        ({"pooling": "mean+best"}, "pooling is 'mean.best'"),
        ({"max_seq_length": 999}, "max_seq_length is 999, but the model has"),
        ({"max_seq_length": 2}, "max_seq_length is 2; expected 3"),
        ({"long_texts": "x"}, "long_texts is 'x'"),
    ],
)
def test_wrong_arguments_are_reported(model, options, message):
    with pytest.raises(UserError, match=message):
        bert_tf.load(model[0]).embed("1", **options)


def test_pooling_that_does_not_fit_a_dense_layer_is_refused(tmp_path):
    vectors = SentenceVectors("mean", layers=(layer("dense", DENSE),), max_seq_length=8)
    bert = bert_tf.load(folder_of(tmp_path / "model", vectors))
    with pytest.raises(UserError, match=f"vectors of {2 * D} dimensions, but .* take {D}"):
        bert.embed("1", pooling="mean+max")


def test_index_has_a_prompt_for_texts_and_one_for_queries(model, tmp_path):
    path, vectors = model
    bert = bert_tf.load(path)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    about = Index.build(str(tmp_path / "texts.txt"), str(tmp_path / "index"), path)
    assert (about["prompt"], about["query_prompt"], about["max_seq_length"], about["dimensions"]) == (
        "9 ",
        "7 8 ",
        8,
        5,
    )
    index = Index(str(tmp_path / "index"))

    def unit(text, prompt):
        vector = expected(bert, text, vectors, prompt)
        return vector / np.linalg.norm(vector)

    texts = np.stack([unit(text, "9 ") for text in TEXTS[:3]])
    scores = texts @ unit("4 5", "7 8 ")
    hits = index.search("4 5", 3)
    assert [hit.number for hit in hits] == np.argsort(-scores).tolist()
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(scores)[::-1], atol=1e-5)


def test_index_compares_as_the_folder_says(tmp_path):
    vectors = SentenceVectors("mean", max_seq_length=8, similarity="dot")
    path = folder_of(tmp_path / "model", vectors)
    bert = bert_tf.load(path)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    Index.build(str(tmp_path / "texts.txt"), str(tmp_path / "index"), path)
    scores = np.stack([expected(bert, text, vectors, "") for text in TEXTS[:3]]) @ expected(bert, "4 5", vectors, "")
    hits = Index(str(tmp_path / "index")).search("4 5", 3)
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(scores)[::-1], rtol=1e-5)
    other = folder_of(tmp_path / "other", SentenceVectors("mean", max_seq_length=8, similarity="euclidean"))
    with pytest.raises(UserError, match="compared by their euclidean distance, which an index does not support"):
        Index.build(str(tmp_path / "texts.txt"), str(tmp_path / "x"), other)


def test_bars_in_a_text_make_no_pair(model):
    bert, vectors = bert_tf.load(model[0]), model[1]
    np.testing.assert_allclose(bert.embed("1 ||| 2"), expected(bert, "1 ||| 2", vectors, "a "), atol=1e-5)


@pytest.mark.slow
def test_export_has_the_prompts_and_is_a_checkpoint_with_them(model, tmp_path):
    path, vectors = model
    assert main.main(["extract", path, f"--export={tmp_path / 'export'}"]) == 0
    bert, exported = bert_tf.load(path), tf.saved_model.load(tmp_path / "export")
    for name, prompt in (("serving_default", "a "), ("query", "7 8 "), ("document", "9 ")):
        found = exported.signatures[name](text=tf.constant(TEXTS))["vectors"]
        right = np.stack([expected(bert, text, vectors, prompt) for text in TEXTS])
        np.testing.assert_allclose(found, right, atol=1e-5, err_msg=name)
    loaded = bert_tf.load(tmp_path / "export")
    assert loaded.sentence_vectors == bert.sentence_vectors
    np.testing.assert_allclose(loaded.embed(TEXTS), bert.embed(TEXTS), atol=1e-5)


def test_convert_says_that_a_format_cannot_hold_how_vectors_are_made(model, tmp_path, capsys):
    assert main.main(["convert", model[0], str(tmp_path / "ckpt"), "--format=google_tf"]) == 0
    assert "were not written because google_tf cannot store it" in capsys.readouterr().out
    assert main.main(["convert", model[0], str(tmp_path / "native"), "--format=native"]) == 0
    assert "not written" not in capsys.readouterr().out


def test_older_index_is_searched_as_it_was_made(model, tmp_path):
    path, folder = model[0], tmp_path / "index"
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    older = {"long_texts": "windows", "prompt": "", "query_prompt": "", "similarity": "cosine"}
    about = Index.build(str(tmp_path / "texts.txt"), str(folder), path, **older)
    found = Index(str(folder)).search("4 5", 3)
    (folder / "index.json").write_text(json.dumps({k: v for k, v in about.items() if k not in older}))
    assert Index(str(folder)).search("4 5", 3) == found
    (folder / "index.json").write_text(json.dumps({**about, "prompt": 3}))
    with pytest.raises(UserError, match=r"does not describe an index \(prompt\)"):
        Index(str(folder))

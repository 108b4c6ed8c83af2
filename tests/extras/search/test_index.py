"""Indexes: exact neighbors against a full sort, building that resumes, damaged folders, re-ranking."""

import json
import os
import shutil

import faults
import numpy as np
import pytest
import quick_exports
import tensorflow as tf
import tiny
from safetensors.numpy import save_file

from bert_tf.cli import main as command_line
from bert_tf.errors import UserError
from bert_tf.export.reranking import Reranker
from bert_tf.extras.search import building, neighbors
from bert_tf.extras.search.embedder import Embedder
from bert_tf.extras.search.index import Index
from bert_tf.extras.search.index_files import IndexFiles
from bert_tf.extras.search.stored_vectors import STORAGES
from bert_tf.model import heads

TEXTS = ["red", "green blue", "one two", "three", "blue red green", "two"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join([*TEXTS[:2], "  ", *TEXTS[2:]]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def folder(model, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexes") / "index"
    building.build(texts, str(folder), model)
    return str(folder)


@pytest.fixture(scope="module")
def index(folder):
    return Index(folder)


def units(rows, size=5, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(rows, size)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_a_model_that_was_not_trained_for_vectors_is_named(model, texts, tmp_path, caplog):
    building.build(texts, str(tmp_path / "index"), model)
    assert "was not trained to compare texts" in caplog.text


@pytest.mark.parametrize("count, rows", [(1, 2 * neighbors.ROWS_AT_ONCE + 9), (7, 70_000), (40, 40), (60, 40)])
def test_exact_neighbors_are_those_of_a_full_sort(count, rows):
    vectors, queries = units(rows), units(3, seed=1)
    vectors[30] = vectors[3]  # equal ones: the first comes first
    numbers, scores = neighbors.exact(vectors, queries, count)
    expected = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :count]
    np.testing.assert_allclose(scores, np.take_along_axis(queries @ vectors.T, expected, 1), rtol=1e-5)
    assert [set(row) for row in numbers.tolist()] == [set(row) for row in expected.tolist()]


CODES = {  # of FEW, by quantize_embeddings of sentence-transformers
    "int8": [[-128, 127, 127], [-1, -128, 127], [127, 20, -128]],
    "binary": [[96], [160], [192]],
}
FEW = np.array([[-1, 2, 0.25], [0.5, -1, 0.25], [2, 0.75, -0.5]], np.float32)


@pytest.mark.parametrize("name", CODES)
def test_vectors_with_fewer_bits_find_nearly_the_same(name, tmp_path):
    vectors, queries = units(300, 64), units(3, 64, seed=1)
    kind = STORAGES[name]
    kind.write(vectors, str(tmp_path))
    stored = kind(str(tmp_path), *vectors.shape)
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == kind.files(*vectors.shape)
    (numbers, scores), (_, right) = stored.nearest(queries, 20), neighbors.exact(vectors, queries, 20)
    found = np.take_along_axis(queries @ vectors.T, numbers, 1)
    if name == "int8":
        np.testing.assert_allclose(scores, found, atol=0.01)
        np.testing.assert_allclose(-np.sort(-found), right, atol=0.01)
    else:
        np.testing.assert_allclose(scores, np.take_along_axis(queries @ np.sign(vectors).T / 8, numbers, 1), atol=1e-5)
        assert (np.diff(scores) <= 0).all() and (found.mean(1) > 0.6 * right.mean(1)).all()
    assert stored.is_first(vectors[0] + 1e-4) and not stored.is_first(vectors[1])
    kind.write(FEW, str(tmp_path))
    small = kind(str(tmp_path), *FEW.shape)
    assert (small.codes if name == "int8" else small.bits).tolist() == CODES[name]


@pytest.mark.parametrize("storage", ["int8", "binary"])
def test_index_with_fewer_bits_is_searched(storage, model, texts, tmp_path):
    folder = tmp_path / "index"
    about = building.build(texts, str(folder), model, storage=storage)
    assert about["storage"] == storage and not (folder / "vectors.f32").exists()
    assert [hits[0].text for hits in Index(str(folder)).search_all(TEXTS, 3)] == TEXTS
    with pytest.raises(UserError, match=f"storage is {storage}, but approximate search needs float32"):
        building.build(texts, str(tmp_path / "other"), model, storage=storage, approximate="true")


def test_texts_find_themselves(index):
    assert [hits[0].text for hits in index.search_all(TEXTS, 3)] == TEXTS
    hits = index.search("two")
    assert [hit.id for hit in hits][:1] == ["6"]  # its line, from 0
    assert len(hits) == len(TEXTS) == len(index)
    assert hits[0].score == pytest.approx(1, abs=1e-5)
    assert all(first.score >= second.score for first, second in zip(hits, hits[1:], strict=False))


def test_folder_says_what_it_is(index, model):
    about = index.about
    assert (about["model"], about["pooling"], about["count"], about["graph"]) == (model, "mean", len(TEXTS), None)
    assert about["dimensions"] == tiny.CONFIG.hidden_size


def begin(texts, target, model):
    """Builds an index until all vectors are written, but nothing else."""
    with faults.on_call(building, "_finish", KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        building.build(texts, target, model)


def test_killed_build_continues_with_the_same_result(folder, model, texts, tmp_path, monkeypatch, capsys):
    target = str(tmp_path / "index")
    monkeypatch.setattr(building, "BLOCK", 2)
    begin(texts, target, model)
    partial = tmp_path / "index.partial"
    vectors = (partial / "vectors.f32").read_bytes()
    (partial / "vectors.f32").write_bytes(vectors[: 4 * 4 * tiny.CONFIG.hidden_size - 3])  # the fourth is cut
    building.build(texts, target, model)
    assert "Continuing after 3 texts" in capsys.readouterr().out
    assert not partial.exists()
    first, second = IndexFiles(folder), IndexFiles(target)
    np.testing.assert_allclose(first.vectors.vectors, second.vectors.vectors, atol=1e-5)
    assert first.rows(range(len(TEXTS))) == second.rows(range(len(TEXTS)))


def test_partial_index_made_with_other_flags_is_begun_anew(model, texts, tmp_path, capsys):
    partial = tmp_path / "index.partial"
    partial.mkdir()
    (partial / "settings.json").write_text("{}")
    (partial / "vectors.f32").write_bytes(b"x" * 1000)
    about = building.build(texts, str(tmp_path / "index"), model, pooling="cls")
    assert (about["count"], about["pooling"]) == (len(TEXTS), "cls")
    assert "Continuing" not in capsys.readouterr().out


def test_folder_of_the_user_is_not_taken_for_a_partial_index(model, texts, tmp_path):
    partial = tmp_path / "index.partial"
    partial.mkdir()
    (partial / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="index.partial is not an index"):
        building.build(texts, str(tmp_path / "index"), model)
    assert (partial / "mine.txt").read_text() == "mine"


def test_index_of_a_file_that_changed_is_begun_anew(model, tmp_path, capsys):
    source, folder = tmp_path / "texts.txt", tmp_path / "index"
    source.write_text("red\ngreen\nblue\n")
    begin(str(source), str(folder), model)
    stat = source.stat()
    source.write_text("red\ngreen\none \n")  # of the same size and date
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    building.build(str(source), str(folder), model)
    assert f"was begun earlier, and {source} has changed since then: starting again." in capsys.readouterr().out
    assert [row["text"].strip() for row in IndexFiles(str(folder)).rows(range(3))] == ["red", "green", "one"]


@pytest.mark.parametrize(("numbers", "text"), [(np.nan, "two"), (np.inf, "blue")])
def test_vector_that_is_not_finite_is_refused_and_leaves_nothing(numbers, text, model, tmp_path, capsys, monkeypatch):
    in_order = Embedder.in_order

    def spoiled(embedder, examples):
        for example, vector in in_order(embedder, examples):
            yield example, np.full_like(vector, numbers) if text in example.texts[0] else vector

    monkeypatch.setattr(Embedder, "in_order", spoiled)
    (tmp_path / "texts.txt").write_text("\n".join(["red", text, "green"]))
    words = ["index", str(tmp_path / "texts.txt"), str(tmp_path / "index"), f"--model={model}"]
    assert command_line.main(words) == 2
    error = capsys.readouterr().err
    assert "contains NaN or infinity" in error and "line 2" in error
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_index_that_was_begun_outlives_a_mistake(model, texts, tmp_path, capsys):
    target = tmp_path / "index"
    begin(texts, str(target), model)
    with pytest.raises(UserError):
        building.build(texts, str(target), str(tmp_path / "no_model"))
    building.build(texts, str(target), model)
    assert f"Continuing after {len(TEXTS)} texts" in capsys.readouterr().out


def test_other_columns_of_a_table_are_found_again(model, tmp_path):
    rows = [{"body": text, "key": f"k{number}", "year": 1990 + number} for number, text in enumerate(TEXTS)]
    table = tmp_path / "table.jsonl"
    rows[4]["year"] = float("inf")
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    building.build(str(table), str(tmp_path / "index"), model, columns=["body"], id_column="key")
    row, infinite = IndexFiles(str(tmp_path / "index")).rows([3, 4])
    assert row == {"id": "k3", "text": "three", "other": {"year": 1993}}
    assert infinite["other"] == {"year": "Infinity"}, "which JSON can hold"


def test_model_with_other_vectors_is_refused(folder, model, tmp_path):
    arrays = tiny.random_weights(heads.BertModel({**tiny.CONFIG.to_dict(), "vocab_size": 11}), seed=1)
    for name in ("bert_config.json", "vocab.txt"):
        (tmp_path / name).write_text((tmp_path.__class__(model) / name).read_text())
    save_file(arrays, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="does not produce the vectors"):
        Index(folder, model=str(tmp_path))


def test_index_is_searched_by_the_engine_that_it_was_made_with(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "index")
    about = json.loads((tmp_path / "index" / "index.json").read_text())
    (tmp_path / "index" / "index.json").write_text(json.dumps({**about, "engine": "openvino"}))
    with pytest.raises(UserError, match="produces no embeddings with openvino"):
        Index(str(tmp_path / "index"))
    assert len(Index(str(tmp_path / "index"), engine="tensorflow")) == about["count"]


def damaged(name, content, fill=False):
    """Another content of a file; of the same size with `fill`."""

    def damage(folder):
        size = (folder / name).stat().st_size
        (folder / name).write_bytes(content.ljust(size)[:size] if fill else content)

    return damage


def changed(name, dtype, change):
    """The numbers of a file, changed."""
    return lambda folder: change(np.fromfile(folder / name, dtype)).astype(dtype).tofile(folder / name)


def says(**values):
    """Other values in index.json."""

    def damage(folder):
        path = folder / "index.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damaged("vectors.f32", b"12"), "is missing or damaged"),
        (damaged("texts.jsonl", b""), "is missing or damaged"),
        (damaged("index.json", b"{}"), "does not describe an index"),
        (damaged("index.json", b"{"), "index.json"),
        (damaged("texts.jsonl", b"x", fill=True), "Line 1 of"),
        (damaged("texts.jsonl", b'{"text":"a"}', fill=True), "Line 1 of"),
        (damaged("offsets.i64", b"\0", fill=True), "its offsets are out of order"),
        (changed("offsets.i64", "<i8", lambda offsets: offsets[[0, 2, 1, 3, 4, 5, 6]]), "its offsets are out of order"),
        (changed("offsets.i64", "<i8", lambda offsets: offsets + 1), "its offsets are out of order"),
        (changed("vectors.f32", "<f4", lambda numbers: np.append(numbers[:-1], np.nan)), "Vector 5 in"),
        (changed("vectors.f32", "<f4", lambda numbers: np.append(np.inf, numbers[1:])), "Vector 0 in"),
        (says(max_seq_length=-4), "does not describe an index (max_seq_length)"),
        (says(max_seq_length=True), "does not describe an index (max_seq_length)"),
        (says(count=0), "does not describe an index (count)"),
        (says(dimensions=0), "does not describe an index (dimensions)"),
        (says(pooling=3), "does not describe an index (pooling)"),
        (lambda folder: (folder / "index.json").unlink(), "is not an index"),
    ],
)
def test_damaged_folders_are_one_sentence(damage, message, folder, tmp_path, capsys):
    for path in tmp_path.__class__(folder).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    damage(tmp_path)
    assert command_line.main(["search", str(tmp_path), "red"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["search", "INDEX"], "Pass one query"),
        (["search", "INDEX", "  "], "The query is empty"),
        (["search", "INDEX", "red", "--top=0"], "top is 0"),
        (["search", "INDEX", "red", "--reranker=nowhere"], "There is no folder nowhere"),
        (["index", "nothing.txt", "new", "--model=m"], "There is no file nothing.txt"),
        (["index", "TEXTS", "INDEX", "--model=m"], "exists already"),
        (["index", "TEXTS", "new", "--model=m", "--text_columns=a,b"], "expected one"),
        (["index", "TEXTS", "gs://bucket/index", "--model=m"], "in remote storage"),
    ],
)
def test_bad_input_is_one_sentence(words, message, folder, texts, capsys):
    places = {"INDEX": folder, "TEXTS": texts}
    assert command_line.main([places.get(word, word) for word in words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_command_prints_hits(folder, capsys):
    assert command_line.main(["search", folder, "three", "--top=2", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["query"], row["hits"][0]["text"], len(row["hits"])) == ("three", "three", 2)


def test_reranker_orders_by_its_class(folder, index, tmp_path):
    def longer(text_a, text_b):  # "long" is the likelier the longer the second text is
        return quick_exports.shares(tf.ones_like(tf.strings.length(text_b)), tf.strings.length(text_b))

    export = quick_exports.saved(tmp_path, longer, ("text_a", tf.string, []), ("text_b", tf.string, []))
    with pytest.raises(UserError, match="pass one of short, long as reranker_label"):
        Reranker.load(str(export))
    index.reranker = Reranker.load(str(export), "long")
    try:
        hits = index.search("red", 3)
    finally:
        index.reranker = None
    assert [hit.text for hit in hits] == ["blue red green", "green blue", "one two"]
    assert hits[0].score == pytest.approx(14 / 15)


def test_graph_finds_what_the_product_finds(tmp_path):
    pytest.importorskip("faiss")
    vectors = units(200, 16)
    about = neighbors.build_graph(vectors, str(tmp_path / "graph"), lambda count: None)
    assert about["library"] == "faiss"
    numbers, scores = neighbors.Graph(str(tmp_path / "graph"), vectors.shape)(vectors[:10], 3)
    expected, expected_scores = neighbors.exact(vectors, vectors[:10], 3)
    assert np.mean(numbers == expected) > 0.9
    np.testing.assert_allclose(scores[:, 0], expected_scores[:, 0], rtol=1e-5)


@pytest.mark.parametrize("kind", ["type", "metric", "width", "count"])
def test_graph_of_something_else_is_refused(kind, tmp_path):
    library, path = pytest.importorskip("faiss"), str(tmp_path / "graph")
    vectors = units(20 if kind != "count" else 19, 8 if kind != "width" else 9)
    metric = library.METRIC_L2 if kind == "metric" else library.METRIC_INNER_PRODUCT
    flat, graph = library.IndexFlatIP(vectors.shape[1]), library.IndexHNSWFlat(vectors.shape[1], 4, metric)
    made = flat if kind == "type" else graph
    made.add(vectors)
    library.write_index(made, path)
    with pytest.raises(UserError, match="is not the graph of this index; expected one of 20 vectors of 8 numbers"):
        neighbors.Graph(path, (20, 8))


def test_graph_with_nan_is_refused(tmp_path):
    pytest.importorskip("faiss")
    vectors = units(20, 8)
    vectors[:] = np.nan
    neighbors.build_graph(vectors, str(tmp_path / "graph"), lambda count: None)
    found = neighbors.Graph(str(tmp_path / "graph"), vectors.shape)
    try:
        numbers, _ = found(units(1, 8), 3)
    except UserError as error:
        assert "NaN or infinity" in str(error)
    else:
        assert (numbers == -1).all()

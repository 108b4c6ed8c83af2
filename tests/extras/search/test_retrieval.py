"""Search by words, its fusion with vectors, and the scores of an index; negatives that are mined from one."""

import json
import math
import unicodedata

import numpy as np
import pytest

from bert_tf.cli import main as command_line
from bert_tf.errors import UserError
from bert_tf.extras.search import mining, retrieval_scores, words
from bert_tf.extras.search.index import Index

TEXTS = ["red green red", "Blue, red!", "one two three four", "三 two"]


def test_rankings_are_fused_by_reciprocal_ranks():
    vectors, bm25 = np.array([[2, 0, 1], [3, 1, 0]]), np.array([[0, 3, -1], [-1, -1, -1]])
    numbers, scores = words.fused([vectors, bm25], 4)
    assert numbers.tolist() == [[0, 2, 3, 1], [3, 1, 0, -1]]
    np.testing.assert_allclose(scores[0], [1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63], rtol=1e-6)
    assert words.fused([vectors, bm25], 1)[0].tolist() == [[0], [3]]


def test_retrieval_scores():
    scores = retrieval_scores.scores([["a", "b", "c"], ["x", "y"], []], [{"b"}, {"x", "z"}, {"q"}])
    ndcg = [1 / math.log2(3), 1 / (1 + 1 / math.log2(3)), 0]
    assert scores["ndcg_at_10"] == pytest.approx(sum(ndcg) / 3)
    assert scores["mrr_at_10"] == pytest.approx((0.5 + 1) / 3)
    assert scores["recall_at_1"] == pytest.approx(0.5 / 3) and scores["recall_at_10"] == pytest.approx(1.5 / 3)


def test_queries_are_read_from_rows_and_lists(tmp_path):
    path = tmp_path / "queries.jsonl"
    rows = [{"query": "a", "id": 1}, {"query": "b", "id": ["x", "y"]}, {"query": "a", "id": "2"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert retrieval_scores.read(str(path), "query", "id") == {"a": {"1", "2"}, "b": {"x", "y"}}
    path.write_text(json.dumps({"query": "a", "id": ""}))
    with pytest.raises(UserError, match="the query or the id of its text is empty"):
        retrieval_scores.read(str(path), "query", "id")


def test_words_are_found_by_bm25(tmp_path):
    pytest.importorskip("bm25s")
    words.build(TEXTS, str(tmp_path / "bm25"))
    numbers, scores = words.Words(str(tmp_path / "bm25"), len(TEXTS))(["RED", "三", "?", "nothing"], 3)
    assert numbers.tolist() == [[0, 1, -1], [3, -1, -1], [-1, -1, -1], [-1, -1, -1]]
    length, average = np.array([3, 2]), 11 / 4
    counts, idf = np.array([2, 1]), math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    expected = idf * counts / (counts + 1.5 * (1 - 0.75 + 0.75 * length / average))
    np.testing.assert_allclose(scores[0, :2], expected, rtol=1e-5)
    with pytest.raises(UserError, match="words of 4 texts; expected 5: rebuild the index"):
        words.Words(str(tmp_path / "bm25"), 5)
    (tmp_path / "bm25" / "params.index.json").write_text("{")
    with pytest.raises(UserError, match="bm25 cannot be read"):
        words.Words(str(tmp_path / "bm25"), 4)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    """An index with words."""
    pytest.importorskip("bm25s")
    folder = tmp_path_factory.mktemp("words")
    (folder / "texts.txt").write_text("\n".join(["red", "green blue", "one two", "three", "blue red green"]))
    Index.build(str(folder / "texts.txt"), str(folder / "index"), model, bm25=True)
    return folder


def test_index_with_words_is_searched_by_both(folder, capsys):
    hybrid = Index(str(folder / "index"))
    assert hybrid.method == "hybrid"
    (best, *_), (one, *_) = hybrid.search_all(["red", "two one"], 3)
    assert (best.text, one.text) == ("red", "one two") and best.score == pytest.approx(2 / 61)
    assert [hit.text for hit in Index(str(folder / "index"), method="bm25").search("green", 5)] == [
        "green blue",
        "blue red green",
    ]
    (folder / "queries.csv").write_text("query,id\nred,0\ntwo one,2\n")
    command = ["evaluate", str(folder / "index"), f"--file={folder}/queries.csv", "--json"]
    assert command_line.main(command) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["method"] == "hybrid" and answer["scores"]["recall_at_1"] == 1 and answer["queries"] == 2


def test_methods_that_an_index_lacks_are_refused(model, tmp_path):
    (tmp_path / "texts.txt").write_text("red")
    Index.build(str(tmp_path / "texts.txt"), str(tmp_path / "index"), model)
    assert Index(str(tmp_path / "index")).method == "vectors"
    with pytest.raises(UserError, match="has no words for method=hybrid: rebuild it with `bert-tf index --bm25`"):
        Index(str(tmp_path / "index"), method="hybrid")
    with pytest.raises(UserError, match="method is 'x'; expected auto or one of vectors, bm25, hybrid"):
        Index(str(tmp_path / "index"), method="x")


def test_negatives_are_near_and_no_positives(model, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("\n".join(["red", "green blue", "one two", "three", "blue red green"]))
    Index.build(f"{tmp_path}/texts.txt", f"{tmp_path}/index", model)
    index = Index(f"{tmp_path}/index")
    pairs = [("red", "red"), ("red", "three")]
    (row,) = mining.mine(index, pairs[:1], mining.MiningOptions(negatives=2))
    assert list(row) == ["red", *(hit.text for hit in index.search("red", 3))], "the nearest but the positive"
    (row, *_) = mining.mine(index, pairs, mining.MiningOptions(negatives=3))
    assert row[:2] == pairs[0] and set(row[2:]) == {"green blue", "one two", "blue red green"}
    assert list(mining.mine(index, pairs, mining.MiningOptions(margin=3))) == [], "cosines are at most 2 apart"
    with pytest.raises(UserError, match="^margin is not a number"):
        mining.MiningOptions(margin=float("nan")).check()
    ((*_, text),) = mining.mine(index, [("three", "not there")], mining.MiningOptions(margin=-3))
    assert text == "three", "it may be nearer than the positive, which need not be in the index"
    one = mining.MiningOptions()

    def by_length(query, texts):
        return -np.array([len(text) for text in texts])

    ((_, _, text),) = mining.mine(index, [("x", "three")], mining.MiningOptions(depth=5), by_length)
    assert text != "red", "it is shorter than the positive"
    (tmp_path / "pairs.csv").write_text("query,text\nred,red\n")
    command = ["mine", f"{tmp_path}/pairs.csv", f"{tmp_path}/out.jsonl", f"--index={tmp_path}/index"]
    assert command_line.main([*command, "--judged"]) == 0
    assert "1 of 1 pairs have 1 negative:" in capsys.readouterr().out
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written == list(mining.judged(mining.mine(index, pairs[:1], one), ("query", "text")))
    assert written[0] == {"query": "red", "text": "red", "label": 1} and written[1]["label"] == 0
    assert command_line.main([*command, "--negatives=0"]) == 2
    assert "negatives is 0; expected 1 or more" in capsys.readouterr().err


def test_negatives_differ_in_more_than_case_accents_and_spaces(model, tmp_path):
    texts = [
        "red green",
        "Red  Green",
        "RÉD\u00a0green",
        "blue",
        "BLUE",
        " blue",
        "one",
        "ｏｎｅ",
        "two",
        "TWO",
        "three",
    ]
    lines = (json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts))
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    Index.build(f"{tmp_path}/texts.jsonl", f"{tmp_path}/index", model, id_column="id", columns=["text"])
    pairs = [("red", "Red green"), (" Red", "two")]
    any_score = {"margin": -3.0, "depth": len(texts)}
    found = list(mining.mine(Index(f"{tmp_path}/index"), pairs, mining.MiningOptions(negatives=3, **any_score)))
    for (query, positive), (asked, own, *negatives) in zip(pairs, found, strict=True):
        assert (asked, own) == (query, positive)
        assert sorted(unicodedata.normalize("NFKC", text).strip().lower() for text in negatives) == [
            "blue",
            "one",
            "three",
        ]
    assert not list(mining.mine(Index(f"{tmp_path}/index"), pairs, mining.MiningOptions(negatives=4, **any_score)))

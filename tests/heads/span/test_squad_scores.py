"""Exact match and F1: the official evaluators' numbers, worked out by hand."""

import pytest

from bert_tf.data.questions import Question
from bert_tf.heads.span import squad_scores
from bert_tf.heads.span.squad_scores import character_f1, exact_match, f1, f1_with_null, normalize


def question(name, *answers, known=True):
    return Question(
        id=name, question="?", context="", answers=tuple((a, 0) for a in answers),
        is_answerable=bool(answers) if known else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The  Cat, (a) dog!", "cat dog"),
        ("a.m.", "am"),
        ("theatre an hour", "theatre hour"),
        ("«Straße»", "«straße»"),  # only ASCII punctuation is dropped
        ("the", ""),
    ],
)
def test_normalization_drops_case_punctuation_and_articles(text, expected):
    assert normalize(text) == expected


@pytest.mark.parametrize(
    "answer, prediction, exact, overlap, overlap_with_null",
    [
        ("the red fox", "red fox", 1, 1.0, 1.0),
        ("red fox", "fox", 0, 2 / 3, 2 / 3),
        ("red fox", "fox fox", 0, 0.5, 0.5),
        ("red", "blue", 0, 0.0, 0.0),
        ("", "", 1, 0.0, 1.0),
        ("red", "", 0, 0.0, 0.0),
        ("the", "a", 1, 0.0, 1.0),
    ],
)
def test_exact_match_and_f1(answer, prediction, exact, overlap, overlap_with_null):
    assert (exact_match(answer, prediction), f1(answer, prediction)) == (exact, pytest.approx(overlap))
    assert f1_with_null(answer, prediction) == pytest.approx(overlap_with_null)


def test_ideographs_count_as_words():
    assert f1("北京大学", "北京") == 0
    assert character_f1("北京大学", "北京") == pytest.approx(2 * 1 * 0.5 / 1.5)
    assert character_f1("1998年 ok", "1998年") == pytest.approx(2 * 1 * (2 / 3) / (5 / 3))


def test_squad_1_takes_the_best_answer_and_counts_missing_ones():
    questions = [question("1", "red fox", "fox"), question("2", "a dog"), question("3", "cat")]
    scores = squad_scores.evaluate(questions, {"1": "fox", "2": "dog house", "surplus": "x"})
    assert scores == {"exact_match": pytest.approx(100 / 3), "f1": pytest.approx(100 * (1 + 2 / 3) / 3)}
    assert squad_scores.differences(questions, {"1": "", "surplus": "x"}) == (["2", "3"], ["surplus"])
    assert set(squad_scores.evaluate([question("1", "北京")], {"1": "北京"})) == {"exact_match", "f1", "character_f1"}
    assert squad_scores.evaluate([question("1", known=False)], {"1": "x"}) == {}
    assert squad_scores.evaluate([question("1", "the")], {"1": "the"}) == {"exact_match": 100.0, "f1": 0.0}


def test_squad_2_subsets_and_best_thresholds():
    questions = [question("1", "fox"), question("2"), question("3"), question("4", "old dog")]
    predictions = {"1": "fox", "2": "cat", "3": "", "4": "dog"}
    scores = squad_scores.evaluate_with_null(questions, predictions)
    assert scores == {
        "exact": 50.0, "f1": pytest.approx(100 * (1 + 1 + 2 / 3) / 4), "total": 4,
        "HasAns_exact": 50.0, "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 2), "HasAns_total": 2,
        "NoAns_exact": 50.0, "NoAns_f1": 50.0, "NoAns_total": 2,
    }  # fmt: skip
    odds = {"1": -3.0, "4": -1.0, "2": 0.5, "3": 2.0}
    scores = squad_scores.evaluate_with_null(questions, predictions, odds)
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (75.0, -3.0)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (pytest.approx(100 * (2 + 1 + 2 / 3) / 4), -1.0)


def test_best_threshold_is_below_all_odds_if_no_answer_is_best():
    results = {"total": 8, "NoAns_total": 3, "best_f1": 37.5, "best_f1_thresh": 0.0}
    assert squad_scores.best_f1_threshold(results, [-2.5, 4.0]) == -3.5
    better = {**results, "best_f1": 50.0, "best_f1_thresh": 1.25}
    assert squad_scores.best_f1_threshold(better, [-2.5, 4.0]) == 1.25


def test_missing_prediction_is_left_out_of_squad_2():
    questions = [question("1", "fox"), question("2")]
    assert squad_scores.evaluate_with_null(questions, {"1": "fox"})["total"] == 1
    assert squad_scores.evaluate_with_null(questions, {}) == {}

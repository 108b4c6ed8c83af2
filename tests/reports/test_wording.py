"""Numbers as people read them."""

import pytest

from bert_tf.errors import count_text
from bert_tf.reports import wording


@pytest.mark.parametrize(
    "name, value, scores, expected",
    [
        ("accuracy", 0.8083, (), "80.8%"),
        ("matched_accuracy", 1.0, (), "100.0%"),
        ("macro_f1", 0.0, (), "0.0%"),
        ("f1", 0.8, ("exact_match", "f1"), "0.8%"),
        ("best_f1", 81.94, ("best_exact", "best_f1"), "81.9%"),
        ("HasAns_exact", 50.0, ("exact", "HasAns_exact"), "50.0%"),
        ("exact_match", 80.8, ("exact_match", "f1"), "80.8%"),
        ("window_accuracy", 0.5, ("exact_match", "f1", "window_accuracy"), "50.0%"),
        ("matthews", 0.521, (), "0.521"),
        ("best_f1_thresh", -1.5, ("best_exact",), "-1.5"),
        ("loss", 0.7, ("loss", "accuracy"), "0.7"),
        ("accuracy", None, (), "–"),
    ],
)
def test_shares_are_in_percent_and_squads_scores_are_already(name, value, scores, expected):
    assert wording.score_text(name, value, scores) == expected


def test_nouns_have_their_number():
    texts = [count_text(number, "epoch") for number in (1, 1.0, 0.5, 3, 1000)]
    assert texts == ["1 epoch", "1 epoch", "0.5 epochs", "3 epochs", "1,000 epochs"]
    assert [count_text(number, "query", "queries") for number in (1, 2)] == ["1 query", "2 queries"]

"""Files of answers: in the form of the original, their scores, ensembles of several models."""

import json
import math

import pytest

from bert_tf.data.questions import Prediction, Question
from bert_tf.errors import UserError
from bert_tf.heads.span import squad_files

QUESTIONS = [Question("1", "?", "a fox", (("fox", 2),), True), Question("2", "?", "a fox", (), False)]


def answer(text, probability):
    return {
        "text": text,
        "start": 0,
        "end": len(text),
        "probability": probability,
        "start_logit": 1.0,
        "end_logit": 2.0,
    }


PREDICTIONS = [
    Prediction(answer("fox", 0.75), [answer("fox", 0.75), answer("", 0.25)], -1.0),
    Prediction(answer("", 0.5), [answer("é", 0.5), answer("", 0.5)], 0.5),
]


def test_files_match_the_original(tmp_path):
    path = squad_files.write(str(tmp_path), QUESTIONS, PREDICTIONS)
    assert json.loads((tmp_path / "predictions.json").read_text()) == {"1": "fox", "2": ""}
    assert json.loads((tmp_path / "null_odds.json").read_text()) == {"1": -1.0, "2": 0.5}
    best = json.loads((tmp_path / "nbest_predictions.json").read_text(encoding="utf-8"))
    assert best["2"][0] == {"text": "é", "start": 0, "end": 1, "probability": 0.5, "start_logit": 1.0, "end_logit": 2.0}
    scores, missing, surplus = squad_files.score(
        QUESTIONS, path, has_null=True, null_odds_path=tmp_path / "null_odds.json"
    )
    assert (scores["exact"], scores["best_f1"], missing, surplus) == (100.0, 100.0, [], [])
    assert {entry.name for entry in tmp_path.iterdir()} == {
        "predictions.json", "null_odds.json", "nbest_predictions.json",
    }  # fmt: skip


def test_squad_1_has_no_null_odds(tmp_path):
    squad_files.write(str(tmp_path), QUESTIONS[:1], [PREDICTIONS[0]._replace(null_odds=None)])
    assert not (tmp_path / "null_odds.json").exists()


@pytest.mark.parametrize(
    "content, message",
    [("[]", "a JSON list"), ("{", "not valid JSON"), ('{"1": 3}', "the answer of '1' is 3"), (None, "cannot be read")],
)
def test_invalid_file_is_one_sentence(content, message, tmp_path):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message):
        squad_files.score(QUESTIONS, str(path), has_null=False)


@pytest.mark.parametrize("odds", ["fox", None, True, float("nan")])
def test_odds_that_are_not_numbers_are_refused(odds, tmp_path):
    answers, path = tmp_path / "x.json", tmp_path / "odds.json"
    answers.write_text('{"1": "fox", "2": ""}')
    path.write_text(json.dumps({"1": -1.5, "2": odds}))
    with pytest.raises(UserError, match=r"odds.json: the odds of '2' are .*; expected a number"):
        squad_files.score(QUESTIONS, str(answers), has_null=True, null_odds_path=str(path))


def test_missing_and_extra_predictions_are_reported(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"1": "the fox", "9": "x"}')
    scores, missing, surplus = squad_files.score(QUESTIONS, str(path), has_null=False)
    assert (scores, missing, surplus) == ({"exact_match": 100.0, "f1": 100.0}, ["2"], ["9"])


def test_ensemble_averages_probabilities(tmp_path):
    paths = []
    for number, probabilities in enumerate(({"fox": 0.5, "a fox": 0.4, "": 0.1}, {"a fox": 0.7, "": 0.3})):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"1": [answer(text, value) for text, value in probabilities.items()]}))
        paths.append(str(path))
    (merged,) = squad_files.ensemble(paths, QUESTIONS[:1], n_best_size=2, has_null=True)
    assert [(a["text"], round(a["probability"], 3)) for a in merged.answers] == [("a fox", 0.55), ("fox", 0.25)]
    assert merged.answer["text"] == "a fox" and merged.null_odds == pytest.approx(-1.0116, abs=1e-4)
    (merged,) = squad_files.ensemble(paths, QUESTIONS[:1], n_best_size=2, has_null=True, threshold=-2)
    assert merged.answer["text"] == ""
    with pytest.raises(UserError, match="has no answers to '2'"):
        squad_files.ensemble(paths, QUESTIONS, n_best_size=2, has_null=True)


@pytest.mark.parametrize(
    "answers", [None, "fox", ["fox"], [{"text": "fox"}], [{"text": 1, "probability": 1}], [answer("fox", math.nan)]]
)
def test_ensemble_of_something_else_is_refused(tmp_path, answers):
    path = tmp_path / "n_best.json"
    path.write_text(json.dumps({"1": answers}))
    with pytest.raises(UserError, match="the answers of '1' are not a list of objects with text and probability"):
        squad_files.ensemble([str(path)], QUESTIONS[:1], n_best_size=2, has_null=True)

"""Predicted answers as the files of google-research/bert `run_squad.py`; scoring and ensembling such files.

Free of TensorFlow.
"""

import math
import os
from collections.abc import Sequence
from typing import Any

from bert_tf.data.questions import Answer, Prediction, Question, no_answer
from bert_tf.errors import UserError
from bert_tf.heads.span import squad_scores
from bert_tf.runtime import atomic_files
from bert_tf.runtime.json_files import require_json

PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"
EXPECTED = "an object {id: answer}"


def write(folder: str, questions: Sequence[Question], predictions: Sequence[Prediction]) -> str:
    """Writes the files of a run and returns the path of predictions.json.

    predictions.json {id: text}, nbest_predictions.json {id: [answers]}, with their offsets in the context, and, if
    null may be an answer, null_odds.json {id: null score minus the best other}.
    """
    pairs = list(zip(questions, predictions, strict=True))
    contents: dict[str, dict[str, Any]] = {
        PREDICTIONS: {question.id: prediction.answer["text"] for question, prediction in pairs},
        N_BEST: {question.id: prediction.answers for question, prediction in pairs},
    }
    if any(prediction.null_odds is not None for prediction in predictions):
        contents[NULL_ODDS] = {question.id: prediction.null_odds for question, prediction in pairs}
    for name, content in contents.items():
        atomic_files.write_json(os.path.join(folder, name), content, indent=4)
    return os.path.join(folder, PREDICTIONS)


def score(
    questions: Sequence[Question], path: str, *, has_null: bool, null_odds_path: str | None = None
) -> tuple[dict[str, float], list[str], list[str]]:
    """The official scores of a predictions file: ({score: number}, ids without prediction, surplus ids).

    has_null: whether to score as SQuAD 2.0, else as 1.1. null_odds_path: a null_odds.json, for the best thresholds.
    """
    predictions = require_json(path, EXPECTED)
    for name, text in predictions.items():
        if not isinstance(text, str):
            raise UserError(f"{path}: the answer of {name!r} is {text!r}; expected a text.")
    missing, surplus = squad_scores.differences(questions, predictions)
    if has_null:
        odds = _read_odds(null_odds_path) if null_odds_path else None
        return squad_scores.evaluate_with_null(questions, predictions, odds), missing, surplus
    return squad_scores.evaluate(questions, predictions), missing, surplus


def _read_odds(path: str) -> dict[str, float]:
    odds = require_json(path, EXPECTED)
    for name, number in odds.items():
        if type(number) not in (int, float) or number != number:
            raise UserError(f"{path}: the odds of {name!r} are {number!r}; expected a number, as in {NULL_ODDS}.")
    return odds


def ensemble(
    paths: Sequence[str], questions: Sequence[Question], *, n_best_size: int, has_null: bool, threshold: float = 0.0
) -> list[Prediction]:
    """Combines the answers of several models, from n-best files: the mean probability of every answer.

    An answer missing in a file has probability 0 there. The result is "No answer" if the logarithm of its
    odds against the best other is above the threshold. Raises UserError for a question missing in a file.
    """
    files = [_read_n_best(path) for path in paths]
    predictions = []
    for question in questions:
        for path, content in zip(paths, files, strict=True):
            if question.id not in content:
                raise UserError(f"{path} has no answers to {question.id!r}: pass files of the same questions.")
        answers = [content[question.id] for content in files]
        predictions.append(_merge(answers, n_best_size, has_null, threshold))
    return predictions


def _read_n_best(path: str) -> dict[str, list[Answer]]:
    content: dict[str, list[Answer]] = require_json(path, EXPECTED)
    for name, answers in content.items():
        if not isinstance(answers, list) or not all(map(_is_answer, answers)):
            raise UserError(
                f"{path}: the answers of {name!r} are not a list of objects with text and probability, as in {N_BEST}."
            )
    return content


def _is_answer(value: Any) -> bool:
    """Returns whether a JSON value has the required fields of one of the n best answers."""
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        return False
    probability = value.get("probability")
    return isinstance(probability, int | float) and type(probability) is not bool and 0 <= probability < math.inf


def _merge(
    answers_of_models: Sequence[Sequence[Answer]], n_best_size: int, has_null: bool, threshold: float
) -> Prediction:
    merged: dict[str, Answer] = {}
    for answers in answers_of_models:
        for answer in answers:
            mean = merged.setdefault(answer["text"], {**answer, "probability": 0.0})
            mean["probability"] += answer["probability"] / len(answers_of_models)
    n_best = sorted(merged.values(), key=lambda answer: -answer["probability"])[:n_best_size]
    best = next((answer for answer in n_best if answer["text"]), None)
    other = best or no_answer()
    if not has_null:
        return Prediction(other, n_best)
    null = merged.get("", no_answer())
    odds = math.log(max(null["probability"], 1e-30)) - math.log(max(other["probability"], 1e-30))
    return Prediction(null if odds > threshold or best is None else best, n_best, odds)


def scores_of(questions: Sequence[Question], predictions: Sequence[Prediction], *, has_null: bool) -> dict[str, float]:
    """The official scores of predictions for the first questions; for SQuAD 2.0 with the best thresholds.

    The thresholds are found on the forced answers, even where "no answer" is more likely.
    """
    pairs = list(zip(questions, predictions, strict=False))
    known, texts = [question for question, _ in pairs], {question.id: p.answer["text"] for question, p in pairs}
    if not has_null:
        return squad_scores.evaluate(known, texts)
    scores = squad_scores.evaluate_with_null(known, texts)
    odds = {question.id: p.null_odds for question, p in pairs if p.null_odds is not None}
    forced = {
        question.id: next((answer["text"] for answer in p.answers if answer["text"]), "") for question, p in pairs
    }
    best = squad_scores.evaluate_with_null(known, forced, odds)
    return scores | {name: value for name, value in best.items() if name.startswith("best_")}

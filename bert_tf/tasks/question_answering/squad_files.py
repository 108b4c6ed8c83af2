"""What is answered to questions, as the files of google-research/bert `run_squad.py`; scoring and joining such files.

An answered question is a dictionary as `answering.answered` gives it. Free of TensorFlow.
"""

import math
import os

from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files
from bert_tf.runtime.json_files import require_json
from bert_tf.tasks.question_answering import squad_scores

PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"
EXPECTED = "an object {id: answer}"


def write(folder, questions, told):
    """Writes predictions.json {id: text}, nbest_predictions.json {id: [answers]} and, where null may be an answer,
    null_odds.json {id: null score minus the best other}. The n best have their places in the context too.
    """
    pairs = list(zip(questions, told, strict=True))
    contents = {
        PREDICTIONS: {question.id: one["answer"]["text"] for question, one in pairs},
        N_BEST: {question.id: one["answers"] for question, one in pairs},
    }
    if any(one["null_odds"] is not None for one in told):
        contents[NULL_ODDS] = {question.id: one["null_odds"] for question, one in pairs}
    for name, content in contents.items():
        atomic_files.write_json(os.path.join(folder, name), content, indent=4)
    return os.path.join(folder, PREDICTIONS)


def score(questions, path, *, has_null, null_odds_path=None):
    """The official scores of a file of predictions: ({score: number}, ids without prediction, surplus ids).

    has_null: as SQuAD 2.0 scores, else as 1.1. null_odds_path: a null_odds.json, for the best thresholds.
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


def _read_odds(path):
    odds = require_json(path, EXPECTED)
    for name, number in odds.items():
        if type(number) not in (int, float) or number != number:
            raise UserError(f"{path}: the odds of {name!r} are {number!r}; expected a number, as in {NULL_ODDS}.")
    return odds


def joined(paths, questions, *, n_best_size, has_null, threshold=0.0):
    """The answers of several models as one: of files of n best, the mean probability of every answer.

    An answer that a file does not list has the probability 0 there. Returns a list as `answering.answered` does; "no
    answer" is given where the logarithm of its odds against the best other is above the threshold. Raises UserError
    for a question that one of the files has not.
    """
    files = [require_json(path, EXPECTED) for path in paths]
    told = []
    for question in questions:
        for path, found in zip(paths, files, strict=True):
            if question.id not in found:
                raise UserError(f"{path} has no answers to {question.id!r}: give files of the same questions.")
        told.append(_joined([found[question.id] for found in files], n_best_size, has_null, threshold))
    return told


def _joined(lists, n_best_size, has_null, threshold):
    merged = {}
    for answers in lists:
        for answer in answers:
            kept = merged.setdefault(answer["text"], {**answer, "probability": 0.0})
            kept["probability"] += answer["probability"] / len(lists)
    listed = sorted(merged.values(), key=lambda answer: -answer["probability"])[:n_best_size]
    nothing = {"text": "", "start": 0, "end": 0, "probability": 0.0}
    other = next((answer for answer in listed if answer["text"]), nothing)
    if not has_null:
        return {"answers": listed, "answer": other, "null_odds": None}
    null = merged.get("", nothing)
    odds = math.log(max(null["probability"], 1e-30)) - math.log(max(other["probability"], 1e-30))
    answer = null if odds > threshold or other is nothing else other
    return {"answers": listed, "answer": answer, "null_odds": odds}

"""Exact match and F1 of answers, computed as in SQuAD's official evaluators 1.1 and 2.0. Free of TensorFlow.

Predictions are {question id: text}, "" for "no answer". All scores are percentages.
"""

import collections
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence

from bert_tf.data.questions import Question

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = frozenset(string.punctuation)
# Characters that count as separate words in languages without spaces: CJK characters, kana.
UNSPACED = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f])")


def normalize(text: str) -> str:
    """Lower case, without punctuation and articles, single spaces."""
    text = "".join(character for character in text.lower() if character not in PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", text).split())


def exact_match(answer: str, prediction: str) -> int:
    """1 if both are equal once normalized, else 0."""
    return int(normalize(answer) == normalize(prediction))


def f1(answer: str, prediction: str) -> float:
    """The harmonic mean of precision and recall over words, as in 1.1: 0 if they share none, or have none."""
    return _f1(normalize(answer).split(), normalize(prediction).split())


def f1_with_null(answer: str, prediction: str) -> float:
    """Like `f1`, but 1 if neither has a word, as in 2.0."""
    return f1(answer, prediction) or float(normalize(answer) == normalize(prediction) == "")


def character_f1(answer: str, prediction: str) -> float:
    """Like `f1`, with every CJK character and kana a separate word, for languages written without spaces."""
    return _f1(*(UNSPACED.sub(r" \1 ", normalize(text)).split() for text in (answer, prediction)))


def _f1(answer: list[str], prediction: list[str]) -> float:
    same = sum((collections.Counter(answer) & collections.Counter(prediction)).values())
    if not same:
        return 0.0
    precision, recall = same / len(prediction), same / len(answer)
    return 2 * precision * recall / (precision + recall)


def evaluate(questions: Sequence[Question], predictions: Mapping[str, str]) -> dict[str, float]:
    """SQuAD 1.1's scores {"exact_match", "f1"} over all questions that have answers; a missing prediction counts as 0.

    For answers written without spaces, also "character_f1".
    """
    answerable = [question for question in questions if question.answers]
    if not answerable:
        return {}
    scores = {
        "exact_match": _mean_of_best(exact_match, answerable, predictions),
        "f1": _mean_of_best(f1, answerable, predictions),
    }
    if any(UNSPACED.search(text) for question in answerable for text, _ in question.answers):
        scores["character_f1"] = _mean_of_best(character_f1, answerable, predictions)
    return scores


def _mean_of_best(
    score: Callable[[str, str], float], questions: Sequence[Question], predictions: Mapping[str, str]
) -> float:
    total = 0.0
    for question in questions:
        prediction = predictions.get(question.id)
        if prediction is not None:
            total += max(score(text, prediction) for text, _ in question.answers)
    return 100.0 * total / len(questions)


def evaluate_with_null(
    questions: Sequence[Question], predictions: Mapping[str, str], null_odds: Mapping[str, float] | None = None
) -> dict[str, float]:
    """SQuAD 2.0's scores: "exact", "f1", "total", and the same for questions with and without an answer.

    Args:
        questions: only questions with known answers are scored; questions without a prediction are skipped, as in the
            official evaluator.
        predictions: {question id: text}.
        null_odds: {question id: how much more likely no answer is}; adds "best_exact" and "best_f1" and thresholds of
            these odds, above which answers become "", that reach them.
    """
    known = [question for question in questions if question.is_answerable is not None]
    labels = {q.id: [text for text, _ in q.answers if normalize(text)] or [""] for q in known}
    has_answer = {q.id: bool(q.answers) for q in known}
    exact, overlap = (
        {
            key: max(score(text, predictions[key]) for text in texts)
            for key, texts in labels.items()
            if key in predictions
        }
        for score in (exact_match, f1_with_null)
    )
    if not exact:
        return {}
    scores = _means(exact, overlap, list(exact), "")
    for prefix, is_answer in (("HasAns_", True), ("NoAns_", False)):
        ids = [key for key in exact if has_answer[key] is is_answer]
        scores |= _means(exact, overlap, ids, prefix) if ids else {}
    if null_odds:
        for name, values in (("exact", exact), ("f1", overlap)):
            best, threshold = best_threshold(predictions, values, null_odds, has_answer)
            scores |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return scores


def _means(exact: Mapping[str, float], overlap: Mapping[str, float], ids: list[str], prefix: str) -> dict[str, float]:
    return {
        f"{prefix}exact": 100.0 * sum(exact[key] for key in ids) / len(ids),
        f"{prefix}f1": 100.0 * sum(overlap[key] for key in ids) / len(ids),
        f"{prefix}total": len(ids),
    }


def best_threshold(
    predictions: Mapping[str, str],
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
    has_answer: Mapping[str, bool],
) -> tuple[float, float]:
    """(the best mean score in percent, the null odds above which answers must become "" to reach it).

    The official evaluator's search: it begins without any answers and adds one question after the other by rising
    odds. predictions: best if they are the forced answers, even where "no answer" is more likely.
    """
    current = best = float(sum(not value for value in has_answer.values()))
    threshold = 0.0
    for key in sorted(null_odds, key=lambda key: null_odds[key]):
        if key not in scores:
            continue
        if has_answer[key]:
            current += scores[key]
        elif predictions[key]:
            current -= 1
        if current > best:
            best, threshold = current, null_odds[key]
    return 100.0 * best / len(scores), threshold


def best_f1_threshold(scores: Mapping[str, float], null_odds: Iterable[float]) -> float:
    """The null odds above which answers must become "" to reach the "best_f1" of `evaluate_with_null`.

    Equals its "best_f1_thresh", unless no answers at all are best: there the official search returns 0, whatever the
    odds, and this function a number below all odds.
    """
    nothing = 100.0 * scores.get("NoAns_total", 0) / scores["total"]
    return scores["best_f1_thresh"] if scores["best_f1"] > nothing else min(0.0, *null_odds) - 1.0


def differences(questions: Sequence[Question], predictions: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """(ids of questions without a prediction, ids of predictions without a question)."""
    known = {question.id for question in questions}
    return [q.id for q in questions if q.id not in predictions], [key for key in predictions if key not in known]

"""Exact match and F1 of answers, as SQuAD's official evaluators 1.1 and 2.0 count them. Free of TensorFlow.

Predictions are {question id: text}, "" for "no answer". All scores are percentages.
"""

import collections
import re
import string

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = frozenset(string.punctuation)
# Characters that are words by themselves in languages without spaces: ideographs, kana.
UNSPACED = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f])")


def normalized(text):
    """Lower case, without punctuation and articles, single spaces."""
    text = "".join(character for character in text.lower() if character not in PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", text).split())


def exact_match(answer, prediction):
    """1 where both are the same once normalized, else 0."""
    return int(normalized(answer) == normalized(prediction))


def f1(answer, prediction):
    """The harmonic mean of precision and recall over words, as 1.1 counts: 0 where both share none, or have none."""
    return _f1(normalized(answer).split(), normalized(prediction).split())


def f1_with_null(answer, prediction):
    """As `f1`, but 1 where neither has a word, as 2.0 counts."""
    return f1(answer, prediction) or float(normalized(answer) == normalized(prediction) == "")


def character_f1(answer, prediction):
    """As `f1` with every ideograph and kana a word by itself, for languages that write no spaces."""
    return _f1(*(UNSPACED.sub(r" \1 ", normalized(text)).split() for text in (answer, prediction)))


def _f1(answer, prediction):
    same = sum((collections.Counter(answer) & collections.Counter(prediction)).values())
    if not same:
        return 0.0
    precision, recall = same / len(prediction), same / len(answer)
    return 2 * precision * recall / (precision + recall)


def evaluate(questions, predictions):
    """SQuAD 1.1's scores {"exact_match", "f1"} over all questions that have answers; a missing prediction counts 0.

    Where answers are written without spaces, "character_f1" too.
    """
    known = [question for question in questions if question.answers]
    if not known:
        return {}
    found = {"exact_match": _mean_of_best(exact_match, known, predictions), "f1": _mean_of_best(f1, known, predictions)}
    if any(UNSPACED.search(text) for question in known for text, _ in question.answers):
        found["character_f1"] = _mean_of_best(character_f1, known, predictions)
    return found


def _mean_of_best(score, questions, predictions):
    total = 0.0
    for question in questions:
        guess = predictions.get(question.id)
        if guess is not None:
            total += max(score(text, guess) for text, _ in question.answers)
    return 100.0 * total / len(questions)


def evaluate_with_null(questions, predictions, null_odds=None):
    """SQuAD 2.0's scores: "exact", "f1", "total", and the same for questions with and without an answer.

    null_odds: {question id: how much likelier no answer is}; with them come "best_exact" and "best_f1" and the
    thresholds of these numbers, above which answers become "", that give them. Questions without a prediction are left
    out, as in the official evaluator.
    """
    truth = {q.id: [text for text, _ in q.answers if normalized(text)] or [""] for q in questions if _is_known(q)}
    has_answer = {q.id: bool(q.answers) for q in questions if _is_known(q)}
    exact, overlap = (
        {
            key: max(score(text, predictions[key]) for text in texts)
            for key, texts in truth.items()
            if key in predictions
        }
        for score in (exact_match, f1_with_null)
    )
    if not exact:
        return {}
    found = _means(exact, overlap, list(exact), "")
    for name, wanted in (("HasAns_", True), ("NoAns_", False)):
        ids = [key for key in exact if has_answer[key] is wanted]
        found |= _means(exact, overlap, ids, name) if ids else {}
    for name, scores in (("exact", exact), ("f1", overlap)) if null_odds else ():
        best, threshold = best_threshold(predictions, scores, null_odds, has_answer)
        found |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return found


def _is_known(question):
    return question.is_answerable is not None


def _means(exact, overlap, ids, prefix):
    return {
        f"{prefix}exact": 100.0 * sum(exact[key] for key in ids) / len(ids),
        f"{prefix}f1": 100.0 * sum(overlap[key] for key in ids) / len(ids),
        f"{prefix}total": len(ids),
    }


def best_threshold(predictions, scores, null_odds, has_answer):
    """(the best mean score in percent, the number of null_odds above which answers must become "" for it).

    The official evaluator's search: from answering nothing on, one question after the other by rising odds.
    predictions: best where they are what is answered if there must be an answer.
    """
    current = best = sum(not value for value in has_answer.values())
    threshold = 0.0
    for key in sorted(null_odds, key=null_odds.get):
        if key not in scores:
            continue
        if has_answer[key]:
            current += scores[key]
        elif predictions[key]:
            current -= 1
        if current > best:
            best, threshold = current, null_odds[key]
    return 100.0 * best / len(scores), threshold


def best_f1_threshold(results, null_odds):
    """The number of null_odds above which answers must become "" to reach the "best_f1" of `evaluate_with_null`.

    That is its "best_f1_thresh", but where it is best to answer nothing: there the official search says 0, whatever the
    odds are, and this a number below them all.
    """
    nothing = 100.0 * results.get("NoAns_total", 0) / results["total"]
    return results["best_f1_thresh"] if results["best_f1"] > nothing else min(0.0, *null_odds.values()) - 1.0


def differences(questions, predictions):
    """(ids of questions without a prediction, ids of predictions without a question)."""
    known = {question.id for question in questions}
    return [q.id for q in questions if q.id not in predictions], [key for key in predictions if key not in known]

"""Predicted and true answers, highlighted in the surrounding text. Free of TensorFlow.

A part is [text, mark]: a passage of a context and its meaning, "answer" (the predicted one), "truth", "both" or
"" (neither).
"""

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bert_tf.data.questions import Answer, Prediction, Question, answer_span
from bert_tf.errors import count_text
from bert_tf.heads.span import squad_scores

SHOWN = 6  # examples of correct answers, and of mistakes
AROUND = 140  # characters of text on either side of a mark
GAP = " … "
MARKS = {(True, True): "both", (True, False): "answer", (False, True): "truth", (False, False): ""}

Span = tuple[int, int]


class Judgement(NamedTuple):
    """A predicted answer, the true answer most similar to it, their F1, and whether it is right."""

    question: Question
    answer: Answer
    true_answer: tuple[str, int]
    f1: float
    is_right: bool


def details(questions: Sequence[Question], predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Content of eval_details.json for a split's questions: counts and examples.

    Args:
        questions: only questions with known answers count.
        predictions: predictions for the first questions.

    Returns:
        {"right", "partly", "wrong": counts, "examples": [{"question", "parts", "answer", "truth", "probability",
        "is_right"}]}: right answers spread over the split, then the mistakes with the highest probability. Partly
        right answers share a word with the true one.
    """
    judgements = [
        judge(question, prediction.answer)
        for question, prediction in zip(questions, predictions, strict=False)
        if question.is_answerable is not None
    ]
    right = [each for each in judgements if each.is_right]
    mistakes = sorted((each for each in judgements if not each.is_right), key=lambda each: -each.answer["probability"])
    partly = sum(each.f1 > 0 for each in mistakes)
    shown = right[:: -(-len(right) // SHOWN) or 1] + mistakes[:SHOWN]
    return {
        "right": len(right),
        "partly": partly,
        "wrong": len(mistakes) - partly,
        "examples": list(map(_example, shown)),
    }


def summarize(details: Mapping[str, Any]) -> list[str]:
    """The counts of `details` in words, with some of the right answers, for people."""
    total = sum(details[name] for name in ("right", "partly", "wrong"))
    counts = "{right:,} right, {partly:,} partly right (a word in common), {wrong:,} wrong".format(**details)
    right = [example for example in details["examples"] if example["is_right"]][:3]
    lines = [f"{count_text(total, 'answer')}: {counts}.", *["Some right answers:"] * bool(right)]
    for example in right:
        lines.append(f"  {textwrap.shorten(example['question'], 90)}  ->  {example['answer'] or 'no answer'}")
    return lines


def judge(question: Question, answer: Answer) -> Judgement:
    """Compares an answer with the true answers."""
    truths = question.answers or (("", 0),)
    scored = ((squad_scores.f1(true_answer[0], answer["text"]), true_answer) for true_answer in truths)
    f1, true_answer = max(scored, key=lambda pair: pair[0])
    is_right = any(squad_scores.exact_match(text, answer["text"]) for text, _ in truths)
    return Judgement(question, answer, true_answer, f1, is_right)


def _example(judgement: Judgement) -> dict[str, Any]:
    question, answer, true_answer = judgement.question, judgement.answer, judgement.true_answer
    true_span = answer_span(question, true_answer) if true_answer[0] else None
    predicted_span = (answer["start"], answer["end"]) if answer["end"] > answer["start"] else None
    return {
        "question": question.question,
        "parts": parts(question.context, predicted_span, true_span),
        "answer": answer["text"],
        "truth": true_answer[0],
        "probability": answer["probability"],
        "is_right": judgement.is_right,
    }


def parts(context: str, answer: Span | None, true_answer: Span | None) -> list[list[str]]:
    """A context around the predicted and the true answer, (start, end) in characters, as a list of parts.

    Text far from both is replaced by " … "; without any span, the parts are the beginning of the context.
    """
    spans = sorted(span for span in (answer, true_answer) if span)
    windows = _merge([_window(context, *span) for span in spans or [(0, 0)]])
    result = []
    for number, (first, last) in enumerate(windows):
        if first > 0:
            result.append([GAP, ""])
        bounds = {first, last, *(bound for span in spans for bound in span if first < bound < last)}
        for start, end in itertools.pairwise(sorted(bounds)):
            mark = MARKS[_contains(answer, start, end), _contains(true_answer, start, end)]
            result.append([context[start:end], mark])
        if number == len(windows) - 1 and last < len(context):
            result.append([GAP, ""])
    return result


def _contains(span: Span | None, start: int, end: int) -> bool:
    return span is not None and span[0] <= start and end <= span[1]


def _window(context: str, start: int, end: int) -> Span:
    """The span with some text around it, cut at spaces if there are any."""
    first, last = max(0, start - AROUND), min(len(context), end + AROUND)
    if first > 0:
        first = max(first, context.find(" ", first, start) + 1)
    if last < len(context):
        space = context.rfind(" ", end, last)
        last = space if space > end else last
    return first, last


def _merge(windows: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for first, last in windows:
        if merged and first <= merged[-1][1] + len(GAP):
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged

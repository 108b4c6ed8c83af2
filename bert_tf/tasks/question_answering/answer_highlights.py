"""What was answered to some questions, answer and truth marked in the text around them. Free of TensorFlow.

A part is [text, mark]: a piece of a context and what it belongs to, "answer", "truth", "both" or "" (neither).
"""

import itertools
import textwrap

from bert_tf.tasks.question_answering import squad_scores
from bert_tf.tasks.question_answering.questions import place_of

SHOWN = 6  # examples of those that are right, and of those that are not
AROUND = 140  # characters of the text that are kept on either side of a mark
GAP = " … "
MARKS = {(True, True): "both", (True, False): "answer", (False, True): "truth", (False, False): ""}


def details(questions, told):
    """How many answers are right, and examples: what eval_details.json holds of a split's questions.

    questions: of which only those count whose truth is known. told: for each what `answering.answered` gives.
    Returns {"right", "partly", "wrong": how many, "examples": [{"question", "parts", "answer", "truth", "probability",
    "is_right"}]}, the right ones from all over the split, then the mistakes the model was surest of. Partly right is an
    answer that shares a word with the truth.
    """
    judged = [
        judge(question, one["answer"])
        for question, one in zip(questions, told, strict=False)
        if question.is_answerable is not None
    ]
    right = [one for one in judged if one["is_right"]]
    others = sorted((one for one in judged if not one["is_right"]), key=lambda one: -one["answer"]["probability"])
    partly = sum(one["f1"] > 0 for one in others)
    shown = right[:: -(-len(right) // SHOWN) or 1] + others[:SHOWN]
    examples = list(map(_shown, shown))
    return {"right": len(right), "partly": partly, "wrong": len(others) - partly, "examples": examples}


def sentences(details):
    """What `details` found in words, with some of the right answers, for people."""
    counts = "{right:,} are right, {partly:,} share words with the truth, {wrong:,} are wrong".format(**details)
    right = [one for one in details["examples"] if one["is_right"]][:3]
    said = [f"Of {sum(details[name] for name in ('right', 'partly', 'wrong')):,} answers {counts}."]
    said += ["Of the right ones:"] * bool(right)
    return said + [f"  {textwrap.shorten(one['question'], 90)}  ->  {one['answer'] or 'no answer'}" for one in right]


def judge(question, answer):
    """An answer beside that of the true ones which it is most like, whether it is right, and its F1."""
    truths = question.answers or (("", 0),)
    f1, truth = max(((squad_scores.f1(truth[0], answer["text"]), truth) for truth in truths), key=lambda pair: pair[0])
    is_right = any(squad_scores.exact_match(text, answer["text"]) for text, _ in truths)
    return {"question": question, "answer": answer, "truth": truth, "f1": f1, "is_right": is_right}


def _shown(judged):
    question, answer, truth = (judged[name] for name in ("question", "answer", "truth"))
    true_place = place_of(question, truth) if truth[0] else None
    answer_place = (answer["start"], answer["end"]) if answer["end"] > answer["start"] else None
    return {
        "question": question.question,
        "parts": parts(question.context, answer_place, true_place),
        "answer": answer["text"],
        "truth": truth[0],
        "probability": answer["probability"],
        "is_right": judged["is_right"],
    }


def parts(context, answer, truth):
    """A context around an answer and the truth, (start, end) in characters or None each, as a list of parts.

    What is far from both is left out, for " … "; without any place it is the beginning of the context.
    """
    places = sorted(place for place in (answer, truth) if place)
    windows = _joined([_window(context, *place) for place in places or [(0, 0)]])
    found = []
    for number, (first, last) in enumerate(windows):
        if first > 0:
            found.append([GAP, ""])
        bounds = {first, last, *(bound for place in places for bound in place if first < bound < last)}
        for start, end in itertools.pairwise(sorted(bounds)):
            inside = tuple(bool(place) and place[0] <= start and end <= place[1] for place in (answer, truth))
            found.append([context[start:end], MARKS[inside]])
        if number == len(windows) - 1 and last < len(context):
            found.append([GAP, ""])
    return found


def _window(context, start, end):
    """The place with some text around it, from a space to a space where there are any."""
    first, last = max(0, start - AROUND), min(len(context), end + AROUND)
    if first > 0:
        first = max(first, context.find(" ", first, start) + 1)
    if last < len(context):
        space = context.rfind(" ", end, last)
        last = space if space > end else last
    return first, last


def _joined(windows):
    """Windows that touch as one."""
    found = []
    for first, last in windows:
        if found and first <= found[-1][1] + len(GAP):
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found

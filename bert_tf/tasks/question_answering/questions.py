"""SQuAD files: questions, their contexts and answers (Rajpurkar et al. 2016, 2018). Free of TensorFlow.

Offsets of answers are characters (code points) of the context, as in the files.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple, NotRequired, TypedDict

from bert_tf.errors import UserError
from bert_tf.runtime.json_files import require_json


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A question about a context. `answers` are (text, start in characters), () where there is no answer.

    is_answerable: whether the context holds the answer, as the file says; None where it says nothing (a file without
    answers).
    """

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...] = ()
    is_answerable: bool | None = None
    title: str = ""


class Answer(TypedDict):
    """A predicted answer: the characters [start, end) of the context, an empty text for "no answer"."""

    text: str
    start: int
    end: int
    probability: float
    start_logit: NotRequired[float]
    end_logit: NotRequired[float]


class Prediction(NamedTuple):
    """What is predicted for a question.

    answer: the one to give. answers: the n best, among them "no answer" where that may be one. null_odds: null score
    minus the best other, None where "no answer" is no answer.
    """

    answer: Answer
    answers: list[Answer]
    null_odds: float | None = None


def no_answer() -> Answer:
    """An empty answer with probability 0."""
    return {"text": "", "start": 0, "end": 0, "probability": 0.0}


def read(path: str) -> list[Question]:
    """The questions of a file in SQuAD's layout, 1.1 or 2.0, in its order.

    Raises UserError, with the location in the file, for any other layout; for an id that occurs twice; and where there
    is no question at all.
    """
    questions: dict[str, Question] = {}
    for question in _questions_in(path, _content(path)):
        if question.id in questions:
            raise UserError(f"{path} has two questions with the id {question.id!r}; expected another id for each.")
        questions[question.id] = question
    if not questions:
        raise UserError(f"{path} holds no questions; expected at least one in its data.")
    return list(questions.values())


def _content(path: str) -> list[Any]:
    content = require_json(path, "a file in SQuAD's layout")
    if not isinstance(content.get("data"), list):
        raise UserError(f'{path} is not in SQuAD\'s layout; expected {{"data": [{{"paragraphs": [...]}}, ...]}}.')
    return content["data"]


def _questions_in(path: str, articles: list[Any]) -> Iterator[Question]:
    for i, article in enumerate(articles):
        location = f"data[{i}]"
        title = article.get("title", "") if isinstance(article, dict) else ""
        for j, paragraph in enumerate(_list(path, article, "paragraphs", location)):
            inner = f"{location}.paragraphs[{j}]"
            context = _text(path, paragraph, "context", inner)
            for k, entry in enumerate(_list(path, paragraph, "qas", inner)):
                yield _question(path, entry, context, str(title), f"{inner}.qas[{k}]")


def _question(path: str, entry: Any, context: str, title: str, location: str) -> Question:
    if not isinstance(entry, dict):
        raise UserError(f"{path}: {location} is {entry!r}; expected a question as an object.")
    answers = []
    for number, answer in enumerate(_list(path, entry, "answers", location) if "answers" in entry else []):
        inner = f"{location}.answers[{number}]"
        text = _text(path, answer, "text", inner)
        start = answer.get("answer_start")
        if not isinstance(start, int) or isinstance(start, bool):
            raise UserError(f"{path}: {inner}.answer_start is {start!r}; expected a number of characters.")
        answers.append((text, start))
    is_known = "answers" in entry
    is_impossible = entry.get("is_impossible", False)
    if not isinstance(is_impossible, bool):
        raise UserError(f"{path}: {location}.is_impossible is {is_impossible!r}; expected true or false.")
    is_answerable = (bool(answers) and not is_impossible) if is_known else None
    identifier = entry.get("id")
    if not isinstance(identifier, str | int) or identifier == "":
        raise UserError(f"{path}: {location}.id is {identifier!r}; expected the question's id.")
    return Question(
        id=str(identifier),
        question=_text(path, entry, "question", location),
        context=context,
        answers=tuple(answers) if is_answerable else (),
        is_answerable=is_answerable,
        title=title,
    )


def _list(path: str, parent: Any, name: str, location: str) -> list[Any]:
    value = parent.get(name) if isinstance(parent, dict) else None
    if not isinstance(value, list):
        raise UserError(f"{path}: {location} has no list {name!r}; expected a file in SQuAD's layout.")
    return value


def _text(path: str, parent: Any, name: str, location: str) -> str:
    value = parent.get(name) if isinstance(parent, dict) else None
    if not isinstance(value, str):
        raise UserError(f"{path}: {location}.{name} is {value!r}; expected a text.")
    return value


def answer_span(question: Question, answer: tuple[str, int]) -> tuple[int, int] | None:
    """(start, end) in characters of an answer in its context, None where the context does not contain the text.

    Where the text is not at the offset that the file names, as in some files, the nearest occurrence is taken.
    """
    text, start = answer
    if text and question.context[start : start + len(text)] == text and start >= 0:
        return start, start + len(text)
    starts, occurrence = [], question.context.find(text) if text.strip() else -1
    while occurrence >= 0:
        starts.append(occurrence)
        occurrence = question.context.find(text, occurrence + 1)
    if not starts:
        return None
    nearest = min(starts, key=lambda occurrence: abs(occurrence - start))
    return nearest, nearest + len(text)

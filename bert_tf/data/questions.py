"""SQuAD files: questions, their contexts and answers (Rajpurkar et al. 2016, 2018). Free of TensorFlow.

Offsets of answers are characters (code points) of the context, as in the files.
"""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NotRequired, TypedDict

from bert_tf.data import tables
from bert_tf.errors import UserError
from bert_tf.runtime.json_files import require_json

JSON = ".json"
SPACE = "[ \\t\\r\\n\\u202f]+"  # between words, as in run_squad.py


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A question about a context. `answers` are (text, start in characters), () if there is no answer.

    is_answerable: whether the context contains the answer, according to the file; None if unspecified (a file without
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
    """Prediction for a question.

    answer: the final answer. answers: the n best, including "no answer" if allowed. null_odds: null score minus the
    best other score, None if "no answer" is not allowed.
    """

    answer: Answer
    answers: list[Answer]
    null_odds: float | None = None


def no_answer() -> Answer:
    """The answer "" with probability 0."""
    return {"text": "", "start": 0, "end": 0, "probability": 0.0}


def read(path: str) -> list[Question]:
    """The questions of a file in SQuAD's layout, 1.1 or 2.0, in order.

    Other layouts are read too: a list of paragraphs, {"context", "qas"}; a list or a table of questions, {"id",
    "context", "question", "answers": {"text": [...], "answer_start": [...]}}, as JSON, JSON lines or Parquet.

    Raises UserError, with the location in the file, for any other layout, for repeated ids, and for a file without
    questions.
    """
    questions: dict[str, Question] = {}
    for location, entry in _entries(path):
        for question in _questions_in(path, entry, location):
            if question.id in questions:
                raise UserError(f"{path} has two questions with the id {question.id!r}; expected a unique id for each.")
            questions[question.id] = question
    if not questions:
        raise UserError(f"{path} contains no questions; expected at least one in its data.")
    return list(questions.values())


def _entries(path: str) -> Iterator[tuple[str, Any]]:
    """The articles, paragraphs or questions of a file, each with its location in it."""
    if tables.is_table(path) and not path.lower().endswith(JSON):
        yield from ((place.removesuffix(f" of {path}"), row) for place, row in tables.read(path))
        return
    content = require_json(path, "a file in SQuAD's layout", kind=(dict, list), has_lines=True)
    entries = content.get("data") if isinstance(content, dict) else content
    if not isinstance(entries, list):
        raise UserError(f'{path} is not in SQuAD\'s layout; expected {{"data": [{{"paragraphs": [...]}}, ...]}}.')
    yield from ((f"data[{number}]", entry) for number, entry in enumerate(entries))


def _questions_in(path: str, entry: Any, location: str) -> Iterator[Question]:
    title = str(entry.get("title", "")) if isinstance(entry, dict) else ""
    if isinstance(entry, dict) and "paragraphs" not in entry and "context" in entry:
        yield from _questions_about(path, entry, title, location)
        return
    for number, paragraph in enumerate(_list(path, entry, "paragraphs", location)):
        yield from _questions_about(path, paragraph, title, f"{location}.paragraphs[{number}]")


def _questions_about(path: str, paragraph: Any, title: str, location: str) -> Iterator[Question]:
    """The questions of a paragraph, or the paragraph itself if it is a question with its context."""
    context = _text(path, paragraph, "context", location)
    if "qas" not in paragraph and "question" in paragraph:
        yield _question(path, paragraph, context, title, location)
        return
    for number, entry in enumerate(_list(path, paragraph, "qas", location)):
        yield _question(path, entry, context, title, f"{location}.qas[{number}]")


def _question(path: str, entry: Any, context: str, title: str, location: str) -> Question:
    if not isinstance(entry, dict):
        raise UserError(f"{path}: {location} is {entry!r}; expected a question as an object.")
    is_known = entry.get("answers") is not None
    if isinstance(entry.get("answers"), dict):
        entry = {**entry, "answers": _columns_as_rows(path, entry["answers"], f"{location}.answers")}
    answers = []
    for number, answer in enumerate(_list(path, entry, "answers", location) if is_known else []):
        inner = f"{location}.answers[{number}]"
        text = _text(path, answer, "text", inner)
        start = answer.get("answer_start")
        if not isinstance(start, int) or isinstance(start, bool):
            raise UserError(f"{path}: {inner}.answer_start is {start!r}; expected a number of characters.")
        answers.append((text, start))
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


def _columns_as_rows(path: str, answers: dict[str, Any], location: str) -> list[dict[str, Any]]:
    """Converts answers in the layout of Hugging Face datasets, {"text": [...], "answer_start": [...]}, to SQuAD's."""
    texts, starts = (_list(path, answers, name, location) for name in ("text", "answer_start"))
    if len(texts) != len(starts):
        raise UserError(
            f"{path}: {location} has {len(texts)} texts and {len(starts)} answer_start; expected equal numbers."
        )
    return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]


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
    """(start, end) of an answer in its context, in characters; None if the context does not contain the text.

    If the text is not at the file's offset, as in some files, takes the nearest occurrence; without one, the nearest
    one with different white space between the words, like `run_squad.py`.
    """
    text, start = answer
    if text and question.context[start : start + len(text)] == text and start >= 0:
        return start, start + len(text)
    words = [re.escape(word) for word in text.split()]
    if not words:
        return None
    for pattern in (re.escape(text), SPACE.join(words)):
        spans = [match.span(1) for match in re.finditer(f"(?=({pattern}))", question.context)]  # they may overlap
        if spans:
            return min(spans, key=lambda span: abs(span[0] - start))
    return None

"""SQuAD files: questions, their contexts and answers (Rajpurkar et al. 2016, 2018). Free of TensorFlow.

Places of answers are characters (code points) of the context, as in the files.
"""

import dataclasses

from bert_tf.errors import UserError
from bert_tf.runtime.json_files import require_json


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A question about a context. `answers` are (text, start in characters), none where there is no answer.

    is_answerable: whether the context holds the answer, as the file says; None where it says nothing (a file without
    answers).
    """

    id: str
    question: str
    context: str
    answers: tuple = ()
    is_answerable: bool | None = None
    title: str = ""


def read(path):
    """The questions of a file in SQuAD's layout, 1.1 or 2.0, in its order.

    Raises UserError, with the place in the file, for what is not of this layout; for an id that occurs twice; and
    where there is no question at all.
    """
    found = {}
    for question in _of_articles(path, _content(path)):
        if question.id in found:
            raise UserError(f"{path} has two questions with the id {question.id!r}; expected another id for each.")
        found[question.id] = question
    if not found:
        raise UserError(f"{path} holds no questions; expected at least one in its data.")
    return list(found.values())


def _content(path):
    content = require_json(path, "a file in SQuAD's layout")
    if not isinstance(content.get("data"), list):
        raise UserError(f'{path} is not in SQuAD\'s layout; expected {{"data": [{{"paragraphs": [...]}}, ...]}}.')
    return content["data"]


def _of_articles(path, articles):
    for number, article in enumerate(articles):
        place = f"data[{number}]"
        title = article.get("title", "") if isinstance(article, dict) else ""
        for inner, paragraph in enumerate(_list(path, article, "paragraphs", place)):
            where = f"{place}.paragraphs[{inner}]"
            context = _text(path, paragraph, "context", where)
            for last, entry in enumerate(_list(path, paragraph, "qas", where)):
                yield _question(path, entry, context, str(title), f"{where}.qas[{last}]")


def _question(path, entry, context, title, place):
    if not isinstance(entry, dict):
        raise UserError(f"{path}: {place} is {entry!r}; expected a question as an object.")
    answers = []
    for number, answer in enumerate(_list(path, entry, "answers", place) if "answers" in entry else []):
        where = f"{place}.answers[{number}]"
        text = _text(path, answer, "text", where)
        start = answer.get("answer_start")
        if not isinstance(start, int) or isinstance(start, bool):
            raise UserError(f"{path}: {where}.answer_start is {start!r}; expected a number of characters.")
        answers.append((text, start))
    known = "answers" in entry
    is_answerable = (bool(answers) and not entry.get("is_impossible", False)) if known else None
    name = entry.get("id")
    if not isinstance(name, str | int) or name == "":
        raise UserError(f"{path}: {place}.id is {name!r}; expected the question's id.")
    return Question(
        id=str(name),
        question=_text(path, entry, "question", place),
        context=context,
        answers=tuple(answers) if is_answerable else (),
        is_answerable=is_answerable,
        title=title,
    )


def _list(path, holder, name, place):
    value = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(value, list):
        raise UserError(f"{path}: {place} has no list {name!r}; expected a file in SQuAD's layout.")
    return value


def _text(path, holder, name, place):
    value = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(value, str):
        raise UserError(f"{path}: {place}.{name} is {value!r}; expected a text.")
    return value


def place_of(question, answer):
    """(start, end) in characters of an answer in its context, None where the text does not stand there.

    An answer that stands elsewhere in the context, as some files have it, is taken from the occurrence nearest to the
    place the file names.
    """
    text, start = answer
    if text and question.context[start : start + len(text)] == text and start >= 0:
        return start, start + len(text)
    places, found = [], question.context.find(text) if text.strip() else -1
    while found >= 0:
        places.append(found)
        found = question.context.find(text, found + 1)
    if not places:
        return None
    nearest = min(places, key=lambda place: abs(place - start))
    return nearest, nearest + len(text)

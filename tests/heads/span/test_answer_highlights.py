"""Highlighted answers: which examples are chosen, what is marked in the text around them, the page."""

import json

import pytest
from report_pages import as_read, page_of

from bert_tf.data.questions import Prediction, Question
from bert_tf.heads.span import answer_highlights
from bert_tf.reports import scoreboard
from bert_tf.tasks import demo_questions

CONTEXT = "In 1066 William won. Then 😀 he <reigned> for years."


def question(name, *answers, known=True):
    answers = tuple((text, CONTEXT.index(text)) for text in answers)
    return Question(name, f"{name}?", CONTEXT, answers, bool(answers) if known else None)


def predicted(text, probability):
    start = CONTEXT.index(text) if text else 0
    answer = {"text": text, "start": start, "end": start + len(text), "probability": probability}
    return Prediction(answer, [answer])


QUESTIONS = [
    question("who", "William", "he"),
    question("when", "1066"),
    question("why"),
    question("new", known=False),
    question("how"),
]
PREDICTIONS = [
    predicted("William", 0.5),
    predicted("In 1066 William", 0.25),
    predicted("years", 0.75),
    predicted("he", 0.9),
    predicted("", 1.0),
]


@pytest.mark.parametrize(
    "answer, true_span, expected",
    [
        ((8, 15), (8, 15), [["In 1066 ", ""], ["William", "both"], [CONTEXT[15:], ""]]),
        ((3, 15), (8, 15), [["In ", ""], ["1066 ", "answer"], ["William", "both"], [CONTEXT[15:], ""]]),
        (None, (26, 27), [[CONTEXT[:26], ""], ["😀", "truth"], [CONTEXT[27:], ""]]),
        (None, None, [[CONTEXT, ""]]),
    ],
)
def test_predicted_and_true_answers_are_marked(answer, true_span, expected):
    assert answer_highlights.parts(CONTEXT, answer, true_span) == expected


def test_distant_text_is_elided_at_spaces():
    context = "one two " * 50 + "ANSWER " + "three four " * 50 + "TRUTH" + " five" * 50
    answer, true_span = ((context.index(word), context.index(word) + len(word)) for word in ("ANSWER", "TRUTH"))
    actual = answer_highlights.parts(context, answer, true_span)
    assert [mark for _, mark in actual] == ["", "", "answer", "", "", "", "truth", "", ""]
    assert [text for text, _ in actual if text == " … "] == [" … "] * 3
    for text, mark in actual:
        assert mark or text == " … " or set(text.split()) <= {"one", "two", "three", "four", "five"}
        assert text in context or text == " … "


def test_correct_answers_come_first_then_confident_mistakes():
    actual = answer_highlights.details(QUESTIONS, PREDICTIONS)
    assert (actual["right"], actual["partly"], actual["wrong"]) == (2, 1, 1)
    examples = [(example["question"], example["truth"], example["is_right"]) for example in actual["examples"]]
    assert answer_highlights.summarize(actual) == [
        "4 answers: 2 right, 1 partly right (a word in common), 1 wrong.",
        "Some right answers:",
        "  who?  ->  William",
        "  how?  ->  no answer",
    ]
    assert examples == [("who?", "William", True), ("how?", "", True), ("why?", "", False), ("when?", "1066", False)]


def test_answers_are_marked_in_the_page_and_escaped(tmp_path):
    details = {"dev": {"questions": answer_highlights.details(QUESTIONS, PREDICTIONS)}}
    page = page_of(tmp_path, eval_details=details, eval_results={"f1": 50.0})
    text = as_read(page)
    for expected in (
        "4 answers: 2 correct (50.0%), 1 partially correct (25.0%), 1 wrong (25.0%).",
        "correct answer predicted answer true answer",
        "when? In 1066 William won. Then 😀 he &lt;reigned&gt; for years. ✗ In 1066 William 25% true: 1066",
        "✓ no answer 100%",
    ):
        assert expected in text
    assert '<mark class="answer">In </mark><mark class="both">1066</mark><mark class="answer"> William</mark>' in page


@pytest.mark.parametrize(
    "content", [{"right": 1}, {"right": 1, "partly": 0, "wrong": 0, "examples": [3, {"parts": 1}]}]
)
def test_unexpected_details_are_tolerated(content, tmp_path):
    json.dumps(content)
    assert all(split["examples"] == [] for split in scoreboard.question_details({"dev": {"questions": content}}))
    page_of(tmp_path, eval_details={"dev": {"questions": content}})


@pytest.mark.parametrize(
    "name, after, expected",
    [
        ("KeyError", " is raised.", "which exception"),
        ("StopIteration", " exception ends it.", "which"),
        ("__add__()", " is called.", "which special method"),
        ("__dict__", ".", "which special attribute"),
        ("os.stat()", ".", "which function"),
        ("None", " is given.", "which constant"),
        ("if", " or while.", "which name"),
        ("if", " statements.", "which name"),
        ("if", " statement.", "which"),
    ],
)
def test_question_word_follows_the_kind_of_name(name, after, expected):
    assert demo_questions.question_word(name, after) == expected


def test_demo_scores_no_answer_without_a_word_of_its_own():
    sentence = 'The underscore "_", the letter "a" and the longer "name{0}" are names in loop {0}.'
    passages = {f"topic{number}": sentence.format(number) for number in range(40)}
    train, dev = ({q.answers[0][0][:4] for q in split} for split in demo_questions.questions(passages).values())
    assert (train, dev) == ({"_", "a", "name"}, {"name"}), "exact match is right for '_' and '__*__'"


def test_demo_questions_have_answers_and_disjoint_splits():
    sentences = [f'The "name{number}" statement and the "other" one end loop {number}.' for number in range(240)]
    topics = {f"topic{number}": "\n\n".join(sentences[6 * number :][:6]) for number in range(40)}
    actual = demo_questions.questions(topics)
    train, dev = actual["train"], actual["dev"]
    assert train and dev and not {q.context for q in dev} & {q.context for q in train}
    for question in train + dev:
        ((name, start),) = question.answers
        assert question.context[start - 1 :].startswith(f'"{name}"')
        assert question.question.count("which") == 1 and question.question.endswith("?")
    assert dev[0].question.startswith("The which statement and")
    assert "statement and the which name one" not in dev[0].question and "the which name one" in dev[1].question
    for topic in {q.title for q in dev}:
        names = [q.answers[0][0] for q in dev if q.title == topic]
        assert len(set(names)) == len(names) == 7  # six numbered ones, and "other" once
    assert [len(q.context.split(".")) - 1 for q in train[:7]] == [2, 1, 2, 1, 3, 2, 2]  # sentences of a context
    assert [len(q.context.split(".")) - 1 for q in dev[:3]] == [2, 2, 3]
